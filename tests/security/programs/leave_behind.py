# argv[1]: a name by which the host finds what is left. argv[2]: `places` or `processes`. Leaves something of
# every kind for the next execution. With `processes`, it also changes what the next execution would inherit
# of the processes that wait for it. Prints what could be left.
import ctypes
import fcntl
import json
import os
import resource
import signal
import socket
import sys
import time

name, what = sys.argv[1:3]
libc = ctypes.CDLL(None, use_errno=True)
left, held = [], []
X64 = os.uname().machine == "x86_64"


def leave(label, work):
    try:
        got = work()
        if not (isinstance(got, int) and not isinstance(got, bool) and got < 0):
            left.append(label)
    except (OSError, ValueError, AttributeError):
        pass


def write(path):
    with open(path, "w") as file:
        file.write(name)


def daemon(stopped):
    ready, told = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            for number in range(1, 65):
                try:
                    signal.signal(number, signal.SIG_IGN)
                except (OSError, ValueError):
                    pass
            keep_in_daemon()
            os.write(told, b"up")
            if stopped:
                os.kill(os.getpid(), signal.SIGSTOP)
            os.execv("/bin/sleep", [name, "600"])
        os._exit(0)
    os.wait()
    os.close(told)
    return len(os.read(ready, 2)) - 2


def keep_in_daemon():
    """Leaves what lives as long as its process: locks, sockets, watches, memory."""
    def keep(work):
        try:
            held.append(work())
        except (OSError, ValueError, AttributeError):
            pass

    def listener(family, address):
        one = socket.socket(family)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        one.bind(address)
        one.listen()
        os.set_inheritable(one.fileno(), True)
        return one

    lock = open("/tmp/%s.lock" % name, "w")
    keep(lambda: fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB))
    keep(lambda: fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB))
    os.set_inheritable(lock.fileno(), True)
    keep(lambda: listener(socket.AF_UNIX, "\0" + name))
    # The port of the proxy. A listener there would see the next execution's requests.
    keep(lambda: listener(socket.AF_INET, ("127.0.0.1", 3128)))
    keep(lambda: libc.inotify_add_watch(libc.inotify_init1(0), b"/tmp", 0xFFF))
    keep(lambda: os.write(os.memfd_create(name, 0), b"x" * 4096))


daemons = [leave("daemon", lambda: daemon(False)), leave("stopped daemon", lambda: daemon(True))]

for folder in ("/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue", "/run", "/dev", "/", "/home", "/usr/lib", os.path.expanduser("~")):
    leave("file in " + folder, lambda: write("%s/%s" % (folder, name)))
    leave("hidden in " + folder, lambda: write("%s/.%s" % (folder, name)))
for odd in ("a\nb", "-rf", " ", "\u202egpj", "d" * 255, "..."):
    leave("odd name", lambda: write(odd))
leave("bytes", lambda: open(b"\xff\xfe", "w").close())
for number in range(2000):
    leave("many", lambda: os.close(os.open("/tmp/%s-%d" % (name, number), os.O_CREAT)))
here = os.getcwd()
for _ in range(300):
    os.mkdir("nest")
    os.chdir("nest")
write("deep")
os.chdir(here)
os.makedirs("closed/inside")
write("closed/inside/file")
leave("closed folder", lambda: os.chmod("closed/inside", 0))
leave("closed folder", lambda: os.chmod("closed", 0))
for target, link in (("/", "root"), ("..", "up"), ("/etc/passwd", "passwd"), (here, "loop")):
    leave("link", lambda: os.symlink(target, link))
    leave("link", lambda: os.symlink(target, "/tmp/%s-%s" % (name, link)))
write("one")
leave("hard link", lambda: os.link("one", "/tmp/%s-two" % name))
leave("fifo", lambda: os.mkfifo("/tmp/%s-fifo" % name))
bound = socket.socket(socket.AF_UNIX)
leave("socket", lambda: bound.bind("/tmp/%s-socket" % name))
open_unlinked = open("/tmp/%s-unlinked" % name, "wb")
open_unlinked.write(b"x" * 1048576)
os.unlink("/tmp/%s-unlinked" % name)
for path in (here, "/dev/shm"):
    leave("attribute", lambda: os.setxattr(path, "user.left", name.encode()))
    # A default ACL that lets everybody write files that are created here later.
    acl = b"\x02\0\0\0" + b"".join(bytes([tag, 0, 7, 0]) + b"\xff\xff\xff\xff" for tag in (1, 4, 32))
    leave("acl", lambda: os.setxattr(path, "system.posix_acl_default", acl))

    def flags():
        fd = os.open(path, os.O_RDONLY)
        # FS_IOC_SETFLAGS: NODUMP | NOATIME, and IMMUTABLE if that is allowed.
        for value in (0xC0, 0xD0):
            fcntl.ioctl(fd, 0x40086602, value.to_bytes(8, "little"))

    leave("flags", flags)
    leave("times", lambda: os.utime(path, (1, 1)))
leave("times", lambda: os.utime("/tmp", (1, 1)))
leave("mode", lambda: os.chmod(here, 0o1777))
leave("mode", lambda: os.chmod("/dev/shm", 0o700))
for number in range(3):
    leave("segment", lambda: libc.shmget(0x5EC0 + number, 4096, 0o1666))
    leave("semaphore", lambda: libc.semget(0x5EC0 + number, 1, 0o1666))
    leave("queue", lambda: libc.msgget(0x5EC0 + number, 0o1666))
leave("private segment", lambda: libc.shmget(0, 65536, 0o1600))
leave("message queue", lambda: ctypes.CDLL("librt.so.1", use_errno=True).mq_open(("/" + name).encode(), 0o102, 0o666, None))
for path, value in (("kernel/msgmax", "4096"), ("kernel/msgmni", "7"), ("kernel/sem", "7 7 7 7"), ("kernel/shmmax", "8192"), ("kernel/shm_rmid_forced", "1"), ("kernel/pid_max", "400"), ("fs/mqueue/queues_max", "7"), ("fs/mqueue/msg_max", "7"), ("net/ipv4/ip_local_port_range", "2000 2100"), ("net/ipv4/ping_group_range", "0 7"), ("net/core/somaxconn", "7")):
    leave("switch " + path, lambda: open("/proc/sys/" + path, "w").write(value))

# Changes what the waiting processes would pass on: for each process, and for a whole user or group.
others = [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and int(pid) != os.getpid()]
for pid in {1, os.getppid(), *others} if what == "processes" else ():
    leave("nice %d" % pid, lambda: libc.setpriority(0, pid, 7))
    leave("cpus %d" % pid, lambda: os.sched_setaffinity(pid, {max(os.sched_getaffinity(0))}))
    leave("scheduler %d" % pid, lambda: os.sched_setscheduler(pid, os.SCHED_BATCH, os.sched_param(0)))
    leave("ioprio %d" % pid, lambda: libc.syscall(251 if X64 else 30, 1, pid, (3 << 13) | 0))
    attributes = (48).to_bytes(4, "little") + (0).to_bytes(4, "little") + (0).to_bytes(8, "little") + (5).to_bytes(4, "little") + (0).to_bytes(4, "little") + (50000000).to_bytes(8, "little") + bytes(16)
    leave("slice %d" % pid, lambda: libc.syscall(314 if X64 else 274, pid, attributes, 0))
    leave("limit %d" % pid, lambda: resource.prlimit(pid, resource.RLIMIT_NOFILE, (32, 32)) and None)
    for file, value in (("oom_score_adj", "900"), ("coredump_filter", "0x1"), ("timerslack_ns", "1000000"), ("autogroup", "9"), ("comm", "gone"), ("clear_refs", "1")):
        leave("%s %d" % (file, pid), lambda: os.close(os.open("/proc/%d/%s" % (pid, file), os.O_WRONLY)) or open("/proc/%d/%s" % (pid, file), "w").write(value))
if what == "processes":
    leave("nice of all", lambda: libc.setpriority(2, os.getuid(), 7))
    leave("ioprio of all", lambda: libc.syscall(251 if X64 else 30, 3, os.getuid(), (3 << 13) | 0))
# Changes what this process itself would pass on.
os.environ["LEFT"] = name
os.umask(0)
os.nice(3)
for limit, value in ((resource.RLIMIT_CORE, 0), (resource.RLIMIT_NOFILE, 40), (resource.RLIMIT_STACK, 1 << 20)):
    leave("own limit", lambda: resource.setrlimit(limit, (value, value)))
signal.setitimer(signal.ITIMER_REAL, 3600)
leave("alarm of all", lambda: os.kill(-1, signal.SIGCONT))
os.write(1, json.dumps(sorted(set(left))).encode() + b"\n")
os._exit(0)
