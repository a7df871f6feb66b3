# Children of children in sessions of their own, which ignore every signal and fork on, whatever fork says.
# With an argument it begins when it is interrupted: whoever looks at the sandbox before that may take his
# time.
import os
import signal
import sys
import time

try:
    if len(sys.argv) > 1:
        print("waits", flush=True)
        time.sleep(60)
except KeyboardInterrupt:
    pass
for number in range(1, signal.NSIG):
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
print("up", flush=True)
while True:
    try:
        if os.fork() == 0:
            os.setsid()
            if os.fork() > 0:
                os._exit(0)
    except OSError:
        pass
