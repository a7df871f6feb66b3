"""What a cell must be between two executions: the same as when it was fresh, proven.

`wipe` empties every place that a program can write: the work directory and, where the sandbox has mounts of its own, every
writable tmpfs and message queue file system; elsewhere the folders of HOME and TMPDIR beside the work directory. What
stood there before the first program stays. `prove` compares used bytes and inodes with those of the fresh cell, and what
whoever has the agent's uid can change of it from outside: everything that it starts would inherit that.
"""
import fcntl
import os
import stat
import time

from .workdir import DIR_FLAGS, IO_ERROR, WorkError
from .zygote import fingerprint

# 16 Ki inodes are wiped in 0.4 s; a tree that takes longer than this is not worth its cell.
WIPE_S = 2.0
# Files of killed processes are given back a moment after them (sockets in flight by the kernel's own collector).
SETTLE_S = 1.0
_OWN_MOUNTS = ("tmpfs", "ramfs", "mqueue")


class Cell:
    """`owns_mounts`: every writable mount of its own is the program's, not only what stands beside the work directory."""

    def __init__(self, options, work, split, owns_mounts=None):
        self.options = options
        self.work = work
        self.split = split
        owns_mounts = os.getpid() == 1 if owns_mounts is None else owns_mounts
        self.owns_ipc = split or owns_mounts
        self.roots = [Root(path, owns_mounts) for path in _places(options, work, owns_mounts)]
        self.ipc_table = _ProcTable() if os.path.isdir("/proc/sysvipc") else _CountedIds()
        self.ipc = self.ipc_table.objects(self.uid()) if self.owns_ipc else set()
        self.agent = fingerprint(os.getpid())
        # Set when the agent took the program's uid for a moment, in which a process of the program could reach it.
        self.was_in_reach = not split or os.geteuid() != 0

    def uid(self):
        return self.options.uid if self.split else os.geteuid()

    def clean(self, keep):
        """Raises WorkError when the cell cannot be proven clean. Nothing of a program runs any more."""
        until = time.monotonic() + WIPE_S
        try:
            for root in self.roots:
                if root.path != self.work or keep == "none":
                    root.wipe(until)
            has_ipc = self.remove_ipc()
        except OSError as error:
            raise WorkError(IO_ERROR, "wipe: %s" % error)
        self.prove(keep, has_ipc)

    def prove(self, keep, has_ipc):
        """Nothing runs that could make System V objects: where none were left, none can be."""
        if self.was_in_reach and fingerprint(os.getpid(), self.agent) != self.agent:
            # A nice value cannot be lowered again without a capability.
            raise WorkError(IO_ERROR, "a program changed the agent's limits or scheduling")
        until = time.monotonic() + SETTLE_S
        while True:
            wrong = [root.path for root in self.roots if not root.is_fresh(keep != "none" and self.work)]
            wrong += ["System V IPC"] if has_ipc and self.ipc_table.objects(self.uid()) - self.ipc else []
            if not wrong:
                return
            if time.monotonic() > until:
                raise WorkError(IO_ERROR, "not as it was when fresh: %s" % ", ".join(wrong))
            time.sleep(0.002)

    def remove_ipc(self):
        """True when there were any. A short child does it, as the program's user: only that one may."""
        left = self.ipc_table.objects(self.uid()) - self.ipc if self.owns_ipc else ()
        if not left:
            return False
        pid = os.fork()
        if pid == 0:
            try:
                import ctypes

                if self.split:
                    os.seteuid(0)
                    os.setresgid(self.options.gid, self.options.gid, self.options.gid)
                    os.setresuid(self.options.uid, self.options.uid, self.options.uid)
                libc = ctypes.CDLL(None)
                for kind, number in left:
                    # IPC_RMID is 0; semctl has the number of a semaphore in between.
                    {"shm": libc.shmctl, "msg": libc.msgctl}.get(kind, lambda n, *_: libc.semctl(n, 0, 0))(number, 0, None)
            finally:
                os._exit(0)
        os.waitpid(pid, 0)
        return True


class Root:
    """A directory that a program can write, and what it was when the cell was fresh."""

    def __init__(self, path, owns_mounts):
        self.path = path
        self.fd = os.open(path, DIR_FLAGS)
        self.names = set(os.listdir(self.fd))
        self.mode = stat.S_IMODE(os.fstat(self.fd).st_mode)
        self.attributes = _attributes(self.fd)
        self.flags = _flags(self.fd)
        found = os.fstat(self.fd)
        self.device, self.inode = found.st_dev, found.st_ino
        # Only a file system of the sandbox's own says something by how full it is: others fill the host's, too.
        self.used = _used(self.fd) if owns_mounts and _is_own(_mount_of(path)) else None

    def is_fresh(self, spared):
        """`spared` is a directory below, or this one, that keeps what is in it; or False."""
        found = os.stat(self.path, follow_symlinks=False)
        if (found.st_dev, found.st_ino) != (self.device, self.inode):
            return False  # The program put another directory, or a link, in its place.
        if spared == self.path:
            return True
        if set(os.listdir(self.fd)) != self.names:
            return False
        holds_spared = spared and spared.startswith(self.path.rstrip("/") + "/")
        return self.used is None or bool(holds_spared) or _used(self.fd) == self.used

    def wipe(self, until):
        if stat.S_IMODE(os.fstat(self.fd).st_mode) != self.mode:
            os.fchmod(self.fd, self.mode)
        for name in _attributes(self.fd) - self.attributes:
            os.removexattr(self.fd, name)
        if _flags(self.fd) != self.flags:
            fcntl.ioctl(self.fd, _SET_FLAGS, self.flags)
        if os.fstat(self.fd).st_uid == os.geteuid() or os.geteuid() == 0:
            # Times that a program chose would be a message to the next one.
            os.utime(self.fd)
        for name in os.listdir(self.fd):
            if name not in self.names:
                _remove_tree(self.fd, name, self.device, until)


def _remove_tree(parent, name, device, until):
    """Removes whatever has this name and all below, at any depth with one descriptor: nothing moves while it works."""
    if _unlinked(parent, name):
        return
    fd = _opened(parent, name, device)
    above = [name]
    waiting = [os.listdir(fd)]
    try:
        while waiting:
            if time.monotonic() > until:
                raise WorkError(IO_ERROR, "wiping took longer than %d s" % WIPE_S)
            if not waiting[-1]:
                waiting.pop()
                up = os.open("..", DIR_FLAGS, dir_fd=fd) if waiting else os.dup(parent)
                os.close(fd)
                fd = up
                os.rmdir(above.pop(), dir_fd=fd)
                continue
            name = waiting[-1].pop()
            if not _unlinked(fd, name):
                below = _opened(fd, name, device)
                os.close(fd)
                fd = below
                above.append(name)
                waiting.append(os.listdir(fd))
    finally:
        os.close(fd)


def _unlinked(parent, name):
    try:
        os.unlink(name, dir_fd=parent)
        return True
    except (IsADirectoryError, PermissionError):
        if not stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
            raise
    return False


def _opened(parent, name, device):
    """A directory that may have been made unreadable; its owner can still change that."""
    try:
        fd = os.open(name, DIR_FLAGS, dir_fd=parent)
    except PermissionError:
        # Nothing else runs, and it was seen to be no link: it cannot have become one.
        os.chmod(name, 0o700, dir_fd=parent)
        fd = os.open(name, DIR_FLAGS, dir_fd=parent)
    found = os.fstat(fd)
    if found.st_dev != device:
        os.close(fd)
        raise WorkError(IO_ERROR, "a mount that was not there when the cell was fresh")
    if found.st_mode & 0o700 != 0o700:
        os.fchmod(fd, 0o700)
    return fd


def _places(options, work, owns_mounts):
    places = [work]
    if owns_mounts:
        own = [path for path in _own_mounts() if _is_programs(path)]
        places += own + [path for path in _above(work) if any(path.startswith(root + "/") for root in own)]
    beside = os.path.dirname(work).rstrip("/") + "/"
    for name in ("HOME", "TMPDIR"):
        path = options.env.get(name, "")
        if path.startswith(beside) and os.path.isdir(path):
            places.append(path)
    return sorted(set(os.path.normpath(path) for path in places))


def _above(path):
    while path not in ("/", ""):
        path = os.path.dirname(path)
        yield path


def _is_programs(path):
    """/dev has its devices on a tmpfs; /proc and /sys are covered by some."""
    return path != "/dev" and not path.startswith(("/proc", "/sys")) and os.path.isdir(path) and _is_writable(path)


def _is_writable(path):
    """Asked by doing it: the file system's ids are the program's."""
    probe = os.path.join(path, ".cofferdam-%d" % os.getpid())
    try:
        os.close(os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        os.unlink(probe)
        return True
    except OSError:
        return False


def _own_mounts():
    listed = _mounts()
    if listed:
        return [where for where, kind, _ in listed if kind in _OWN_MOUNTS]
    # No /proc (a container whose masked one lets no other be mounted). A jail's own file systems stand at /tmp and /dev/shm.
    folders = ["/" + name for name in os.listdir("/")]
    below = [os.path.join(path, name) for path in folders for name in _names(path)]
    return [path for path in folders + below if os.path.ismount(path)]


def _names(path):
    try:
        return os.listdir(path)
    except OSError:
        return []


def _mounts():
    """(where, type, root in its file system) of every mount, the topmost of each place last."""
    found = []
    try:
        with open("/proc/self/mountinfo", "rb") as listing:
            for line in listing:
                before, _, after = line.partition(b" - ")
                root, where = before.split()[3:5]
                where = os.fsdecode(where.replace(b"\\040", b" "))
                found.append((where, os.fsdecode(after.split()[0]), os.fsdecode(root)))
    except (OSError, IndexError, ValueError):
        pass
    return found


def _mount_of(path):
    best = ("", None, None)
    for mount in _mounts():
        where = mount[0]
        if (path == where or path.startswith(where.rstrip("/") + "/")) and len(where) >= len(best[0]):
            best = mount
    return best


def _is_own(mount):
    """A folder of another's tmpfs, bound in, has that folder as its root."""
    return mount[1] in _OWN_MOUNTS and mount[2] == "/"


def _used(fd):
    found = os.fstatvfs(fd)
    return found.f_blocks - found.f_bfree, found.f_files - found.f_ffree


# FS_IOC_GETFLAGS and FS_IOC_SETFLAGS where a long has 8 bytes.
_GET_FLAGS, _SET_FLAGS = 0x80086601, 0x40086602


def _flags(fd):
    """Inode flags (tmpfs has some since Linux 6.6), as the kernel gives and takes them; None where there are none."""
    try:
        return fcntl.ioctl(fd, _GET_FLAGS, bytes(8))
    except OSError:
        return None


def _attributes(fd):
    try:
        return set(os.listxattr(fd))
    except OSError:
        return set()


class _ProcTable:
    """System V objects as the kernel lists them."""

    def objects(self, uid):
        """(kind, id) of those that this uid owns or made."""
        found = set()
        for kind in _IPC_KINDS:
            try:
                heads, *lines = _text("/proc/sysvipc/" + kind).splitlines()
                for line in lines:
                    fields = dict(zip(heads.split(), line.split()))
                    if str(uid) in (fields["uid"], fields["cuid"]):
                        found.add((kind, int(fields[kind + "id"] if kind != "msg" else fields["msqid"])))
            except (OSError, KeyError, ValueError):
                continue
        return found


def _text(path):
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    parts = []
    try:
        while not parts or parts[-1]:
            parts.append(os.read(fd, 65536))
    finally:
        os.close(fd)
    return b"".join(parts).decode("ascii", "replace")


_IPC_KINDS = ("shm", "sem", "msg")
# More objects than this in one execution are not looked through: the cell is not worth it.
_IPC_SPAN_MAX = 4096
_IPC_PRIVATE, _IPC_CREAT, _IPC_STAT, _IPC_RMID = 0, 0o1000, 2, 0
_EACCES, _ENOSYS = 13, 38


class _CountedIds:
    """For a kernel that lists nothing (gVisor) and counts ids up by one: what programs made lies between two ids of ours.

    A kernel that counts otherwise can prove nothing here, and the cell is destroyed after its first execution.
    """

    def __init__(self):
        import ctypes

        self.libc = ctypes.CDLL(None, use_errno=True)
        self.errno = ctypes.get_errno
        self.buffer = ctypes.create_string_buffer(1024)
        self.last = {}
        for kind in _IPC_KINDS:
            first, second = self.next_id(kind), self.next_id(kind)
            if first is not None:
                self.last[kind] = second if second == first + 1 else -1

    def next_id(self, kind):
        """The id of an object that is made and removed again; None where the kernel has no System V IPC."""
        libc, flags = self.libc, _IPC_CREAT | 0o600
        if kind == "shm":
            made = libc.shmget(_IPC_PRIVATE, 4096, flags)
        else:
            made = libc.semget(_IPC_PRIVATE, 1, flags) if kind == "sem" else libc.msgget(_IPC_PRIVATE, flags)
        if made < 0:
            if self.errno() == _ENOSYS:
                return None
            raise WorkError(IO_ERROR, "System V IPC: errno %d" % self.errno())
        self.control(kind, made, _IPC_RMID)
        return made

    def control(self, kind, number, command):
        if kind == "sem":
            return self.libc.semctl(number, 0, command, self.buffer)
        return (self.libc.shmctl if kind == "shm" else self.libc.msgctl)(number, command, self.buffer)

    def objects(self, _uid):
        found = set()
        for kind, last in self.last.items():
            now = self.next_id(kind)
            if last < 0 or not last < now <= last + _IPC_SPAN_MAX:
                raise WorkError(IO_ERROR, "System V IPC cannot be looked through")
            # Without permission to look it is there all the same.
            here = [n for n in range(last + 1, now) if self.control(kind, n, _IPC_STAT) >= 0 or self.errno() == _EACCES]
            found.update((kind, n) for n in here)
            if not here:
                self.last[kind] = now
        return found
