# Creates empty files and hard links until it fails. Each costs kernel memory, none counts as a byte.
import os
import time

made, end = 0, time.monotonic() + 20
try:
    os.mkdir("many")
    while made < 400000 and time.monotonic() < end:
        os.close(os.open("many/%d" % made, os.O_CREAT | os.O_WRONLY))
        made += 1
except OSError:
    pass
print(made, flush=True)
os._exit(0)
