"""The few system calls that Python 3.8 has no name for. All are best effort: 0 or -1 comes back."""
import ctypes

_libc = ctypes.CDLL(None, use_errno=True)

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38


def prctl(option, value):
    return _libc.prctl(option, ctypes.c_ulong(value), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0))


def set_file_ids(uid, gid):
    """Lets this process touch files as another user while its signals and ids stay root's (setfsuid(2))."""
    _libc.setfsgid(gid)
    _libc.setfsuid(uid)
