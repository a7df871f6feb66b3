# Forks children of children in their own sessions, which ignore every signal and keep forking. With an
# argument it starts when it is interrupted, so that a test can look at the sandbox first.
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
