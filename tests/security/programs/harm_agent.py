# Does to the agent and to every other process whatever one process can do to another. With an argument it
# then waits until it is interrupted, so that a test can look at the agent.
import ctypes
import os
import resource
import signal
import sys
import time

libc = ctypes.CDLL(None)
for pid in {1, os.getppid()}:
    for number in range(1, 65):
        try:
            os.kill(pid, number)
        except (OSError, ValueError):
            pass
    for limit in (resource.RLIMIT_NOFILE, resource.RLIMIT_CPU, resource.RLIMIT_AS, resource.RLIMIT_FSIZE):
        try:
            resource.prlimit(pid, limit, (0, 0))
        except (OSError, ValueError):
            pass
    libc.ptrace(16, pid, 0, 0)
    try:
        handle = os.pidfd_open(pid)
        for number in (signal.SIGSTOP, signal.SIGKILL):
            signal.pidfd_send_signal(handle, number)
    except OSError:
        pass
for group in (os.getppid(), 1):
    try:
        os.killpg(group, signal.SIGSTOP)
    except OSError:
        pass
try:
    print("harmed", flush=True)
    time.sleep(60 if len(sys.argv) > 1 else 1)
except KeyboardInterrupt:
    pass
print("alive", flush=True)
os._exit(7)
