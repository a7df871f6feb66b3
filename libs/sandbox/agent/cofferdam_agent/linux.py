"""The few system calls that Python 3.8 lacks. All are best effort: they return 0 or -1.

Calls that every start makes use `_ctypes` directly: `import ctypes` would take 3 of a start's 15 ms.
"""
import _ctypes
import os

_handle = _ctypes.dlopen(None, os.RTLD_NOW)

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_SECCOMP = 22
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
PTRACE_DETACH = 17
SIGTRAP = 5


def _call(name, *numbers):
    """Calls a function with numbers below 2**31, which are extended to a full register."""
    return _ctypes.call_function(_ctypes.dlsym(_handle, name), numbers)


_opened = []


def _libc():
    if not _opened:
        import ctypes

        _opened.append(ctypes.CDLL(None, use_errno=True))
    return _opened[0]


def prctl(option, value):
    return _call("prctl", option, value, 0, 0, 0)


def stop_tracing(pid, stopped_by):
    """Lets a child run on that made us its tracer (PTRACE_TRACEME) and was then stopped by a signal.

    Some kernels allow that to programs, for example gVisor's. wait4 reports such a stop although nobody asked
    for stops. The child still gets its signal, except SIGTRAP, which the kernel sends to a traced process
    after an exec.
    """
    _call("ptrace", PTRACE_DETACH, pid, 0, 0 if stopped_by == SIGTRAP else stopped_by)


def set_file_ids(uid, gid):
    """Lets this process access files as another user while its signals and IDs stay root's (setfsuid(2)).

    gVisor has no setfsuid, so the effective IDs change there. Signals to the program still work, since they
    depend on the sender's effective uid too. Signals from it still fail, since our real and saved uids stay
    0.
    """
    _call("setfsgid", gid)
    _call("setfsuid", uid)
    if _call("setfsuid", uid) & 0xFFFFFFFF != uid:
        os.setegid(gid)
        os.seteuid(uid)


def kill_all_of(uid, gid):
    """Sends SIGKILL to all processes of the program's user in one call, which no fork escapes.

    Only for PID 1, which the program cannot signal while both have one uid.
    """
    os.setresuid(uid, uid, 0)
    try:
        os.kill(-1, 9)
    except OSError:
        pass
    finally:
        os.setresuid(0, 0, 0)
        prctl(PR_SET_DUMPABLE, 0)
        set_file_ids(uid, gid)


# Numbers of ioprio_get and sched_getattr by machine; others cannot be read.
_NUMBERS = {"x86_64": (252, 315), "aarch64": (31, 275)}.get(os.uname().machine)


def scheduling(pid):
    """Scheduling that Python cannot read: I/O priority, slice, and bounds of utilisation."""
    if _NUMBERS is None:
        return None
    import ctypes

    libc = _libc()
    found = ctypes.create_string_buffer(64)
    priority = libc.syscall(_NUMBERS[0], 1, pid)
    return priority, libc.syscall(_NUMBERS[1], pid, found, 56, 0), found.raw


def load_filter(code):
    """Installs BPF bytes as a seccomp filter; raises when the kernel does not take them."""
    import ctypes

    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]

    held = ctypes.create_string_buffer(code, len(code))
    program = Program(len(code) // 8, ctypes.addressof(held))
    unused = ctypes.c_ulong(0)
    if _libc().prctl(PR_SET_SECCOMP, ctypes.c_ulong(2), ctypes.byref(program), unused, unused) != 0:
        raise OSError(ctypes.get_errno(), "seccomp filter refused")
