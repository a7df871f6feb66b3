"""No POSIX message queues for programs of a cell: they live as long as their namespace and no directory lists them, so that one run
would leave them to the next."""
import errno
import os
import resource
import struct

from . import linux

# AUDIT_ARCH_* and the number of mq_open (linux/audit.h, asm/unistd.h)
_CALLS = {"x86_64": (0xC000003E, 240), "aarch64": (0xC00000B7, 180)}
# linux/bpf_common.h: load a word of seccomp_data, jump if equal, return
_LOAD, _IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_NUMBER_AT, _ARCH_AT = 0, 4
# linux/seccomp.h
_ALLOW, _FAIL = 0x7FFF0000, 0x00050000


def forbid():
    """For this process and all below; after PR_SET_NO_NEW_PRIVS. Raises when neither way is there."""
    try:
        resource.setrlimit(resource.RLIMIT_MSGQUEUE, (0, 0))
    except (OSError, ValueError):
        # gVisor has queues, and takes no limit for them.
        linux.load_filter(_refusing(*_CALLS[os.uname().machine]))


def _refusing(arch, number):
    """A filter that fails mq_open as the limit would."""
    steps = (
        (_LOAD, 0, 0, _ARCH_AT),
        (_IF_EQUAL, 0, 3, arch),
        (_LOAD, 0, 0, _NUMBER_AT),
        (_IF_EQUAL, 0, 1, number),
        (_RETURN, 0, 0, _FAIL | errno.EMFILE),
        (_RETURN, 0, 0, _ALLOW),
    )
    return b"".join(struct.pack("=HBBI", *step) for step in steps)
