"""Whether agent and program have two uids, and a work directory that belongs to the program.

    two    the agent may become the program's user, who can write to the work directory. If only root can
           create that directory, root creates it and changes its owner
    one    otherwise: the program has the agent's uid
"""
import os

from . import linux
from .writable_paths import is_writable
from .walk import DIR_FLAGS


def are_two(options):
    """Also creates the work directory."""
    if os.geteuid() != 0 or not _can_setuid():
        return False
    return _makes(options) or (_hands_over(options) and _makes(options))


class FilesOfProgram:
    """A context in which this thread accesses files like the program."""

    def __init__(self, options, two):
        self.ids = (options.uid, options.gid) if two else None
        self.gid = os.getegid()

    def __enter__(self):
        if self.ids is not None:
            linux.set_file_ids(*self.ids)

    def __exit__(self, *_):
        if self.ids is not None:
            linux.set_file_ids(0, self.gid)


def _makes(options):
    with FilesOfProgram(options, True):
        try:
            os.makedirs(options.work, 0o755, exist_ok=True)
        except OSError:
            return False
        return is_writable(options.work)


def _hands_over(options):
    """Makes the program's user the owner of the work directory itself, if root owns it and it is no link."""
    try:
        os.makedirs(options.work, 0o755, exist_ok=True)
        fd = os.open(options.work, DIR_FLAGS)
        try:
            if os.fstat(fd).st_uid != 0:
                return False
            os.fchown(fd, options.uid, options.gid)
        finally:
            os.close(fd)
    except OSError:
        return False
    return True


def _can_setuid():
    """CAP_SETUID and CAP_SETGID (bits 7 and 6) are effective."""
    try:
        with open("/proc/self/status") as status:
            for line in status:
                if line.startswith("CapEff:"):
                    return int(line.split()[1], 16) & 0xC0 == 0xC0
    except (OSError, ValueError):
        pass
    return False
