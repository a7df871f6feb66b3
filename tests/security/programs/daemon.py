# argv[1]: the daemon's name. argv[2]: whether the program stays. The daemon ignores signals, keeps stdout.
import os
import signal
import sys
import time

name, what = sys.argv[1:3]
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(number, signal.SIG_IGN)
        os.write(1, b"daemon runs\n")
        os.execv("/bin/sleep", [name, "600"])
    os._exit(0)
os.wait()
time.sleep(600 if what == "stay" else 0.3)
