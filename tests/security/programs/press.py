# argv[1]: the resource to use up until the program is ended: cpu, memory, files, forks.
import os
import sys

what = sys.argv[1]
print("up", flush=True)
if what == "cpu":
    for _ in range(7):
        if os.fork() == 0:
            break
    while True:
        pass
held, number = [], 0
while True:
    try:
        if what == "memory":
            # Stays just below the limit, freeing and allocating again, so that the kernel reclaims endlessly.
            held.append(bytearray(b"x") * (1 << 20))
            if len(held) > 70:
                del held[:60]
        elif what == "files":
            number += 1
            with open("/tmp/f%d" % (number % 4000), "wb") as file:
                file.write(b"x" * 65536)
        elif what == "forks":
            if os.fork() == 0:
                os.setsid()
    except (OSError, MemoryError):
        pass
