"""Reads a program's output, so that the program never waits for a reader. Keeps a bounded, redacted part and
counts all bytes."""
import os
import select
import threading

from .redact import Redaction


class Capture:
    """`spool`: folder of the file `name`, which shows the output while the program runs. `live` also gets the
    output, under the same name."""

    def __init__(self, name, limit, spool, redactor, live):
        self._name, self._left, self._parts, self.bytes, self.dropped = name, limit, [], 0, False
        self._redaction, self._live, self._shows = Redaction(redactor), live, True
        # The lock is needed because a process that outlives the program keeps the reader thread running after
        # `close`.
        self._lock = threading.Lock()
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        self._spool = os.open(os.path.join(spool, name), flags, 0o600)

    def take(self, data):
        with self._lock:
            self.bytes += len(data)
            kept = data[: self._left]
            self._left -= len(kept)
            self.dropped = self.dropped or len(kept) < len(data)
            if self._spool is not None:
                self._show(self._redaction.take(kept))

    def _show(self, data):
        if not data:
            return
        self._parts.append(data)
        self._live.take(self._name, data)
        try:
            self._shows = self._shows and os.write(self._spool, data) == len(data)
        except OSError:
            # The disk is full: from now on the output goes only to `live` and into the answer.
            self._shows = False

    def drain(self, fd):
        """Reads until the other end is closed."""
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        while True:
            wait_s = self._live.wait_s()
            ready = poll.poll(None if wait_s is None else wait_s * 1000)
            self._live.say_due()
            data = os.read(fd, 65536) if ready else None
            if data == b"":
                return
            if data:
                self.take(data)

    def close(self):
        """Ignores later output, which comes from processes that outlived the program."""
        with self._lock:
            self._show(self._redaction.end())
            os.close(self._spool)
            self._spool = None
        return b"".join(self._parts)
