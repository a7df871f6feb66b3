"""The value of a program's last expression on the control pipe: `V`, a length, and JSON text.

It is encoded in the program at its end, without running the program's code or importing anything.
"""
import os
import sys

VALUE_MAX = 32 * 1024
DEPTH_MAX = 64


def message_of(value):
    """Empty if the value cannot be encoded."""
    text = encode(value, DEPTH_MAX) or encode_repr(value)
    data = text.encode("ascii") if text else b""
    return b"V" + len(data).to_bytes(4, "little") + data if data and len(data) <= VALUE_MAX else b""


def encode(value, depth):
    """JSON text of plain data (exact built-in types, so no program code runs); None for anything else."""
    kind = type(value)
    if value is None or kind is bool:
        return {None: "null", True: "true", False: "false"}[value]
    if kind is int:
        return str(value) if value.bit_length() < 4096 else None
    if kind is float:
        return repr(value) if value - value == 0 else None
    if kind is str:
        return quote(value) if len(value) <= VALUE_MAX else None
    if depth == 0 or kind not in (list, tuple, dict) or len(value) > VALUE_MAX:
        return None
    parts, size = [], 0
    for item in value:
        part = encode(item, depth - 1)
        if kind is dict:
            below = encode(value[item], depth - 1) if type(item) is str else None
            part = None if part is None or below is None else part + ":" + below
        size += len(part) if part is not None else 0
        if part is None or size > VALUE_MAX:
            return None
        parts.append(part)
    return ("{%s}" if kind is dict else "[%s]") % ",".join(parts)


def quote(text):
    out = []
    for char in text:
        code = ord(char)
        if char in '"\\':
            out.append("\\" + char)
        elif 32 <= code < 127:
            out.append(char)
        elif code < 0x10000:
            out.append("\\u%04x" % code)
        else:
            code -= 0x10000
            out.append("\\u%04x\\u%04x" % (0xD800 + (code >> 10), 0xDC00 + (code & 0x3FF)))
    return '"' + "".join(out) + '"'


def encode_repr(value):
    """{"repr": …} for objects of libraries (arrays, frames, Decimal), never with a __repr__ of the program.
    """
    kind = type(value)
    if kind.__module__ in ("builtins", "__main__") or kind.__repr__ is object.__repr__:
        return None
    home = getattr(sys.modules.get(kind.__module__), "__file__", None)
    if home is None or home.startswith(os.path.dirname(os.path.abspath(sys.argv[0])) + os.sep):
        return None
    return '{"repr":%s}' % quote(repr(value)[: VALUE_MAX // 8])
