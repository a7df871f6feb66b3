"""Copies of files for the worker while the program runs: h path, d bytes, x (what came of this file does not count), e.

A program may write meanwhile: a file that is replaced by rename is whole, one that is written in place may be half new.
"""
import os
import struct

from .workdir import WorkError

CHUNK = 60 * 1024


def back_up(work, send, payload):
    most_files, left = struct.unpack_from("<II", payload)
    globs = [glob.decode("utf-8", "surrogateescape") for glob in payload[8:].split(b"\0")]
    try:
        for path, size in _found(work, globs, most_files):
            if size > left:
                continue
            send("B", b"h" + path)
            try:
                for data in work.read(os.fsdecode(path), left):
                    left -= len(data)
                    for at in range(0, len(data), CHUNK):
                        send("B", b"d" + data[at : at + CHUNK])
            except WorkError:
                send("B", b"x")
    finally:
        send("B", b"e")


def _found(work, globs, most):
    """All of them before the first is read, which may take long."""
    entries = []
    try:
        for entry in work.list(globs, most):
            entries.append(entry)
    except WorkError:
        pass  # A copy is of what was found.
    return entries
