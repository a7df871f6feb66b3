"""A directory that a program can write: remembers its fresh state and restores it."""
import fcntl
import os
import stat
import time

from .walk import DIR_FLAGS
from .workdir import IO_ERROR, WorkError

# Wiping 16 Ki inodes takes 0.4 s. If a wipe takes longer than WIPE_S, its cell is given up.
WIPE_S = 4.0


class Root:
    """`owns_mount`: the directory is on a file system of the sandbox's own."""

    def __init__(self, path, owns_mount):
        self.path = path
        self.fd = os.open(path, DIR_FLAGS)
        self.names = set(os.listdir(self.fd))
        self.mode = stat.S_IMODE(os.fstat(self.fd).st_mode)
        self.attributes = _attributes(self.fd)
        self.flags = _flags(self.fd)
        found = os.fstat(self.fd)
        self.device, self.inode = found.st_dev, found.st_ino
        # The usage of a shared file system says nothing, because others fill it too.
        self.used = _used(self.fd) if owns_mount else None

    def is_fresh(self, spared, is_held):
        """Whether the directory looks as it did when the cell was fresh. `spared`: the directory whose
        content stays, which may be this one or one below it; or False. `is_held`: a kept interpreter may
        hold nameless files, such as multiprocessing's locks and queues in /dev/shm.
        """
        found = os.stat(self.path, follow_symlinks=False)
        if (found.st_dev, found.st_ino) != (self.device, self.inode):
            return False  # The program put another directory, or a link, in its place.
        if spared == self.path:
            return True
        if set(os.listdir(self.fd)) != self.names:
            return False
        holds_spared = spared and spared.startswith(self.path.rstrip("/") + "/")
        return self.used is None or is_held or bool(holds_spared) or _used(self.fd) == self.used

    def wipe(self, until):
        if stat.S_IMODE(os.fstat(self.fd).st_mode) != self.mode:
            os.fchmod(self.fd, self.mode)
        for name in _attributes(self.fd) - self.attributes:
            os.removexattr(self.fd, name)
        if _flags(self.fd) != self.flags:
            fcntl.ioctl(self.fd, _SET_FLAGS, self.flags)
        if os.fstat(self.fd).st_uid == os.geteuid() or os.geteuid() == 0:
            # Set the times to now, because a program could choose them as a message to the next one.
            os.utime(self.fd)
        for name in os.listdir(self.fd):
            if name not in self.names:
                _remove_tree(self.fd, name, self.device, until)


def _remove_tree(parent, name, device, until):
    """Removes this name and all below at any depth, with one descriptor, while nothing else runs."""
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
    """Opens a directory. If a program made it unreadable, changes its mode first, which its owner can do."""
    try:
        fd = os.open(name, DIR_FLAGS, dir_fd=parent)
    except PermissionError:
        # chmod follows links. The name was a directory a moment ago, and nothing else runs that could replace
        # it.
        os.chmod(name, 0o700, dir_fd=parent)
        fd = os.open(name, DIR_FLAGS, dir_fd=parent)
    found = os.fstat(fd)
    if found.st_dev != device:
        os.close(fd)
        raise WorkError(IO_ERROR, "a mount that was not there when the cell was fresh")
    if found.st_mode & 0o700 != 0o700:
        os.fchmod(fd, 0o700)
    return fd


def _used(fd):
    found = os.fstatvfs(fd)
    return found.f_blocks - found.f_bfree, found.f_files - found.f_ffree


# FS_IOC_GETFLAGS and FS_IOC_SETFLAGS on systems where a long has 8 bytes.
_GET_FLAGS, _SET_FLAGS = 0x80086601, 0x40086602


def _flags(fd):
    """Inode flags (tmpfs has some since Linux 6.6) in the kernel's form; None if there are none."""
    try:
        return fcntl.ioctl(fd, _GET_FLAGS, bytes(8))
    except OSError:
        return None


def _attributes(fd):
    try:
        return set(os.listxattr(fd))
    except OSError:
        return set()
