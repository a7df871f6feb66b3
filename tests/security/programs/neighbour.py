# argv: `wait` or `hunt`, a name that both know, and (for hunt) PIDs of the host as JSON. `wait` leaves traces
# of every kind and waits. `hunt` looks for them, and attacks every process that it can name.
import ctypes
import json
import os
import resource
import signal
import socket
import sys
import time

what, name = sys.argv[1:3]
libc = ctypes.CDLL(None, use_errno=True)
key = 0x5EC10000 + sum(name.encode()) % 0xFFFF
folders = ("/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue")
found = []


def attempt(label, work):
    try:
        got = work()
        if got is None or got >= 0:
            found.append(label)
    except OSError:
        pass


if what == "wait":
    held = []
    for folder in folders:
        try:
            open("%s/%s" % (folder, name), "w").close()
        except OSError:
            pass
    try:
        server = socket.socket(socket.AF_UNIX)
        server.bind("\0" + name)
        server.listen()
        held.append(server)
    except OSError:
        pass
    libc.shmget(key, 4096, 0o1666)
    libc.semget(key, 1, 0o1666)
    libc.msgget(key, 0o1666)
    print("up", flush=True)
    time.sleep(600)

for folder in folders:
    if os.path.exists("%s/%s" % (folder, name)):
        found.append(folder)
attempt("abstract socket", lambda: socket.socket(socket.AF_UNIX).connect("\0" + name))
attempt("segment", lambda: libc.shmget(key, 0, 0))
attempt("semaphore", lambda: libc.semget(key, 0, 0))
attempt("queue", lambda: libc.msgget(key, 0))
for pid in json.loads(sys.argv[3]):
    if os.path.exists("/proc/%d/cmdline" % pid) and os.access("/proc/%d/cmdline" % pid, 4):
        try:
            found.append(open("/proc/%d/cmdline" % pid).read()[:50])
        except OSError:
            pass
    attempt("kill %d" % pid, lambda: os.kill(pid, signal.SIGKILL))
    attempt("stop %d" % pid, lambda: os.kill(pid, signal.SIGSTOP))
    attempt("stop group %d" % pid, lambda: os.killpg(pid, signal.SIGSTOP))
    attempt("nice %d" % pid, lambda: os.setpriority(os.PRIO_PROCESS, pid, 19))
    attempt("affinity %d" % pid, lambda: os.sched_setaffinity(pid, {0}))
    attempt("limit %d" % pid, lambda: resource.prlimit(pid, resource.RLIMIT_NOFILE, (0, 0)) and None)
    attempt("trace %d" % pid, lambda: libc.ptrace(16, pid, 0, 0))
libc.setpriority(2, 0, 19)
try:
    os.kill(-1, signal.SIGKILL)
except OSError:
    pass
print(json.dumps(found), flush=True)
