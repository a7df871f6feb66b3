# Children of children in sessions of their own, which ignore every signal and fork on, whatever fork says.
import os
import signal
import sys

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
