"""Carries the program's connections to a port on the sandbox's loopback to the worker, as frames.

    N  u32 id               to host    a connection was accepted; ids count up from 1 and are never reused
    D  u32 id, bytes        both ways  at most what the receiver has granted
    W  u32 id, u32 bytes    both ways  grants so many bytes more; both directions begin with WINDOW
    Q  u32 id, u8 how       both ways  END: no more bytes from me · RESET: broken, drop everything
                            to agent   OVER: nothing more either way; what was sent is still delivered

    accepted ──N── open ──Q END in both directions, in any order── quiet ──Q OVER── gone
    open | quiet ──Q OVER── what waits for the program is written ── gone       any ──Q RESET, either way── gone

A connection counts until OVER or RESET, so the worker never sees more of them than it has objects for. The
agent's poll drives everything. The worker is trusted: a frame that breaks these rules ends the agent.
"""
import _socket
import select
import struct

from .channel import Closed, TO_HOST_MAX
from .workdir import NO_LOOPBACK, WorkError

# Same numbers as in libs/sandbox/src/guest (tunnel.ts, tunnel-connection.ts). A window of 256 KiB allows 100
# MB/s at a round trip of 2.5 ms, which is more than a container's attach stream carries. Browsers and package
# managers open at most 64 connections.
WINDOW = 256 * 1024
CONNECTIONS_MAX = 64
# If the queue is full, the kernel retries a connection only after a second.
BACKLOG = 1024
END, OVER, RESET = range(3)

_ID = struct.Struct("<I")
_PAIR = struct.Struct("<II")
_QUIT = struct.Struct("<IB")
# Bytes of one read. Each connection is read once per turn, so together they exceed the channel's pending
# bytes by about 1 MiB at most.
_READ_FEW, _READ_MANY = TO_HOST_MAX - _ID.size, 16 * 1024


class Tunnel:
    def __init__(self, channel):
        self.channel = channel
        self.listener = None
        self.open = {}
        self.last = 0

    def listen(self, port):
        """Raises WorkError if nobody could connect: the port is taken, or there is no loopback."""
        listener = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
        try:
            listener.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
            listener.bind(("127.0.0.1", port))
            listener.listen(BACKLOG)
            listener.setblocking(False)
            # Listening succeeds even if the interface is down. So test the route by connecting a datagram
            # socket.
            probe = _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM)
            try:
                probe.connect(("127.0.0.1", port))
            finally:
                probe.close()
        except OSError as error:
            listener.close()
            message = "cannot listen on 127.0.0.1:%d: %s" % (port, error.strerror or error)
            raise WorkError(NO_LOOPBACK, message)
        self.listener = listener

    def close(self):
        """Ends everything at once without a frame: the following X tells the worker."""
        if self.listener is not None:
            self.listener.close()
            self.listener = None
        for connection in list(self.open.values()):
            connection.drop()

    def watch(self, watch, may_send):
        # Above the limit, connections wait in the kernel's queue instead of being refused.
        if self.listener is not None and may_send and len(self.open) < CONNECTIONS_MAX:
            watch(self.listener.fileno(), select.POLLIN, self.accept)
        for connection in self.open.values():
            events = connection.events(may_send)
            if events:
                watch(connection.socket.fileno(), events, connection.on_event)

    def accept(self):
        while self.listener is not None and len(self.open) < CONNECTIONS_MAX:
            try:
                fd, _ = self.listener._accept()
            except OSError:
                return  # Nothing is there now, or it went away while it waited.
            accepted = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM, 0, fd)
            accepted.setblocking(False)
            accepted.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_NODELAY, 1)
            self.last += 1
            self.open[self.last] = Connection(self, self.last, accepted)
            self.channel.send("N", _ID.pack(self.last))

    def on_frame(self, kind, payload):
        if len(payload) < _ID.size:
            raise Closed("frame %s of %d bytes" % (kind, len(payload)))
        number = _ID.unpack_from(payload)[0]
        connection = self.open.get(number)
        if connection is None:
            if not 0 < number <= self.last:
                raise Closed("frame %s for connection %d" % (kind, number))
            return  # It crossed our reset, or the end of the run.
        if kind == "D":
            connection.take(memoryview(payload)[_ID.size :])
        elif kind == "W":
            connection.grant(_PAIR.unpack(payload)[1])
        else:
            connection.quit(payload[_ID.size])


class Connection:
    def __init__(self, tunnel, number, socket):
        self.tunnel = tunnel
        self.number = number
        self.socket = socket
        self.credit = WINDOW
        self.reading = True
        self.inbox = bytearray()
        self.delivered = 0
        # Last message of the worker: None, END or OVER.
        self.said = None

    def events(self, may_send):
        wanted = select.POLLIN if self.reading and self.credit and may_send else 0
        return wanted | select.POLLOUT if self.inbox else wanted

    def on_event(self):
        if self.inbox:
            self.write()
        if self.socket is not None and self.reading and self.credit:
            self.read()

    def read(self):
        tunnel = self.tunnel
        size = _READ_FEW if len(tunnel.open) <= 8 else _READ_MANY
        try:
            data = self.socket.recv(min(size, self.credit))
        except BlockingIOError:
            return
        except OSError:
            self.reset()
            return
        if data:
            self.credit -= len(data)
            tunnel.channel.send("D", _ID.pack(self.number) + data)
        else:
            self.reading = False
            tunnel.channel.send("Q", _QUIT.pack(self.number, END))

    def grant(self, more):
        self.credit += more
        if self.credit > WINDOW:
            raise Closed("frame W beyond the window")

    def take(self, data):
        if self.said is not None or len(self.inbox) + self.delivered + len(data) > WINDOW:
            raise Closed("frame D beyond the window")
        if not self.inbox:
            try:
                sent = self.socket.send(data)
                self.delivered += sent
                data = data[sent:]
            except BlockingIOError:
                pass
            except OSError:
                self.reset()
                return
        self.inbox += data
        self.grant_back()

    def write(self):
        try:
            while self.inbox:
                sent = self.socket.send(memoryview(self.inbox)[: 128 * 1024])
                del self.inbox[:sent]
                self.delivered += sent
        except BlockingIOError:
            pass
        except OSError:
            self.reset()
            return
        if self.said is None:
            self.grant_back()
        elif not self.inbox:
            self.finish()

    def grant_back(self):
        # A quarter of the window at a time: few frames, and the sender never waits while there is space.
        if self.delivered >= WINDOW // 4:
            self.tunnel.channel.send("W", _PAIR.pack(self.number, self.delivered))
            self.delivered = 0

    def quit(self, how):
        if how == RESET:
            self.drop(reset=True)
            return
        if how == OVER:
            self.reading = False
        self.said = how
        if not self.inbox:
            self.finish()

    def finish(self):
        """All bytes from the worker are written to the socket, so its END or OVER can take effect."""
        try:
            self.socket.shutdown(_socket.SHUT_WR)
        except OSError:
            pass  # The program closed it first.
        if self.said == OVER:
            self.drop()

    def reset(self):
        if self.said != OVER:
            self.tunnel.channel.send("Q", _QUIT.pack(self.number, RESET))
        self.drop(reset=True)

    def drop(self, reset=False):
        if reset:
            # With a linger time of zero, the kernel sends a reset.
            self.socket.setsockopt(_socket.SOL_SOCKET, _socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()
        self.socket = None
        self.inbox.clear()
        del self.tunnel.open[self.number]
