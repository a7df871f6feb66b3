"""One walk over a tree that a program shaped. No link is followed, and its work is bounded."""
import itertools
import os
import stat

from .glob import Globs

# Without O_DIRECTORY, because with it gVisor (release 20221219) follows links despite O_NOFOLLOW. Another
# kind of file can be opened too, and fails at its first use as a directory; O_NONBLOCK keeps a FIFO from
# blocking.
DIR_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
# Limits of one walk. A program may build any tree, but the agent's time and memory must stay bounded.
MAX_DEPTH = 64
MAX_NAMES = 100000
# Budget of one walk: 1 for each byte of a name that is matched against globs (0.8 us, measured), and
# LOOK_WORK for each entry. Together this is at most 2 s of CPU time.
MAX_WORK = 2000000
LOOK_WORK = 8


class Walk:
    """Finds what matches `globs` (a leading `!` names folders that are not entered), `max_entries` at most.
    `is_meant(mode)`: whether to find a file with this mode.
    """

    def __init__(self, globs, max_entries, is_meant):
        encoded = [os.fsencode(glob) for glob in globs]
        self.wanted = Globs([glob for glob in encoded if not glob.startswith(b"!")])
        self.closed = Globs([glob[1:] for glob in encoded if glob.startswith(b"!")])
        self.is_meant = is_meant
        self.left = max_entries
        self.work = MAX_WORK
        self.is_partial = False

    def below(self, fd):
        """Yields (path bytes, size) in byte order by directory. Takes ownership of `fd`."""
        return self._inside(fd, b"", self.wanted.start, self.closed.start, MAX_DEPTH)

    def _inside(self, fd, prefix, wanted, closed, depth):
        """`wanted` and `closed`: the states of the globs after `prefix`."""
        try:
            folders = []
            for name in self._names(fd):
                self._spend(LOOK_WORK + len(name) * self.wanted.step_cost)
                if self.work < 0 or self.left <= 0:
                    return
                after = self.wanted.after(wanted, name)
                if not after:
                    continue
                try:
                    found = os.stat(name, dir_fd=fd, follow_symlinks=False)
                except OSError:
                    continue
                path = prefix + name
                if stat.S_ISDIR(found.st_mode):
                    inside = self.wanted.after(after, b"/")
                    shut = self.closed.after(closed, name)
                    self._spend(len(name) * self.closed.step_cost)
                    if inside and not self.closed.matches(shut):
                        folders.append((name, path, inside, self.closed.after(shut, b"/")))
                elif self.is_meant(found.st_mode) and len(path) <= 4096 and self.wanted.matches(after):
                    self.left -= 1
                    yield path, found.st_size
            for name, path, inside, shut in folders:
                if depth == 0:
                    self.is_partial = True
                    return
                try:
                    child = os.open(name, DIR_FLAGS, dir_fd=fd)
                except OSError:
                    continue
                for entry in self._inside(child, path + b"/", inside, shut, depth - 1):
                    yield entry
        finally:
            os.close(fd)

    def _spend(self, work):
        self.work -= work
        self.is_partial = self.is_partial or self.work < 0

    def _names(self, fd):
        with os.scandir(fd) as entries:
            names = [os.fsencode(entry.name) for entry in itertools.islice(entries, MAX_NAMES + 1)]
        if len(names) > MAX_NAMES:
            self.is_partial = True
        return sorted(names)
