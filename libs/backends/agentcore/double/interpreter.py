"""One session of the double, inside its jail: serves the nine tools over HTTP on a unix socket.

POST /call {name, arguments, previews} answers with lines of JSON: {"text"} while a cell or command runs
(only with previews), then {"result"}. The caller sends one call at a time.
"""
import json
import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import UnixStreamServer

sys.path.insert(0, os.path.dirname(__file__))  # -I left it out
from tools import Refused, Session, said  # noqa: E402

SESSION = Session()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_POST(self):
        call = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        on_text = (lambda text: self.line({"text": text})) if call["previews"] else None
        try:
            result = getattr(SESSION, call["name"])(call["arguments"], on_text)
        except (Refused, OSError) as error:
            result = said(str(error), True)
        self.line({"result": result})
        self.wfile.write(b"0\r\n\r\n")

    def line(self, message):
        data = json.dumps(message).encode() + b"\n"
        self.wfile.write(b"%x\r\n" % len(data) + data + b"\r\n")
        self.wfile.flush()


class Server(ThreadingHTTPServer, UnixStreamServer):
    address_family = UnixStreamServer.address_family
    daemon_threads = True

    def server_bind(self):
        UnixStreamServer.server_bind(self)
        self.server_name, self.server_port = "interpreter", 80

    def get_request(self):
        request, _ = self.socket.accept()
        return request, ("gateway", 0)

    def handle_error(self, request, client_address):
        """Logs no error for a caller that went away."""
        if not isinstance(sys.exc_info()[1], (BrokenPipeError, ConnectionResetError)):
            super().handle_error(request, client_address)


Server(sys.argv[1], Handler).serve_forever()
