"""First process of a session's container where nothing but plain requests is forwarded: the agent's frames over HTTP.

Start: `python3 -I -S http_pod.py LISTEN [OPTIONS OF agent.py that are the image's own]`, LISTEN being a TCP port, or the path of a
unix socket. A worker attaches with a channel of its own choosing, which nobody inside can guess, then moves bytes by numbered
requests; a request whose answer was lost is sent again and has no second effect.

  free ──attach──▶ attached ──release (clean)──▶ released ──attach──▶ attached …      agent ends ──▶ over
                     └─ sent nothing yet: another with a higher fence takes over

  POST /v1/attach   {"channel", "fence", "boot", "options"} → {"pod", "fresh"}     boot: the incarnation that is expected, or null
  POST /v1/send?channel=&at=N         bytes for the agent from its N-th on → {"at"}: how many it has now (perhaps not all of these)
  POST /v1/receive?channel=&at=N&wait=MS   what the agent wrote from its N-th byte on; what came before is forgotten
  POST /v1/release?channel=&at=N&keep=files|interpreter|none    the turn is over: proves the container clean; another may attach
  GET  /health

Errors are JSON with `pod`, so that they cannot be taken for the vendor's own: 409 when another holds it, 410 when it is over or another
incarnation. Without a request for LIFE_SECONDS an attached pod ends, and its container with it: its worker died.
"""
import hmac
import json
import os
import select
import socket
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler
from socketserver import TCPServer, ThreadingMixIn, UnixStreamServer
from urllib.parse import parse_qs, urlsplit

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

from cofferdam_agent.cell import Cell  # noqa: E402
from cofferdam_agent.channel import HEAD, TO_HOST_MAX  # noqa: E402
from cofferdam_agent.linux import PR_SET_DUMPABLE, prctl  # noqa: E402
from cofferdam_agent.options import Options  # noqa: E402
from cofferdam_agent.uids import are_two, FilesOfProgram  # noqa: E402
from cofferdam_agent.workdir import WorkError  # noqa: E402

FRAMES = "application/x-cofferdam-frames"
# A worker asks at least every 20 s; four lost answers in a row are a dead one.
LIFE_SECONDS = 90
# What waits for a reader: as much as an answer holds. The agent waits in its own bounded queue behind it.
HELD_MAX = 1024 * 1024
BODY_MAX = 1024 * 1024
# A worker has two requests under way. More are a program's own, which can only harm itself.
HANDLERS_MAX = 16
SEND_SECONDS = 10


class Refused(Exception):
    def __init__(self, status, reason):
        Exception.__init__(self, reason)
        self.status, self.reason = status, reason


class Pod:
    """One agent for the container's life, and who may speak with it."""

    def __init__(self, own_options):
        self.own_options = own_options
        self.boot = os.urandom(16).hex()
        self.change = threading.Condition()
        self.sending = threading.Lock()
        self.agent = self.pipe = self.cell = self.channel = self.released = None
        self.fence = -1
        self.heard = time.monotonic()
        self.reset()

    def reset(self, held=b""):
        self.held, self.base, self.taken = bytearray(held), 0, 0

    def attach(self, asked):
        channel, fence, options = asked["channel"], asked["fence"], asked["options"]
        if not isinstance(channel, str) or len(channel) < 32 or not all(isinstance(option, str) for option in options):
            raise Refused(400, "not a worker's")
        # Nothing may be half sent when it is another's.
        with self.sending, self.change:
            if asked.get("boot") not in (None, self.boot):
                raise Refused(410, "another incarnation")
            self.heard = time.monotonic()
            if self.agent is None:
                self.start(options)
            elif self.holds(channel) and self.taken == 0 and self.base == 0:
                return {"pod": self.boot, "fresh": self.is_fresh}  # its first answer was lost
            else:
                # Of one that was never sent anything its holder died, or was replaced, before it asked for anything.
                if fence < self.fence or (self.channel is not None and (self.taken > 0 or fence == self.fence)):
                    raise Refused(409, "another holds it")
                if self.agent.poll() is not None:
                    raise Refused(410, "over")
                self.reset(self.ready)
                self.is_fresh = False
            self.channel, self.fence = channel, fence
            return {"pod": self.boot, "fresh": self.is_fresh}

    def start(self, options):
        parsed = Options(self.own_options + options)
        two_uids = are_two(parsed)
        os.makedirs(parsed.work, 0o755, exist_ok=True)
        self.as_program = lambda: FilesOfProgram(parsed, two_uids)
        if "--cell" in options:
            # The whole machine is the session's, also where something else is its first process.
            with self.as_program():
                self.cell = Cell(parsed, os.path.realpath(parsed.work), two_uids, owns_mounts=True)
        mine, agents = socket.socketpair()
        command = [sys.executable, "-I", "-S", os.path.join(HERE, "agent.py"), *self.own_options, *options]
        self.agent = subprocess.Popen(command, stdin=agents, stdout=agents)
        agents.close()
        mine.setblocking(False)
        self.pipe, self.ready, self.is_fresh = mine, b"", True
        threading.Thread(target=self.read, args=(mine,), daemon=True).start()

    def read(self, pipe):
        first = bytearray()
        while True:
            select.select([pipe], [], [])
            try:
                data = pipe.recv(TO_HOST_MAX)
            except OSError:
                data = b""
            with self.change:
                if not self.ready:
                    # The agent says once that it is ready; whoever attaches later hears it from us.
                    first += data
                    if len(first) >= HEAD.size and len(first) >= HEAD.size + HEAD.unpack_from(first)[1]:
                        self.ready = bytes(first[: HEAD.size + HEAD.unpack_from(first)[1]])
                self.held += data
                self.is_over = not data
                self.change.notify_all()
                self.change.wait_for(lambda: len(self.held) < HELD_MAX)
            if not data:
                return

    is_over = False

    def holds(self, channel):
        return self.channel is not None and hmac.compare_digest(self.channel.encode(), channel.encode())

    def check(self, channel):
        if not self.holds(channel):
            raise Refused(410, "not the channel")
        self.heard = time.monotonic()

    def send(self, channel, at, body):
        with self.sending:
            with self.change:
                self.check(channel)
                if at > self.taken:
                    raise Refused(409, "bytes are missing")
                rest = memoryview(body)[self.taken - at :]
            sent = 0
            try:
                # An agent that is busy gets the rest with the next request.
                while sent < len(rest) and select.select([], [self.pipe], [], SEND_SECONDS)[1]:
                    sent += self.pipe.send(rest[sent:])
            except OSError:
                raise Refused(410, "over")
            self.taken += sent
            return {"pod": self.boot, "at": self.taken}

    def forget(self, at):
        if not self.base <= at <= self.base + len(self.held):
            raise Refused(409, "no such byte")
        del self.held[: at - self.base]
        self.base = at
        self.change.notify_all()

    def receive(self, channel, at, seconds):
        with self.change:
            self.check(channel)
            self.forget(at)
            self.change.wait_for(lambda: self.held or self.is_over or not self.holds(channel), timeout=seconds)
            self.check(channel)
            if not self.held and self.is_over:
                raise Refused(410, "over")
            return bytes(self.held)

    def release(self, channel, at, keep):
        with self.change:
            if self.channel is None and channel == self.released:
                return {"pod": self.boot}  # the first answer was lost
            self.check(channel)
            self.forget(at)
            if self.held or self.is_over or self.cell is None:
                raise Refused(409, "the turn is not over")
            try:
                # The agent has proven that no process is left and has wiped what is its own; here what is the container's.
                with self.as_program():
                    self.cell.clean(keep)
            except WorkError as error:
                raise Refused(409, "not clean: %s" % error)
            self.channel, self.released = None, channel
            return {"pod": self.boot}

    def watch(self):
        """Ends the process, and all that runs, when its worker is gone."""
        while True:
            time.sleep(1)
            with self.change:
                is_left = self.channel is not None and time.monotonic() - self.heard > LIFE_SECONDS
                if is_left and self.taken == 0 and not self.is_fresh:
                    # It came back to a container that rests, and asked for nothing: so it rests on.
                    self.channel = is_left = None
            if is_left:
                self.agent.kill()
                os._exit(1)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 120

    def do_GET(self):
        self.answer(200 if urlsplit(self.path).path == "/health" else 404, {"pod": self.server.pod.boot})

    def do_POST(self):
        length = self.headers.get("Content-Length", "0")
        if not length.isdigit() or int(length) > BODY_MAX:
            self.close_connection = True
            return self.answer(413, {"pod": self.server.pod.boot, "error": "body"})
        body = self.rfile.read(int(length))
        try:
            done = self.route(urlsplit(self.path), body)
        except Refused as refused:
            return self.answer(refused.status, {"pod": self.server.pod.boot, "error": refused.reason})
        except (KeyError, TypeError, ValueError, SystemExit):
            return self.answer(400, {"pod": self.server.pod.boot, "error": "not a worker's"})
        self.answer(200, done)

    def route(self, url, body):
        pod = self.server.pod
        if url.path == "/v1/attach":
            return pod.attach(json.loads(body))
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        channel, at = query["channel"], int(query["at"])
        if url.path == "/v1/send":
            return pod.send(channel, at, body)
        if url.path == "/v1/receive":
            return pod.receive(channel, at, min(int(query["wait"]), 30000) / 1000)
        if url.path == "/v1/release":
            return pod.release(channel, at, query["keep"])
        raise Refused(404, "no such path")

    def answer(self, status, body):
        is_frames = isinstance(body, bytes)
        data = body if is_frames else json.dumps(body).encode()
        try:
            self.send_response(status)
            self.send_header("Content-Type", FRAMES if is_frames else "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)
        except OSError:
            self.close_connection = True

    def address_string(self):
        return ""

    def log_message(self, *_):
        pass  # Addresses of requests hold the session's identifier.


class Server(ThreadingMixIn):
    daemon_threads = True
    request_queue_size = 16
    allow_reuse_address = True

    def process_request(self, request, client_address):
        if threading.active_count() > HANDLERS_MAX:
            return self.shutdown_request(request)
        super().process_request(request, client_address)

    def handle_error(self, *_):
        pass


class TcpServer(Server, TCPServer):
    address_family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET

    def server_bind(self):
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()


class UnixServer(Server, UnixStreamServer):
    pass


def main():
    # Programs that have our uid must neither read the channel from our memory nor take our descriptors.
    prctl(PR_SET_DUMPABLE, 0)
    where = sys.argv[1]
    server = TcpServer(("", int(where)), Handler) if where.isdigit() else UnixServer(where, Handler)
    server.pod = Pod(sys.argv[2:])
    threading.Thread(target=server.pod.watch, daemon=True).start()
    server.serve_forever()


if __name__ == "__main__":
    main()
