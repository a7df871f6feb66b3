"""A Landlock domain of the program's own that forbids signals to processes outside of it (ABI 6, Linux 6.12).

Used where agent and program share a uid and no pid namespace protects the agent as PID 1.
"""
import struct

_CREATE, RESTRICT = 444, 446
_SCOPE_ABSTRACT_UNIX, _SCOPE_SIGNAL = 1, 2


def create_rules():
    """A descriptor of the rules, -1 where the kernel knows no scopes. Whoever restricts itself by it gets its own domain."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(_CREATE, None, ctypes.c_size_t(0), 1) < 6:
        return -1
    attributes = ctypes.create_string_buffer(struct.pack("<QQQ", 0, 0, _SCOPE_ABSTRACT_UNIX | _SCOPE_SIGNAL))
    return libc.syscall(_CREATE, attributes, ctypes.c_size_t(24), 0)


def confine_signals():
    import ctypes

    rules = create_rules()
    return rules >= 0 and ctypes.CDLL(None, use_errno=True).syscall(RESTRICT, rules, 0) == 0
