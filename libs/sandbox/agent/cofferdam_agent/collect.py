"""The worker's access to files: read, list and remove (C) after a program, copies (B) while it runs."""
import os
import struct

from .channel import Closed, TO_HOST_MAX
from .workdir import WorkError

# Bytes of a file per frame of a copy.
CHUNK = 60 * 1024


def collect(work, send, payload):
    """Answers C except the final Z. `send` waits for a slow worker. Raises WorkError for a refusal."""
    operation, limit = chr(payload[0]), struct.unpack_from("<I", payload, 1)[0]
    names = [name.decode("utf-8", "surrogateescape") for name in payload[5:].split(b"\0")]
    if operation == "r":
        for data in work.read(names[0], limit):
            send("F", data)
    elif operation in "lk":
        _list(send, work.list(names, limit, links=operation == "k"))
    elif operation == "d":
        work.remove(names[0])
    else:
        raise Closed("unknown operation %r" % operation)


def _list(send, found):
    batch = b""
    try:
        for path, size in found:
            item = struct.pack("<QH", size, len(path)) + path
            if len(batch) + len(item) > TO_HOST_MAX:
                send("F", batch)
                batch = b""
            batch += item
    finally:
        # Send the entries found so far, even if the search ended early.
        if batch:
            send("F", batch)


def back_up(work, send, payload):
    """Answers B with frames of h (a path), d (bytes), x (ignore this file) and e (the end). The program may
    write meanwhile: a file replaced by rename is complete, one written in place may be half new.
    """
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
    """Lists all entries before any file is read, because reading one may take long."""
    entries = []
    try:
        for entry in work.list(globs, most):
            entries.append(entry)
    except WorkError:
        pass  # What was found until then is copied.
    return entries
