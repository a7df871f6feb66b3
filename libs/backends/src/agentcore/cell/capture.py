"""What a program writes: as much as was asked for is kept, all of it is counted, none of it makes the program wait."""
import os


class Capture:
    """`spool`: a file that shows it while the program runs."""

    def __init__(self, limit, spool):
        self._left, self._parts, self.bytes, self.dropped = limit, [], 0, False
        self._spool = os.open(spool, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)

    def take(self, data):
        self.bytes += len(data)
        kept = data[: self._left]
        self._left -= len(kept)
        self.dropped = self.dropped or len(kept) < len(data)
        if kept and self._spool is not None:
            self._parts.append(kept)
            os.write(self._spool, kept)

    def drain(self, fd):
        """Until the other end is closed."""
        while True:
            data = os.read(fd, 65536)
            if not data:
                return
            self.take(data)

    def close(self):
        """What comes later is counted by nobody: something that outlived the program still writes."""
        os.close(self._spool)
        self._spool = None
        return b"".join(self._parts)
