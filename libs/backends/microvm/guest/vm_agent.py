"""Starts the guest agent of a virtual machine, which gets what it would have in a container: namespaces, a
cgroup with the limits, mounts of its own, few devices, three capabilities. Standard library only, Python 3.9
or newer.
"""
import ctypes
import os
import resource
import struct

from cofferdam_agent import collect, tunnel  # noqa: F401 (needed by few programs, and late to import then)
from cofferdam_agent.main import main as agent_main

JOB = "/sys/fs/cgroup/job"

# Capabilities of the agent: to become the program's user, and to end its processes.
CAP_KILL, CAP_SETGID, CAP_SETUID, CAP_LAST = 5, 6, 7, 40
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 1, 2, 4, 8, 32
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18
MNT_DETACH = 2
NEW_MOUNTS, NEW_CGROUP, NEW_UTS, NEW_IPC, NEW_PIDS = 0x20000, 0x2000000, 0x4000000, 0x8000000, 0x20000000
PR_SET_NO_NEW_PRIVS, PR_CAPBSET_DROP = 38, 24
# Hidden, as in a container: these files describe the kernel or are meant for root.
MASKED = ("/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/cmdline", "/proc/interrupts", "/proc/config.gz")
MASKED_FOLDERS = ("/proc/acpi", "/proc/scsi", "/sys/firmware", "/sys/class", "/sys/module", "/sys/block", "/sys/bus", "/sys/dev")
READ_ONLY = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")
DEVICES = {"null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9), "tty": (5, 0)}

libc = ctypes.CDLL(None, use_errno=True)


def checked(result, what):
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, "%s: %s" % (what, os.strerror(number)))
    return result


def mount(source, target, kind, flags=0, options=""):
    words = [None if text is None else text.encode() for text in (source, target, kind)]
    checked(libc.mount(*words, ctypes.c_ulong(flags), options.encode()), "mount %s" % target)


def write(path, text):
    with open(path, "w") as out:
        out.write(text)


def start_agent(told, port):
    """Returns the agent's pid and the descriptor to read its stderr from."""
    os.mkdir(JOB)
    for name, value in told["cgroup"].items():
        write("%s/%s" % (JOB, name), value)
    outside, inside = os.pipe2(os.O_CLOEXEC)
    # This moves only later children into the new namespace, and the agent is the only one.
    checked(libc.unshare(NEW_PIDS), "unshare")
    pid = os.fork()
    if pid == 0:
        try:
            become_agent(told, port, inside)
        except BaseException as error:
            os.write(inside, ("%s: %s" % (type(error).__name__, error)).encode())
        os._exit(71)
    os.close(inside)
    os.close(port)
    return pid, outside


def become_agent(told, port, errors):
    write(JOB + "/cgroup.procs", "0")
    checked(libc.unshare(NEW_MOUNTS | NEW_CGROUP | NEW_UTS | NEW_IPC), "unshare")
    own_mounts(told)
    for fd, number in ((port, 0), (port, 1), (errors, 2)):
        os.dup2(fd, number)
    resource.setrlimit(resource.RLIMIT_NOFILE, (told["open_files"],) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.setgroups([])
    drop_capabilities()
    os.chdir("/")
    os.environ.clear()
    # agent_main was imported before the machine was saved. Starting a new Python here would take a third of a
    # second on an emulated machine.
    agent_main(told["options"])


def own_mounts(told):
    mount(None, "/", None, MS_REC | MS_PRIVATE)
    plain = MS_NOSUID | MS_NODEV
    mount("tmpfs", "/tmp", "tmpfs", plain, told["tmp"])
    mount("tmpfs", "/run", "tmpfs", plain | MS_NOEXEC, "mode=755,size=1m")
    if told["filter"]:
        with open("/run/filter", "wb") as out:
            out.write(bytes.fromhex(told["filter"]))
    mount(None, "/run", None, MS_REMOUNT | MS_RDONLY | plain | MS_NOEXEC, "mode=755,size=1m")
    mount("proc", "/proc", "proc", plain | MS_NOEXEC)
    # The same file system cannot be mounted twice at one place.
    checked(libc.umount2(b"/sys", MNT_DETACH), "umount /sys")
    mount("sysfs", "/sys", "sysfs", plain | MS_NOEXEC | MS_RDONLY)
    mount("cgroup2", "/sys/fs/cgroup", "cgroup2", plain | MS_NOEXEC | MS_RDONLY)
    mount("tmpfs", "/dev", "tmpfs", MS_NOSUID | MS_NOEXEC, "mode=755,size=64k")
    os.umask(0)
    for name, (major, minor) in DEVICES.items():
        os.mknod("/dev/" + name, 0o20666, os.makedev(major, minor))
    os.umask(0o022)
    for name, target in (("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2"), ("ptmx", "pts/ptmx")):
        os.symlink(target, "/dev/" + name)
    for name in ("shm", "pts", "mqueue"):
        os.mkdir("/dev/" + name)
    mount("tmpfs", "/dev/shm", "tmpfs", plain | MS_NOEXEC, "mode=1777,size=%d" % told["shm_bytes"])
    mount("devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620")
    mount("mqueue", "/dev/mqueue", "mqueue", plain | MS_NOEXEC)
    for path in MASKED:
        if os.path.exists(path):
            mount("/dev/null", path, None, MS_BIND)
    for path in MASKED_FOLDERS:
        if os.path.isdir(path):
            mount("tmpfs", path, "tmpfs", plain | MS_NOEXEC | MS_RDONLY, "size=0,mode=555")
    for path in READ_ONLY:
        if os.path.exists(path):
            mount(path, path, None, MS_BIND | MS_REC)
            mount(None, path, None, MS_BIND | MS_REMOUNT | MS_RDONLY | plain | MS_NOEXEC)


def drop_capabilities():
    kept = {CAP_KILL, CAP_SETGID, CAP_SETUID}
    for number in range(CAP_LAST + 1):
        if number not in kept:
            libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0)
    mask = sum(1 << number for number in kept)
    # Version 3 of the structures in linux/capability.h: two words each of effective, permitted, inheritable.
    head = struct.pack("Ii", 0x20080522, 0)
    checked(libc.capset(head, struct.pack("6I", mask, mask, 0, 0, 0, 0)), "capset")
    checked(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl")
