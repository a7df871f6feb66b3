"""HTTP on a unix socket or loopback: JSON answers, bodies with or without a length, chunked streams."""
import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import UnixStreamServer

BODY_MAX = 256 * 1024 * 1024


class JsonHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def address_string(self):
        return "gateway"

    def log_message(self, *_args):
        pass

    def answer(self, status, body=b"", kind="application/json", headers={}):
        self.send_response(status)
        if body:
            self.send_header("Content-Type", kind)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def answer_json(self, status, value):
        self.answer(status, json.dumps(value).encode())

    def read_body(self):
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            parts, size = [], 0
            while True:
                length = int(self.rfile.readline().split(b";")[0], 16)
                parts.append(self.rfile.read(length))
                self.rfile.readline()
                size += length
                if length == 0 or size > BODY_MAX:
                    return b"".join(parts)
        return self.rfile.read(min(int(self.headers.get("Content-Length") or 0), BODY_MAX))

    def begin_stream(self, kind):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def chunk(self, data):
        self.wfile.write(b"%x\r\n" % len(data) + data + b"\r\n")
        self.wfile.flush()

    def end_stream(self):
        self.wfile.write(b"0\r\n\r\n")


class LoopbackServer(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request, client_address):
        """Logs no error for a client that went away."""
        if not isinstance(sys.exc_info()[1], (BrokenPipeError, ConnectionResetError)):
            super().handle_error(request, client_address)


class Server(LoopbackServer, UnixStreamServer):
    address_family = UnixStreamServer.address_family

    def server_bind(self):
        UnixStreamServer.server_bind(self)
        self.server_name, self.server_port = "sandbox", 0

    def get_request(self):
        request, _ = self.socket.accept()
        return request, ("gateway", 0)
