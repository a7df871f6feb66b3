"""Restrictions of a process before it becomes a program: Landlock's signal scope, no POSIX message queues."""
import errno
import os
import resource
import struct

from . import linux

# System call numbers, also for landlock.py: landlock_create_ruleset and landlock_restrict_self. Then the
# scopes of ABI 6 (Linux 6.12), abstract Unix sockets and signals.
CREATE, RESTRICT = 444, 446
SCOPES = 1 | 2


def create_rules():
    """Landlock rules that forbid signals outside of the domain, as a descriptor; -1 if the kernel has no
    scopes.

    Each process that applies them gets its own domain. Used if agent and program share a uid and no pid
    namespace protects the agent as PID 1.
    """
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(CREATE, None, ctypes.c_size_t(0), 1) < 6:
        return -1
    attributes = ctypes.create_string_buffer(struct.pack("<QQQ", 0, 0, SCOPES))
    return libc.syscall(CREATE, attributes, ctypes.c_size_t(24), 0)


def confine_signals():
    import ctypes

    rules = create_rules()
    return rules >= 0 and ctypes.CDLL(None, use_errno=True).syscall(RESTRICT, rules, 0) == 0


# AUDIT_ARCH_* and the number of mq_open (linux/audit.h, asm/unistd.h)
_CALLS = {"x86_64": (0xC000003E, 240), "aarch64": (0xC00000B7, 180)}
# linux/bpf_common.h: load a word of seccomp_data, jump if equal, return
_LOAD, _IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_NUMBER_AT, _ARCH_AT = 0, 4
# linux/seccomp.h
_ALLOW, _FAIL = 0x7FFF0000, 0x00050000


def forbid_queues():
    """Forbids POSIX message queues to this process and its children, after PR_SET_NO_NEW_PRIVS, or raises.

    For programs of a cell: a queue lives as long as its namespace and is in no directory, so it would reach
    the next run.
    """
    try:
        resource.setrlimit(resource.RLIMIT_MSGQUEUE, (0, 0))
    except (OSError, ValueError):
        # gVisor has queues but ignores the limit for them.
        linux.load_filter(_refusing(*_CALLS[os.uname().machine]))


def _refusing(arch, number):
    """A filter that makes mq_open fail with EMFILE, as RLIMIT_MSGQUEUE does."""
    steps = (
        (_LOAD, 0, 0, _ARCH_AT),
        (_IF_EQUAL, 0, 3, arch),
        (_LOAD, 0, 0, _NUMBER_AT),
        (_IF_EQUAL, 0, 1, number),
        (_RETURN, 0, 0, _FAIL | errno.EMFILE),
        (_RETURN, 0, 0, _ALLOW),
    )
    return b"".join(struct.pack("=HBBI", *step) for step in steps)
