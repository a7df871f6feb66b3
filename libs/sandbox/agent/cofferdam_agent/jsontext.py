"""JSON without `import json`, whose import (re, enum, collections) takes longer than the agent's start."""
import _json


class _Context:
    """The attributes that the C scanner reads from a decoder."""

    strict = True
    object_hook = object_pairs_hook = array_hook = parse_constant = None
    parse_float = float
    parse_int = int
    memo = {}


def decode(text):
    """The value of a JSON text; raises ValueError or StopIteration for anything else."""
    value, end = _json.make_scanner(_Context)(text, 0)
    if end != len(text):
        raise ValueError("text after the JSON value")
    return value


def encode(value):
    """Encodes None, bool, int, str, and lists and dicts (with str keys) of these as ASCII JSON."""
    return _text(value).encode("ascii")


def _text(value):
    if value is None:
        return "null"
    if value is True or value is False:
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return _json.encode_basestring_ascii(value)
    if isinstance(value, list):
        return "[%s]" % ",".join(_text(item) for item in value)
    return "{%s}" % ",".join("%s:%s" % (_text(name), _text(item)) for name, item in value.items())
