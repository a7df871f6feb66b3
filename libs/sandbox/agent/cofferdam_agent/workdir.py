"""Files below the work directory. The worker gives the paths, but the program shaped the tree. So every step
is opened relative to its parent with O_NOFOLLOW, only regular files are read, and existing files are
unlinked, not followed.
"""
import errno
import os
import stat

from .walk import DIR_FLAGS, MAX_DEPTH, Walk

OK, NOT_FOUND, TOO_LARGE, REFUSED, NO_SPACE, IO_ERROR, NO_LOOPBACK, PARTIAL = range(8)


class WorkError(Exception):
    def __init__(self, status, message):
        Exception.__init__(self, message)
        self.status = status


def _translate(error, path):
    if error.errno == errno.ENOENT:
        return WorkError(NOT_FOUND, path)
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return WorkError(NO_SPACE, "no space for %s" % path)
    if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.ENXIO, errno.ENAMETOOLONG):
        return WorkError(REFUSED, "%s: %s" % (path, os.strerror(error.errno)))
    return WorkError(IO_ERROR, "%s: %s" % (path, os.strerror(error.errno or 0)))


def _parts(path):
    parts = path.split("/")
    if not path or "\0" in path or any(part in ("", ".", "..") for part in parts):
        raise WorkError(REFUSED, "not a relative path: %r" % path)
    return parts


class Workdir:
    def __init__(self, path):
        self.path = path
        os.makedirs(path, 0o755, exist_ok=True)
        self._root = os.open(path, DIR_FLAGS)

    def _parent(self, parts, create):
        fd = os.dup(self._root)
        for part in parts[:-1]:
            try:
                if create:
                    try:
                        os.mkdir(part, 0o755, dir_fd=fd)
                    except FileExistsError:
                        pass
                below = os.open(part, DIR_FLAGS, dir_fd=fd)
            finally:
                os.close(fd)
            fd = below
        return fd

    def create(self, path, executable):
        """Opens a new file for writing. Unlinks any existing non-directory first."""
        try:
            parts = _parts(path)
            if len(parts) == 1:
                return _create_at(self._root, parts[0], executable)
            parent = self._parent(parts, True)
            try:
                return _create_at(parent, parts[-1], executable)
            finally:
                os.close(parent)
        except OSError as error:
            raise _translate(error, path)

    def append(self, fd, data, path):
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(fd, view) :]
        except OSError as error:
            raise _translate(error, path)

    def read(self, path, max_bytes):
        """Yields a regular file's bytes. Refuses a file that is too large: before its first byte, or when it
        has grown while being read.
        """
        try:
            parts = _parts(path)
            parent = self._parent(parts, False)
            try:
                fd = os.open(parts[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=parent)
            finally:
                os.close(parent)
            try:
                found = os.fstat(fd)
                if not stat.S_ISREG(found.st_mode):
                    raise WorkError(REFUSED, "%s is not a regular file" % path)
                if found.st_size > max_bytes:
                    raise WorkError(TOO_LARGE, "%s has %d bytes" % (path, found.st_size))
                left = max_bytes
                while True:
                    data = os.read(fd, 64 * 1024)
                    if not data:
                        return
                    left -= len(data)
                    if left < 0:
                        raise WorkError(TOO_LARGE, "%s grew beyond %d bytes" % (path, max_bytes))
                    yield data
            finally:
                os.close(fd)
        except OSError as error:
            raise _translate(error, path)

    def remove(self, path):
        """Removes a file, or a directory with its content. Symbolic links are removed, not followed."""
        try:
            parts = _parts(path)
            parent = self._parent(parts, False)
            try:
                _remove_at(parent, parts[-1], MAX_DEPTH)
            finally:
                os.close(parent)
        except OSError as error:
            raise _translate(error, path)

    def list(self, globs, max_entries, links=False):
        """Yields (path bytes, size) of matching regular files, or of symbolic links, in byte order by
        directory.

        A glob that begins with `!` names folders that are not entered, such as those of a package manager.
        Raises WorkError (PARTIAL) at the end if it did not see everything.
        """
        walk = Walk(globs, max_entries, stat.S_ISLNK if links else stat.S_ISREG)
        for entry in walk.below(os.dup(self._root)):
            yield entry
        if walk.is_partial:
            raise WorkError(PARTIAL, "too many files, or too deep folders")

    def used_bytes(self):
        """Used bytes of the work directory's file system; None if unknown."""
        try:
            found = os.fstatvfs(self._root)
        except OSError:
            return None
        return (found.f_blocks - found.f_bfree) * found.f_frsize if found.f_blocks else None

    def is_full(self):
        """True if the file system has no space or inodes left: the best evidence why a write was refused."""
        try:
            found = os.fstatvfs(self._root)
        except OSError:
            return False
        return found.f_blocks > 0 and (found.f_bavail * found.f_frsize < 4096 or 0 < found.f_files and found.f_ffree == 0)


def _create_at(parent, name, executable):
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    mode = 0o755 if executable else 0o644
    try:
        return os.open(name, flags, mode, dir_fd=parent)
    except FileExistsError:
        # Overwriting a file keeps its execute permission, as in an editor.
        found = os.stat(name, dir_fd=parent, follow_symlinks=False)
        if stat.S_ISREG(found.st_mode):
            mode |= found.st_mode & 0o111
        os.unlink(name, dir_fd=parent)
        return os.open(name, flags, mode, dir_fd=parent)


def _remove_at(parent, name, depth):
    try:
        os.unlink(name, dir_fd=parent)
        return
    except (IsADirectoryError, PermissionError):
        if not stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode) or depth == 0:
            raise
    fd = os.open(name, DIR_FLAGS, dir_fd=parent)
    try:
        for child in os.listdir(fd):
            _remove_at(fd, child, depth - 1)
    finally:
        os.close(fd)
    os.rmdir(name, dir_fd=parent)
