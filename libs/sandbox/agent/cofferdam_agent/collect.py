"""Files of the sandbox for the worker: one read, a list by patterns, or one removed. The answer's last frame is the caller's."""
import struct

from .channel import Closed, TO_HOST_MAX


def collect(work, send, payload):
    """`send` takes frames and waits for a slow worker. Raises WorkError for what the worker is told as a refusal."""
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
        # What was found counts, also where the search ended early.
        if batch:
            send("F", batch)
