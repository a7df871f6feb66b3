"""The jail: isolates itself, then becomes the guest agent: `jail.py NAME VALUE … -- AGENT-OPTIONS…`.

NAMEs: guest (folder of the guest files, path inside), folder (the slot's, on the host), filter (BPF), and
  with namespaces   links, binds (lines: target or source, space, path), masks (lines), empty (a file),
                    disk, shm (bytes), inodes (number)
  without           read (lines: folders and files that programs may read)
It prints JSON lines on fd 3: pid (the agent's, in the namespace where this process started) and, with
namespaces, another line with proc once the file tree exists, in either order. If a required step fails, the
process ends with a message before any program can run.

With namespaces: unshare → loopback up → fork → own file tree → no capabilities → seccomp → agent as PID 1.
Without: Landlock → seccomp → agent.
"""
import _signal as signal
import ctypes
import fcntl
import os
import struct
import sys

libc = ctypes.CDLL(None, use_errno=True)
NEWNS, NEWCGROUP, NEWUTS, NEWIPC = 0x20000, 0x2000000, 0x4000000, 0x8000000
NEWUSER, NEWPID, NEWNET = 0x10000000, 0x20000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 1, 2, 4, 8, 32
MS_BIND, MS_REC, MS_PRIVATE, MNT_DETACH = 4096, 16384, 1 << 18, 2
# linux/mount.h, linux/fcntl.h
MOUNT_SETATTR, AT_FDCWD, AT_RECURSIVE, ATTR_RDONLY, ATTR_NOSUID, ATTR_NODEV = 442, -100, 0x8000, 1, 2, 4
PIVOT_ROOT = 155 if os.uname().machine == "x86_64" else 41
SIOCSIFFLAGS, IFF_UP = 0x8914, 1
NOBODY = 65534


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
    """Enters new namespaces, in which this process is uid and gid 65534. Ends the process if that fails."""
    uid, gid = os.geteuid(), os.getegid()
    flags = NEWUSER | NEWNS | NEWCGROUP | NEWUTS | NEWIPC | NEWPID | NEWNET
    checked(libc.unshare(flags), "namespaces (user.max_user_namespaces, AppArmor or a container forbid them)")
    try:
        for name, text in (("setgroups", "deny"), ("uid_map", "%d %d 1" % (NOBODY, uid)), ("gid_map", "%d %d 1" % (NOBODY, gid))):
            with open("/proc/self/" + name, "w") as out:
                out.write(text)
    except OSError as error:
        # A user namespace without an identity is useless and cannot be left again.
        fail("identity in the user namespace: %s" % error)
    libc.sethostname(b"sandbox", ctypes.c_size_t(7))
    loopback_up()


def loopback_up():
    """Brings up the only interface of the network namespace, for programs' own connections and the proxy."""
    import _socket

    probe = _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM)
    try:
        fcntl.ioctl(probe.fileno(), SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", IFF_UP))
    except OSError as error:
        fail("loopback: %s" % error)
    probe.close()


def tell(text):
    os.write(3, text.encode("ascii") + b"\n")


def become_init():
    """Forks: the child is PID 1 of the new namespace; this process waits for it and ends with it."""
    pid = os.fork()
    if pid == 0:
        prctl(1, signal.SIGKILL)
        return
    tell('{"pid":%d}' % pid)
    # Only the agent keeps the channel, so the channel ends with the agent.
    os.closerange(0, 4)
    try:
        os.waitpid(pid, 0)
    except ChildProcessError:
        pass
    os._exit(0)


def set_attributes(path, flags):
    attributes = ctypes.create_string_buffer(struct.pack("<QQQQ", flags, 0, MS_PRIVATE, 0), 32)
    changed = libc.syscall(MOUNT_SETATTR, AT_FDCWD, path.encode(), AT_RECURSIVE, attributes, ctypes.c_size_t(32))
    checked(changed, "attributes of " + path)


def point(root, path, folder):
    """A mount point below the new root, created with its parent folders."""
    target = root + path
    os.makedirs(target if folder else os.path.dirname(target), exist_ok=True)
    if not folder:
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o444))
    return target


def bind(source, target, flags):
    checked(mount(source, target, "", MS_BIND | MS_REC), "bind of " + source)
    set_attributes(target, flags)


def tmpfs(target, options, flags=MS_NOSUID | MS_NODEV):
    checked(mount("tmpfs", target, "tmpfs", flags, options), "tmpfs on " + target)


def own_tree(settings):
    """A new root with only read-only system folders of the host. True if /proc could be mounted."""
    set_attributes("/", 0)
    root = settings["folder"]
    tmpfs(root, "size=1m,nr_inodes=1k,mode=0755")
    for line in lines(settings["links"]):
        target, path = line.split(" ", 1)
        os.makedirs(os.path.dirname(root + path), exist_ok=True)
        os.symlink(target, root + path)
    for line in lines(settings["binds"]):
        source, path = line.split(" ", 1)
        bind(source, point(root, path, os.path.isdir(source)), ATTR_RDONLY | ATTR_NOSUID | ATTR_NODEV)
    for name in ("null", "zero", "full", "random", "urandom"):
        bind("/dev/" + name, point(root, "/dev/" + name, False), ATTR_NOSUID)
    for name, target in (("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")):
        os.symlink(target, root + "/dev/" + name)
    tmpfs(point(root, "/dev/shm", True), "size=%d,nr_inodes=4k,mode=1777" % int(settings["shm"]), MS_NOSUID | MS_NODEV | MS_NOEXEC)
    tmpfs(point(root, "/tmp", True), "size=%d,nr_inodes=%d,mode=1777" % (int(settings["disk"]), int(settings["inodes"])))
    proc = point(root, "/proc", True)
    # In a container that masks parts of /proc, the kernel refuses this mount. The jail then has no /proc.
    has_proc = mount("proc", proc, "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC) == 0
    if has_proc:
        bind(proc + "/sys", proc + "/sys", ATTR_RDONLY)
        for path in lines(settings["masks"]):
            if os.path.isdir(root + path):
                tmpfs(root + path, "size=4k,nr_inodes=2,mode=0555", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC)
            elif os.path.exists(root + path):
                bind(settings["empty"], root + path, ATTR_RDONLY | ATTR_NOSUID | ATTR_NODEV)
    os.chdir(root)
    checked(libc.syscall(PIVOT_ROOT, b".", b"."), "pivot_root")
    checked(libc.umount2(b".", MNT_DETACH), "leaving the host's tree")
    os.chdir("/")
    checked(mount("", "/", "", MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV), "read-only root")
    return has_proc


def drop_capabilities():
    """Drops all capabilities, also for later exec calls. uid 65534 would not regain them anyway."""
    for number in range(64):
        if prctl(24, number) != 0:  # PR_CAPBSET_DROP; the first number that the kernel does not know ends it.
            break
    head = ctypes.create_string_buffer(struct.pack("<Ii", 0x20080522, 0), 8)
    checked(libc.capset(head, ctypes.create_string_buffer(24)), "capabilities")


def lines(text):
    return text.split("\n") if text else []


def seccomp(code):
    held = ctypes.create_string_buffer(code, len(code))

    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]

    program = Program(len(code) // 8, ctypes.addressof(held))
    checked(prctl(22, 2, ctypes.addressof(program)), "seccomp")


def main():
    os.setsid()
    os.umask(0o022)
    end = sys.argv.index("--")
    settings, options = dict(zip(sys.argv[1:end:2], sys.argv[2:end:2])), sys.argv[end + 1 :]
    # Read the filter now, because the jail cannot open its file later.
    with open(settings["filter"], "rb") as source:
        code = source.read()
    has_tree = "binds" in settings
    if has_tree:
        unshare()
        become_init()
        has_proc = own_tree(settings)
        drop_capabilities()
        # Report no pid here, because it is 1 in this namespace. `become_init` reported the host's pid.
        tell('{"proc":%s}' % ("true" if has_proc else "false"))
    else:
        tell('{"pid":%d}' % os.getpid())
        for name in ("tmp", "work"):
            os.makedirs(os.path.join(settings["folder"], name), exist_ok=True)
    # A path that stays readable, because the agent imports some modules later.
    sys.path.insert(0, settings["guest"])
    sys.dont_write_bytecode = True
    from cofferdam_agent.main import main as agent

    checked(prctl(38, 1), "no_new_privs")
    if not has_tree:
        from cofferdam_agent.landlock import confine_files

        try:
            confine_files(lines(settings["read"]), settings["folder"])
        except OSError as error:
            fail("no namespaces, and Landlock: %s" % error)
    seccomp(code)
    os.close(3)
    agent(options)


main()
