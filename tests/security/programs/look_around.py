# Prints everything that a program can see of its sandbox and that must be the same in a fresh one: files,
# processes, descriptors, limits, scheduling, signals, System V objects, sockets, locks, mounts. Random values
# are under `chance`.
import ctypes
import fcntl
import os
import random
import re
import resource
import signal
import socket
import stat
import sys
import time
import uuid

libc = ctypes.CDLL(None, use_errno=True)
seen = {}


def text(path):
    try:
        with open(path, "rb") as file:
            return file.read(1 << 20).decode("utf-8", "replace")
    except OSError as error:
        return "errno %s" % error.errno


def guarded(name, work):
    try:
        seen[name] = work()
    except (OSError, AttributeError, ValueError) as error:
        seen[name] = "%s %s" % (type(error).__name__, getattr(error, "errno", ""))


def tree(top):
    found = {}
    for folder, folders, names in os.walk(top, followlinks=False):
        for name in [""] + folders + names:
            path = os.path.join(folder, name) if name else folder
            if name and os.path.isdir(path) and not os.path.islink(path):
                continue
            try:
                info = os.lstat(path)
                is_file = stat.S_ISREG(info.st_mode)
                attributes = [] if stat.S_ISLNK(info.st_mode) else sorted(os.listxattr(path))
                shape = [stat.filemode(info.st_mode), info.st_size if is_file else 0, info.st_uid, attributes]
            except OSError as error:
                shape = [error.errno]
            found[path.encode("utf-8", "backslashreplace").decode()] = shape
    return found


def flags(path):
    fd = os.open(path, os.O_RDONLY)
    try:
        # FS_IOC_GETFLAGS
        return fcntl.ioctl(fd, 0x80086601, b"\0" * 8).hex()
    finally:
        os.close(fd)


def descriptors():
    found = {}
    for fd in range(0, 1024):
        try:
            found[str(fd)] = stat.filemode(os.fstat(fd).st_mode)
        except OSError:
            pass
    return found


def processes():
    found = []
    for name in sorted(os.listdir("/proc")):
        if name.isdigit() and int(name) != os.getpid():
            command, _, rest = text("/proc/%s/stat" % name).rpartition(")")
            found.append(command.partition("(")[2] + " " + rest[1:2])
    return sorted(set(found))


def resting_processes():
    """Waits up to two seconds until all processes sleep. The agent's own work is over by then. A process that
    was left behind may still run, or be a zombie.
    """
    deadline = time.monotonic() + 2
    while True:
        found = processes()
        if all(one.endswith(" S") for one in found) or time.monotonic() > deadline:
            return found
        time.sleep(0.01)


def listening():
    found = []
    for table in ("tcp", "tcp6"):
        found += [line.split()[1] for line in text("/proc/net/%s" % table).splitlines()[1:] if line.split()[3] == "0A"]
    for table in ("udp", "udp6"):
        found += [table + line.split()[1] for line in text("/proc/net/%s" % table).splitlines()[1:]]
    # The name of the agent's socket ends in a random number and "/s".
    found += [line.split()[7] for line in text("/proc/net/unix").splitlines()[1:] if len(line.split()) > 7]
    return sorted("the agent's" if re.search(r"/[0-9a-f]{12}/s$", name) else name for name in found)


def locks():
    # Locks of open file descriptions have the owner -1 in every namespace. Count only those on disks that
    # this program can reach.
    devices = [os.stat(path).st_dev for path in (work, "/tmp", "/dev/shm") if os.path.isdir(path)]
    marks = [" -1 %02x:%02x:" % (os.major(device), os.minor(device)) for device in devices]
    lines = text("/proc/locks").splitlines()
    return len([line for line in lines if " -1 " not in line or any(mark in line for mark in marks)])


def used(path):
    info = os.statvfs(path)
    return [info.f_blocks - info.f_bfree, info.f_files - info.f_ffree]


work = os.getcwd()
tops = []
for top in ("/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue", "/run", "/var/run", "/home", os.environ.get("HOME", "/tmp")):
    # Some folders are other names of the same one.
    if os.path.isdir(top) and not any(os.path.samefile(top, other) for other in tops):
        tops.append(top)
        guarded("tree " + top, lambda: {path: shape for path, shape in tree(top).items() if not (path + "/").startswith(work + "/")})
guarded("work", lambda: {path: shape for path, shape in tree(work).items() if path != work + "/main.py"})
guarded("dev", lambda: sorted(os.listdir("/dev")))
guarded("root", lambda: sorted(os.listdir("/")))
guarded("work flags", lambda: flags(work))
# Only a program sets times in 1970.
guarded("times", lambda: [path for path in (work, "/tmp", "/dev/shm") if min(os.stat(path).st_mtime, os.stat(path).st_atime) < 1e9])
guarded("descriptors", descriptors)
guarded("processes", resting_processes)
guarded("sockets", listening)
guarded("locks", locks)
guarded("mounts", lambda: sorted(" ".join(line.split()[4:6]) for line in text("/proc/self/mountinfo").splitlines()))
for kind in ("shm", "sem", "msg"):
    guarded("sysv " + kind, lambda: len(text("/proc/sysvipc/%s" % kind).splitlines()))
# Kernel settings of which each namespace has its own.
for path in ("kernel/msgmax", "kernel/msgmni", "kernel/sem", "kernel/shmmax", "kernel/shm_rmid_forced", "kernel/pid_max", "fs/mqueue/queues_max", "fs/mqueue/msg_max", "net/ipv4/ip_local_port_range", "net/ipv4/ping_group_range", "net/core/somaxconn"):
    guarded("sys " + path, lambda: text("/proc/sys/" + path))
for path in ("/tmp", "/dev/shm"):
    guarded("used " + path, lambda: used(path))
guarded("environment", lambda: dict(sorted(os.environ.items())))
guarded("where", lambda: [work, sys.argv[1:], sys.path[1:]])
umask = os.umask(0o077)
os.umask(umask)
seen["umask"] = umask
for name in sorted(dir(resource)):
    if name.startswith("RLIMIT_"):
        guarded(name, lambda: list(resource.getrlimit(getattr(resource, name))))
guarded("nice", lambda: os.getpriority(os.PRIO_PROCESS, 0))
guarded("scheduler", lambda: [os.sched_getscheduler(0), os.sched_getparam(0).sched_priority])
guarded("cpus", lambda: sorted(os.sched_getaffinity(0)))
guarded("ioprio", lambda: libc.syscall(252 if os.uname().machine == "x86_64" else 31, 1, 0))


def scheduling():
    attributes = ctypes.create_string_buffer(64)
    libc.syscall(315 if os.uname().machine == "x86_64" else 275, 0, attributes, 56, 0)
    # The time slice (at byte 24) is the kernel's default unless a process set another one.
    return attributes.raw[:56].hex()


guarded("sched_getattr", scheduling)
for name in ("oom_score_adj", "coredump_filter", "timerslack_ns", "personality", "attr/current"):
    guarded("self " + name, lambda: text("/proc/self/" + name))
for line in text("/proc/self/status").splitlines():
    if line.split(":")[0] in ("Uid", "Gid", "Groups", "SigPnd", "ShdPnd", "SigBlk", "SigIgn", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp", "TracerPid", "Cpus_allowed", "THP_enabled"):
        seen["status " + line.split(":")[0]] = line.split(":", 1)[1].strip()
# The name of an autogroup has a number that the host counts up, so compare only what follows.
guarded("autogroup", lambda: text("/proc/self/autogroup").partition(" ")[2])
guarded("timers", lambda: [list(signal.getitimer(kind)) for kind in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)])
guarded("leader", lambda: [os.getsid(0) == os.getpid(), os.getpgrp() == os.getpid()])
guarded("dumpable", lambda: [libc.prctl(option, 0, 0, 0, 0) for option in (3, 7, 21, 23, 27)])
guarded("host name", lambda: socket.gethostname())
numpy = None
try:
    import numpy
except ImportError:
    pass
seen["chance"] = [repr(random.random()), str(uuid.uuid4()), os.urandom(8).hex(), repr(float(numpy.random.rand())) if numpy else "", hash("x"), id(object())]
import json

os.write(1, json.dumps(seen).encode() + b"\n")
