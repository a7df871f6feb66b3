"""Finds and removes System V objects that a program left. They are in no directory."""
import os

from .workdir import IO_ERROR, WorkError

_IPC_KINDS = ("shm", "sem", "msg")
# Limit of objects to check after one execution. With more, the cell is given up instead.
_IPC_SPAN_MAX = 4096
_IPC_PRIVATE, _IPC_CREAT, _IPC_STAT, _IPC_RMID = 0, 0o1000, 2, 0
_EACCES, _ENOSYS = 13, 38


class SystemV:
    """New objects of the program's user. `owns`: nobody else has that uid, so they may be removed."""

    def __init__(self, options, split, owns):
        self.options = options
        self.split = split
        self.owns = owns
        self.table = _ProcTable() if os.path.isdir("/proc/sysvipc") else _CountedIds()
        self.before = self.table.objects(self.uid()) if owns else set()

    def uid(self):
        return self.options.uid if self.split else os.geteuid()

    def left(self):
        return self.table.objects(self.uid()) - self.before if self.owns else set()

    def remove(self):
        """True if there were any. A child with the program's uid removes them, because only that user may."""
        left = self.left()
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
                    # IPC_RMID is 0. Before it, semctl takes one more argument, the number of a semaphore.
                    {"shm": libc.shmctl, "msg": libc.msgctl}.get(kind, lambda n, *_: libc.semctl(n, 0, 0))(number, 0, None)
            finally:
                os._exit(0)
        os.waitpid(pid, 0)
        return True


class _ProcTable:
    """System V objects in the kernel's list."""

    def objects(self, uid):
        """Returns (kind, id) of objects that this uid owns or created."""
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


class _CountedIds:
    """For a kernel without a list (gVisor) whose ids count up by one: programs' objects lie between two of
    our ids.

    On a kernel that counts otherwise this proves nothing, so the cell is destroyed after its first execution.
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
        """The id of an object that is created and removed at once; None without System V IPC."""
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
            # EACCES means that an object exists that we may not look at. It counts too.
            here = [n for n in range(last + 1, now) if self.control(kind, n, _IPC_STAT) >= 0 or self.errno() == _EACCES]
            found.update((kind, n) for n in here)
            if not here:
                self.last[kind] = now
        return found
