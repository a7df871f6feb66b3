"""Landlock instead of namespaces: this process and its children reach only some files, no TCP port and no
process outside.
"""
import ctypes
import os
import struct

from .restrictions import CREATE, RESTRICT, SCOPES

ADD = 445
# linux/landlock.h: rights over files by the ABI that brought them.
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1, 2, 4, 8
ALL_V1 = (1 << 13) - 1
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
FILE_ONLY = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
NET_BIND_TCP, NET_CONNECT_TCP = 1, 2

_libc = ctypes.CDLL(None, use_errno=True)


def confine_files(readable, own):
    """`readable`: folders and files that programs may read and start. `own`: a folder in which they may do
    everything. Needs no_new_privs. Raises OSError if the kernel cannot.
    """
    abi = _libc.syscall(CREATE, None, ctypes.c_size_t(0), 1)
    if abi < 6:
        raise OSError("ABI %d has no signal scope (Linux 6.12)" % abi if abi > 0 else "this kernel has none")
    rights = ALL_V1 | REFER | TRUNCATE | IOCTL_DEV
    fields = [rights, NET_BIND_TCP | NET_CONNECT_TCP, SCOPES]
    attributes = ctypes.create_string_buffer(struct.pack("<QQQ", *fields))
    rules = _checked(_libc.syscall(CREATE, attributes, ctypes.c_size_t(24), 0), "rules")
    for path in readable:
        _allow(rules, path, EXECUTE | READ_FILE | READ_DIR)
    for name in ("null", "zero", "full", "random", "urandom"):
        _allow(rules, "/dev/" + name, READ_FILE | WRITE_FILE)
    _allow(rules, own, rights)
    _checked(_libc.syscall(RESTRICT, rules, 0), "restriction")
    os.close(rules)


def _allow(rules, path, rights):
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    if not os.path.isdir(path):
        rights &= FILE_ONLY
    attributes = ctypes.create_string_buffer(struct.pack("<Qi", rights, fd))
    _checked(_libc.syscall(ADD, rules, 1, attributes, 0), "rule for %s" % path)
    os.close(fd)


def _checked(result, what):
    if result < 0:
        raise OSError(ctypes.get_errno(), "%s: %s" % (what, os.strerror(ctypes.get_errno())))
    return result
