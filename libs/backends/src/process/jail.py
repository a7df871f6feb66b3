"""Rung 2: fences itself in, then becomes the guest agent. Start: `python3 -I -S jail.py GUEST SETTINGS AGENT-OPTIONS…`.

GUEST is the folder of the guest files. SETTINGS is JSON: folder (the sandbox's own on the host, holds tmp and work), read (folders and files to read), filter and
bareFilter (BPF files; the second where there are no namespaces), namespaces (try them), disk (bytes). It prints one line on fd 3: JSON with pid (in the host's namespace), namespaces, proc,
landlock. Any step that must hold and does not ends the process with a message before any program can run.

Order: namespaces (if the host lets us) → read-only mounts, tmpfs and /proc of our own → Landlock → seccomp → agent.
"""
import _signal as signal
import ctypes
import os
import struct
import sys

libc = ctypes.CDLL(None, use_errno=True)
NEWNS, NEWCGROUP, NEWUTS, NEWIPC = 0x20000, 0x2000000, 0x4000000, 0x8000000
NEWUSER, NEWPID, NEWNET = 0x10000000, 0x20000000, 0x40000000
MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_PRIVATE = 2, 4, 8, 1 << 18
# linux/mount.h, linux/fcntl.h
MOUNT_SETATTR, AT_FDCWD, AT_RECURSIVE, ATTR_RDONLY, ATTR_NOSUID = 442, -100, 0x8000, 1, 2
CREATE, ADD, RESTRICT = 444, 445, 446
NOBODY = 65534

# linux/landlock.h: rights over files by the ABI that brought them.
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1, 2, 4, 8
ALL_V1 = (1 << 13) - 1
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
FILE_ONLY = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
NET_BIND_TCP, NET_CONNECT_TCP = 1, 2
SCOPE_ABSTRACT_UNIX, SCOPE_SIGNAL = 1, 2


def fail(text):
    sys.stderr.write("jail: %s\n" % text)
    os._exit(71)


def checked(result, what):
    if result < 0:
        fail("%s: %s" % (what, os.strerror(ctypes.get_errno())))
    return result


def prctl(option, value, more=0):
    return libc.prctl(option, ctypes.c_ulong(value), ctypes.c_ulong(more), ctypes.c_ulong(0), ctypes.c_ulong(0))


def mount(source, target, kind, flags, data=""):
    args = [text.encode() if text else None for text in (source, target, kind)]
    return libc.mount(args[0], args[1], args[2], ctypes.c_ulong(flags), data.encode())


def unshare():
    """Namespaces of our own and one identity in them; False when the host does not allow it."""
    uid, gid = os.geteuid(), os.getegid()
    if libc.unshare(NEWUSER | NEWNS | NEWCGROUP | NEWUTS | NEWIPC | NEWPID | NEWNET) != 0:
        return False
    try:
        for name, text in (("setgroups", "deny"), ("uid_map", "%d %d 1" % (NOBODY, uid)), ("gid_map", "%d %d 1" % (NOBODY, gid))):
            with open("/proc/self/" + name, "w") as out:
                out.write(text)
    except OSError as error:
        # A user namespace without an identity is of no use and cannot be left again.
        fail("identity in the user namespace: %s" % error)
    libc.sethostname(b"sandbox", ctypes.c_size_t(7))
    return True


def become_init(report, jsontext):
    """Forks: the child is PID 1 of the new namespace; this process waits for it and ends with it."""
    pid = os.fork()
    if pid == 0:
        prctl(1, signal.SIGKILL)
        return
    report["pid"] = pid
    os.write(3, jsontext.encode(report) + b"\n")
    # Only the agent holds the channel, so that its end is the end of the channel.
    os.closerange(0, 4)
    try:
        os.waitpid(pid, 0)
    except ChildProcessError:
        pass
    os._exit(0)


def own_mounts(folder, disk):
    """True when /proc shows only our own processes; a container's masked /proc makes the kernel refuse that mount."""
    # Landlock does not know chmod, chown, utime and setxattr: without this a program changes all files of the worker's user.
    attributes = ctypes.create_string_buffer(struct.pack("<QQQQ", ATTR_RDONLY | ATTR_NOSUID, 0, MS_PRIVATE, 0), 32)
    changed = libc.syscall(MOUNT_SETATTR, AT_FDCWD, b"/", AT_RECURSIVE, attributes, ctypes.c_size_t(32))
    checked(changed, "private read-only mounts")
    options = "size=%d,nr_inodes=16k,mode=0755" % disk
    checked(mount("tmpfs", folder, "tmpfs", MS_NOSUID | MS_NODEV, options), "tmpfs")
    checked(mount("tmpfs", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "size=16m,mode=1777"), "tmpfs on /dev/shm")
    return mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC) == 0


def rule(rules, path, rights):
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    if not os.path.isdir(path):
        rights &= FILE_ONLY
    attributes = ctypes.create_string_buffer(struct.pack("<Qi", rights, fd))
    checked(libc.syscall(ADD, rules, 1, attributes, 0), "landlock rule for %s" % path)
    os.close(fd)


def landlock(settings, namespaces, proc):
    abi = libc.syscall(CREATE, None, ctypes.c_size_t(0), 1)
    if abi < 1:
        fail("this kernel has no Landlock")
    rights = ALL_V1 | (REFER if abi >= 2 else 0) | (TRUNCATE if abi >= 3 else 0) | (IOCTL_DEV if abi >= 5 else 0)
    scopes = SCOPE_ABSTRACT_UNIX | SCOPE_SIGNAL if abi >= 6 else 0
    if not namespaces and not scopes:
        fail("Landlock ABI %d has no signal scope and this host gives no pid namespace" % abi)
    fields = [rights, NET_BIND_TCP | NET_CONNECT_TCP if abi >= 4 and not namespaces else 0, scopes]
    size = 24 if abi >= 6 else 16 if abi >= 4 else 8
    attributes = ctypes.create_string_buffer(struct.pack("<QQQ", *fields)[:size])
    rules = checked(libc.syscall(CREATE, attributes, ctypes.c_size_t(size), 0), "landlock")
    for path in settings["read"]:
        rule(rules, path, EXECUTE | READ_FILE | READ_DIR)
    for name in ("null", "zero", "full", "random", "urandom"):
        rule(rules, "/dev/" + name, READ_FILE | WRITE_FILE)
    rule(rules, settings["folder"], rights)
    if namespaces:
        rule(rules, "/dev/shm", rights)
    if proc:
        rule(rules, "/proc", READ_FILE | READ_DIR)
    checked(libc.syscall(RESTRICT, rules, 0), "landlock")
    os.close(rules)
    return abi


def seccomp(code):
    held = ctypes.create_string_buffer(code, len(code))

    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]

    program = Program(len(code) // 8, ctypes.addressof(held))
    checked(prctl(22, 2, ctypes.addressof(program)), "seccomp")


def main():
    os.setsid()
    os.umask(0o022)
    report = {"namespaces": False, "pid": os.getpid()}
    sys.path.insert(0, sys.argv[1])
    sys.dont_write_bytecode = True
    from cofferdam_agent import jsontext
    from cofferdam_agent.main import main as agent

    settings, options = jsontext.decode(sys.argv[2]), sys.argv[3:]

    proc = False
    if settings["namespaces"] and unshare():
        # Death by the worker's death; without a pid namespace the agent must live on to kill what it started.
        prctl(1, signal.SIGKILL)
        report["namespaces"] = True
        become_init(report, jsontext)
        proc = own_mounts(settings["folder"], settings["disk"])
        options.append("--own-disk")
    else:
        os.write(3, jsontext.encode(report) + b"\n")
        options += ["--confined", "--scope"]
    checked(prctl(38, 1), "no_new_privs")
    for name in ("tmp", "work"):
        os.makedirs(os.path.join(settings["folder"], name), exist_ok=True)
    # Read before Landlock closes the way to it.
    with open(settings["filter" if report["namespaces"] else "bareFilter"], "rb") as source:
        code = source.read()
    landlock(settings, report["namespaces"], proc)
    seccomp(code)
    os.close(3)
    agent(options)


main()
