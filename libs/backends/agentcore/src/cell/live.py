"""Prints a program's output while it runs, as lines in the tool's own output. The answer repeats all of it.

    @cofferdam-live:NONCE:NUMBER:STREAM:base64@
"""
import base64
import itertools
import os
import select
import threading
import time

# Bytes per live line before base64, so that a line is one atomic write to a pipe (PIPE_BUF, 4096).
PIECE = 2900
LINE_MORE = 100
# Many small writes are joined into one line. The first write after a pause is sent at once.
GAP_S = 0.1


class Live:
    """`left`: bytes of live lines that a program may cause. Output beyond them comes only with the answer."""

    def __init__(self, nonce, left, say):
        self._head, self._left, self._say, self._fd = "@cofferdam-live:%s:" % nonce, left, say, None
        self._number, self._said_at, self._waiting = 0, 0, []
        self._lock = threading.Lock()

    def through(self, fd):
        """Writes to `fd` from now on, because the program has the interpreter's own stream until it ends."""
        with self._lock:
            self._fd = fd

    def end(self):
        with self._lock:
            self._left, self._waiting = 0, []

    def take(self, name, data):
        with self._lock:
            self._left -= len(data) * 4 // 3 + LINE_MORE
            if self._left >= 0:
                self._waiting.append((name, data))
        self.say_due()

    def wait_s(self):
        """Seconds until `say_due` must be called; None if nothing waits."""
        return max(0, self._said_at + GAP_S - time.monotonic()) if self._waiting else None

    def say_due(self):
        with self._lock:
            if not self._waiting or self._said_at + GAP_S > time.monotonic():
                return
            for name, parts in itertools.groupby(self._waiting, lambda part: part[0]):
                data = b"".join(data for _, data in parts)
                for at in range(0, len(data), PIECE):
                    self._line(name, base64.b64encode(data[at : at + PIECE]).decode())
            self._waiting, self._said_at = [], time.monotonic()

    def _line(self, name, text):
        line = "%s%d:%s:%s@\n" % (self._head, self._number, name, text)
        self._number += 1
        if self._fd is None:
            self._say.write(line)
            self._say.flush()
        elif can_write(self._fd):
            os.write(self._fd, line.encode())
        else:
            # Nobody reads now, and the program must not wait. Drop this line and all later ones. The worker
            # stops at the gap in their numbers.
            self._left = 0


def can_write(fd):
    poll = select.poll()
    poll.register(fd, select.POLLOUT)
    return any(events & select.POLLOUT for _, events in poll.poll(0))
