"""Globs over byte paths: `*` and `?` stay within one part, `**/` matches any folders (also none), `**` all.

All globs are matched at once, as bits of one number, so the cost per byte does not depend on their number. A
walk keeps the state of a folder for its entries, and skips a folder in which nothing can match.
"""

_ANY, _STAR, _PARTS, _ALL = -1, -2, -3, -4
_SLASH = ord("/")


class Globs:
    """States are bits of an int: one per token of each glob, and one for its end."""

    def __init__(self, globs):
        at, start = 0, 0
        self._end = 0
        # Tokens that match a byte: those of each literal byte, and those of any byte but a slash.
        self._literal, self._any = {}, 0
        # `_stay`: tokens that can match another byte after a byte that is not a slash; `_stay_slash`: after a
        # slash. `_skip`: tokens that can match no byte at all, anywhere; `_skip_at_part`: only at the start
        # of a part.
        self._stay, self._stay_slash, self._skip, self._skip_at_part = 0, 0, 0, 0
        for glob in globs:
            start |= 1 << at
            for token in _tokens(glob):
                bit = 1 << at
                if token == _ANY:
                    self._any |= bit
                elif token >= 0:
                    self._literal[token] = self._literal.get(token, 0) | bit
                elif token == _PARTS:
                    self._skip_at_part |= bit
                else:
                    self._skip |= bit
                if token in (_STAR, _PARTS, _ALL):
                    self._stay |= bit
                if token in (_PARTS, _ALL):
                    self._stay_slash |= bit
                at += 1
            self._end |= 1 << at
            at += 1
        # The cost of one step, relative to a step with short globs: Python's ints get slower with their
        # length.
        self.step_cost = 1 + at // 1024
        self.start = self._closed(start, True)

    def after(self, states, data):
        """The states after more bytes of a path; 0 if nothing with this beginning can match."""
        for byte in data:
            is_slash = byte == _SLASH
            passed = self._literal.get(byte, 0) | (0 if is_slash else self._any)
            states = (states & passed) << 1 | states & (self._stay_slash if is_slash else self._stay)
            if not states:
                return 0
            states = self._closed(states, is_slash)
        return states

    def matches(self, states):
        return states & self._end != 0

    def _closed(self, states, at_part):
        skip = self._skip | self._skip_at_part if at_part else self._skip
        while True:
            more = states | (states & skip) << 1
            if more == states:
                return states
            states = more


def _tokens(glob):
    tokens, at = [], 0
    while at < len(glob):
        if glob.startswith(b"**/", at):
            token, size = _PARTS, 3
        elif glob.startswith(b"**", at):
            token, size = _ALL, 2
        else:
            token, size = {b"*": _STAR, b"?": _ANY}.get(glob[at : at + 1], glob[at]), 1
        # Repeated equal tokens change nothing but cost a step each.
        if token not in (_STAR, _PARTS, _ALL) or not tokens or tokens[-1] != token:
            tokens.append(token)
        at += size
    return tokens
