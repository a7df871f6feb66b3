"""Carries the agent's frames over HTTP, as the first process of a session's container, at a vendor that
forwards only plain HTTP requests.

Start: `python3 -I -S http_pod.py LISTEN [OPTIONS OF agent.py that belong to the image]`. LISTEN is a TCP port
or the path of a unix socket. A worker attaches with a channel name that it chooses and that no program inside
can guess. Then it moves bytes with numbered requests. If an answer was lost, the worker sends the request
again, which has no second effect. http_agent.py has the states.

  POST /v1/attach
      takes {"channel", "fence", "boot", "options"}, answers {"pod", "fresh"}; `boot` is the incarnation that
      the worker expects, or null
  POST /v1/send?channel=&at=N
      takes bytes for the agent, from the N-th on; answers {"at"}, which is how many the agent has now
  POST /v1/receive?channel=&at=N&wait=MS
      answers what the agent wrote, from the N-th byte on, and drops earlier bytes
  POST /v1/release?channel=&at=N&keep=files|interpreter|none
      ends the turn and proves the container clean, so that another worker may attach
  GET /health

Errors are JSON with `pod`, so that the vendor's own errors look different: 409 when another worker holds the
pod, 410 when the pod is over or is another incarnation. If an attached pod gets no request for LIFE_SECONDS,
it ends, and its container with it.
"""
import json
import os
import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler
from socketserver import TCPServer, ThreadingMixIn, UnixStreamServer
from urllib.parse import parse_qs, urlsplit

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

from cofferdam_agent.http_agent import Pod, Refused  # noqa: E402
from cofferdam_agent.linux import PR_SET_DUMPABLE, prctl  # noqa: E402

FRAMES = "application/x-cofferdam-frames"
BODY_MAX = 1024 * 1024
# A worker has two requests in flight. Any more come from a program, which then harms only itself.
HANDLERS_MAX = 16


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
    # Programs with our uid must not read the channel name from our memory nor take our descriptors.
    prctl(PR_SET_DUMPABLE, 0)
    where = sys.argv[1]
    server = TcpServer(("", int(where)), Handler) if where.isdigit() else UnixServer(where, Handler)
    server.pod = Pod(sys.argv[2:])
    threading.Thread(target=server.pod.watch, daemon=True).start()
    server.serve_forever()


if __name__ == "__main__":
    main()
