"""Frames v1 on two file descriptors, or on one socket for both: type u8, length u32 LE, payload.

To the host a payload has at most 64 KiB, to the agent at most 1 MiB. Only `send_and_drain` blocks: sent
frames wait in a queue, and whoever produces output asks `has_room` first. Any error means that the worker is
gone: exit.
"""
import fcntl
import os
import select
import struct

HEAD = struct.Struct("<BI")
TO_HOST_MAX = 64 * 1024
TO_AGENT_MAX = 1024 * 1024
# Below malloc's threshold for mmap (128 KiB), which would cost three system calls for each read.
READ_SIZE = 64 * 1024
# Output that may wait for a slow worker before the agent stops reading the program's pipes: four frames.
PENDING_MAX = 4 * TO_HOST_MAX


class Closed(Exception):
    """The worker closed the channel or broke the protocol."""


# The worker listens before it starts the agent, so a connect that takes longer would never succeed.
CONNECT_TIMEOUT_S = 5.0


def connect(path):
    """Connects a descriptor for both directions, or ends the agent with a message on stderr."""
    import _socket  # `socket` itself pulls in enum and selectors

    opened = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    opened.settimeout(CONNECT_TIMEOUT_S)
    try:
        opened.connect(path)
    except OSError as error:
        raise SystemExit("agent: cannot connect to the socket %s: %s" % (path, error.strerror or error))
    return opened.detach()


class Channel:
    """`life`: a descriptor without data. Its end, like the channel's own, means that the worker is gone."""

    def __init__(self, fd_in, fd_out, life=None):
        self.fd_in = fd_in
        self.fd_out = fd_out
        self.life = life
        self.pending = 0
        self._in = bytearray()
        self._out = []
        for fd in (fd_in, fd_out) if life is None else (fd_in, life):
            flags = fcntl.fcntl(fd, fcntl.F_GETFL)
            fcntl.fcntl(fd, fcntl.F_SETFL, flags | os.O_NONBLOCK)

    def watch(self, watch, on_frame):
        is_socket = self.fd_out == self.fd_in

        def hear():
            if is_socket:
                self.flush()
            for kind, payload in self.receive():
                on_frame(kind, payload)

        watch(self.fd_in, select.POLLIN | (select.POLLOUT if is_socket and self.pending else 0), hear)
        if self.pending and not is_socket:
            watch(self.fd_out, select.POLLOUT, self.flush)
        if self.life is not None:
            watch(self.life, select.POLLIN, self.on_life)

    def on_life(self):
        try:
            data = os.read(self.life, 1)
        except BlockingIOError:
            return
        except OSError as error:
            raise Closed("read: %s" % error)
        raise Closed("bytes on the life line" if data else "end of the life line")

    def receive(self):
        """Reads once; yields (type, payload) of every complete frame."""
        try:
            data = os.read(self.fd_in, READ_SIZE)
        except BlockingIOError:
            return
        except OSError as error:
            raise Closed("read: %s" % error)
        if not data:
            raise Closed("end of input")
        buffer = self._in
        buffer += data
        at = 0
        while len(buffer) - at >= HEAD.size:
            kind, length = HEAD.unpack_from(buffer, at)
            if length > TO_AGENT_MAX:
                raise Closed("frame of %d bytes" % length)
            if len(buffer) - at - HEAD.size < length:
                break
            payload = bytes(buffer[at + HEAD.size : at + HEAD.size + length])
            at += HEAD.size + length
            yield chr(kind), payload
        del buffer[:at]

    def send(self, kind, payload=b""):
        if len(payload) > TO_HOST_MAX:
            raise ValueError("frame %s of %d bytes" % (kind, len(payload)))
        self._out.append(HEAD.pack(ord(kind), len(payload)) + payload)
        self.pending += HEAD.size + len(payload)
        self.flush()

    def has_room(self):
        return self.pending < PENDING_MAX

    def send_and_drain(self, kind, data):
        """Sends a large amount and waits for a slow worker, and for nothing else."""
        self.send(kind, data)
        while self.pending > PENDING_MAX:
            poller = select.poll()
            poller.register(self.fd_out, select.POLLOUT)
            if self.life is not None:
                poller.register(self.life, select.POLLIN)
            for fd, _ in poller.poll():
                if fd == self.life:
                    self.on_life()
            self.flush()

    def flush(self):
        while self._out:
            data = self._out[0]
            try:
                written = os.write(self.fd_out, data)
            except BlockingIOError:
                return
            except OSError as error:
                raise Closed("write: %s" % error)
            self.pending -= written
            if written == len(data):
                self._out.pop(0)
            else:
                self._out[0] = data[written:]


def read_some(fd, most=TO_HOST_MAX):
    """Returns bytes, b'' at the end, None if nothing is available now."""
    try:
        return os.read(fd, most)
    except BlockingIOError:
        return None
    except OSError:
        return b""
