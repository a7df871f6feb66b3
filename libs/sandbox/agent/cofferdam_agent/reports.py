"""Parses the control pipe of a gate and extracts the program's progress reports.

    R…\\n  ready    P<fraction> <text>\\n  progress    V<u32><bytes>  value    D<code>\\n  end of a session's run

The program can write to the same pipe, so nothing here is trusted: the worker checks each report. At most ten
reports a second are sent, always the newest, and always the last one before the end.
"""
import time

# A fraction, 240 characters of at most four bytes, and the frame around them.
LINE_MAX = 1024
VALUE_MAX = 32 * 1024
GAP_S = 0.1


class Reports:
    def __init__(self, send):
        """`send` takes one report. None drops the reports."""
        self.send = send
        self.value = b""
        self.closed = False
        self._held = b""
        self._latest = None
        self._sent_at = None

    def feed(self, data):
        """Complete messages in `data` except reports. Raises ValueError for an unknown message."""
        self._held += data
        words = b""
        while self._held:
            size = self._size()
            if size is None:
                break
            word, self._held = self._held[:size], self._held[size:]
            if word[:1] != b"P":
                words += word
            elif self.send is not None:
                self._latest = word[1:-1]
                self.send_due()
        return words

    def _size(self):
        """Bytes of the first message; None while it is not complete."""
        kind = self._held[:1]
        if kind == b"V":
            size = 5 + int.from_bytes(self._held[1:5], "little")
            if len(self._held) >= 5 and size > 5 + VALUE_MAX:
                raise ValueError("a value of %d bytes" % size)
            return size if len(self._held) >= max(5, size) else None
        if kind not in (b"R", b"P", b"D"):
            raise ValueError("not a word of the gate")
        at = self._held.find(b"\n")
        # A ready line names the modules of a preload: 64 KiB at most.
        if at < 0 and len(self._held) > (64 * 1024 if kind == b"R" else LINE_MAX):
            raise ValueError("a line without end")
        if kind == b"P" and at > LINE_MAX:
            raise ValueError("a report of %d bytes" % at)
        return None if at < 0 else at + 1

    def keep(self, data):
        """For a program with its own process: keeps the value and drops other messages. After an unknown
        message it drops the value and reads no more.
        """
        try:
            words = self.feed(data)
        except ValueError:
            self.closed, self.value = True, b""
            return
        if words[:1] == b"R":
            words = words.partition(b"\n")[2]
        self.value = (self.value + words)[: VALUE_MAX + 6]

    def due_ms(self):
        """Milliseconds until the waiting report may be sent; None without one."""
        if self._latest is None:
            return None
        return max(0, int((self._sent_at + GAP_S - time.monotonic()) * 1000) + 1)

    def send_due(self, at_end=False):
        if self._latest is None:
            return
        now = time.monotonic()
        if at_end or self._sent_at is None or now >= self._sent_at + GAP_S:
            self._sent_at, latest, self._latest = now, self._latest, None
            self.send(latest)
