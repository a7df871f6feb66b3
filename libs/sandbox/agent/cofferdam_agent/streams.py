"""The program's input as it arrives, and its output up to its byte cap."""
import fcntl
import os
import struct

from .channel import TO_HOST_MAX, read_some
from .workdir import REFUSED, WorkError


def read_all(fd, most):
    """Reads a pipe without writers to its end, or to about `most` bytes."""
    found = b""
    try:
        while len(found) < most:
            data = os.read(fd, 65536)
            if not data:
                break
            found += data
    except OSError:
        pass
    return found


# Linux include/uapi/asm-generic/ioctls.h; `termios` has it too, but its import would cost time.
_FIONREAD = 0x541B


def _unread_bytes(fd):
    try:
        return struct.unpack("<i", fcntl.ioctl(fd, _FIONREAD, bytes(4)))[0]
    except OSError:
        return 0


class Input:
    """`size`: the size declared by the worker; None for a program without input."""

    def __init__(self, size):
        self.size = size
        self.got = 0
        self.is_whole = size in (None, 0)
        self._held = bytearray()

    def take(self, payload):
        if not payload:
            self.is_whole = True
        elif self.size is None or self.got + len(payload) > self.size:
            raise WorkError(REFUSED, "more input than declared")
        else:
            self.got += len(payload)
            self._held += payload

    def take_all(self):
        data, self._held = bytes(self._held), bytearray()
        return data

    def waits_for(self, child):
        return child.stdin is not None and len(self._held) > 0

    def write_to(self, child):
        if child.stdin is None:
            return
        try:
            while self._held:
                del self._held[: os.write(child.stdin, memoryview(self._held)[: 64 * 1024])]
        except BlockingIOError:
            return
        except OSError:
            self._held.clear()  # The program closed its input.
            self.is_whole = True
        if self.is_whole and not self._held:
            os.close(child.stdin)
            child.stdin = None


class Output:
    def __init__(self, channel, kind, fd, cap):
        self.channel = channel
        self.kind = kind
        self.fd = fd
        self.cap = cap
        self.seen = 0
        self.dropped = 0
        self.has_reported = False
        self.open = True
        # Bytes that are still to be read if other processes may go on writing; None to read to the end.
        self.rest = None

    def end_here(self):
        """Ends the output with what is in the pipe now. What is written later stays there."""
        self.rest = _unread_bytes(self.fd) if self.open else 0

    @property
    def is_complete(self):
        return not self.open or self.rest == 0

    def forward(self):
        # A few reads per turn: enough to drain a flood at full speed, few enough to notice a soft stop.
        for _ in range(8):
            data = read_some(self.fd, TO_HOST_MAX if self.rest is None else min(TO_HOST_MAX, self.rest))
            if data is None:
                if self.rest is not None:
                    self.rest = 0  # Another process has read it from the pipe.
                return
            if data == b"":
                self.open = False
                return
            self.send(data)
            if self.rest is not None:
                self.rest -= len(data)
            if self.is_complete or not self.channel.has_room():
                return

    def send(self, data):
        keep = self._take(data)
        if keep:
            self.channel.send(self.kind, keep)
        if self.dropped and not self.has_reported:
            self.has_reported = True
            self.channel.send("T", struct.pack("<BQ", ord(self.kind), self.dropped))

    def _take(self, data):
        keep = data[: max(0, self.cap - self.seen)]
        self.seen += len(data)
        self.dropped += len(data) - len(keep)
        return keep
