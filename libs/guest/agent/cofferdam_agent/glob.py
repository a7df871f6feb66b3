"""Globs over byte paths: `*` and `?` stay within one part, `**/` matches any folders (also none), `**` anything.

All positions are followed at once, so that no pattern takes more than its length times the path's.
"""

_ANY, _STAR, _PARTS, _ALL = -1, -2, -3, -4
_SLASH = ord("/")


def compile_glob(glob):
    tokens, at = [], 0
    while at < len(glob):
        if glob.startswith(b"**/", at):
            tokens.append(_PARTS)
            at += 3
        elif glob.startswith(b"**", at):
            tokens.append(_ALL)
            at += 2
        else:
            tokens.append({b"*": _STAR, b"?": _ANY}.get(glob[at : at + 1], glob[at]))
            at += 1
    return tokens


def matches(tokens, path):
    now = _closure(tokens, {0}, True)
    for place, byte in enumerate(path):
        after = set()
        for at in now:
            token = tokens[at] if at < len(tokens) else None
            if token == byte or (token == _ANY and byte != _SLASH):
                after.add(at + 1)
            elif token == _ALL or token == _PARTS or (token == _STAR and byte != _SLASH):
                after.add(at)
        now = _closure(tokens, after, byte == _SLASH)
        if not now:
            return False
    return len(tokens) in now


def _closure(tokens, states, at_part):
    """Adds what is reached without a byte: past `*` and `**` anywhere, past `**/` only where a part begins."""
    found, waiting = set(states), list(states)
    while waiting:
        at = waiting.pop()
        if at < len(tokens) and (tokens[at] in (_STAR, _ALL) or (tokens[at] == _PARTS and at_part)):
            if at + 1 not in found:
                found.add(at + 1)
                waiting.append(at + 1)
    return found
