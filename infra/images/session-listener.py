#!/usr/bin/env python3
"""Waits in a pod for the session that it shall serve, and then becomes the command that serves it.

    session-listener [--host 0.0.0.0] [--port 8080] -- COMMAND [ARGUMENT …]

A pod of a warm pool runs before anybody knows its session, so the session cannot be in its variables. A
dispatcher posts it instead, once:

    POST /  {"session_id": "sesn_…", "work_id": "work_…", "work_secret": "…"}      work_secret is optional

The answer is 202, and this process is replaced by COMMAND, with ANTHROPIC_SESSION_ID, ANTHROPIC_WORK_ID
and ANTHROPIC_WORK_SECRET set. All other variables are the pod's, for example ANTHROPIC_ENVIRONMENT_ID and
ANTHROPIC_BASE_URL. A request that is wrong gets 400 with the reason, and a second session 409. GET
/healthz answers 200 until a session is posted. Python 3.9 or newer, standard library only.
"""
import argparse
import json
import os
import re
import shutil
import signal
import socket
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ID = re.compile(r"[A-Za-z0-9_-]{1,128}", re.ASCII)
SECRET = re.compile(r"[\x21-\x7e]{1,16384}", re.ASCII)
BODY_MAX = 32 * 1024
# Time limit for a client's whole request, however slowly it sends.
REQUEST_S = 5
CONNECTIONS_MAX = 32
# How long to wait until other requests in flight have their answers, once the session is accepted.
LAST_ANSWERS_S = 2


class Refused(Exception):
    """The request is wrong. The text is the answer."""


class Binding:
    """The session of this pod, which is set once."""

    def __init__(self):
        self._lock = threading.Lock()
        self._variables = None
        self.is_answered = threading.Event()

    def take(self, variables):
        """False if there is a session already."""
        with self._lock:
            if self._variables is not None:
                return False
            self._variables = variables
            return True

    @property
    def variables(self):
        return self._variables


def variables_of(body):
    """The variables for the command. Throws Refused."""
    try:
        value = json.loads(body.decode("utf-8"))
    except (ValueError, RecursionError):
        raise Refused("the body is not JSON") from None
    if not isinstance(value, dict):
        raise Refused("the body is not a JSON object")
    variables = {}
    for field, variable in (("session_id", "ANTHROPIC_SESSION_ID"), ("work_id", "ANTHROPIC_WORK_ID")):
        text = value.get(field)
        if not isinstance(text, str) or ID.fullmatch(text) is None:
            raise Refused(f"{field} must be 1 to 128 letters, digits, _ or -")
        variables[variable] = text
    secret = value.get("work_secret")
    if secret is not None:
        if not isinstance(secret, str) or SECRET.fullmatch(secret) is None:
            raise Refused("work_secret must be 1 to 16384 printable ASCII characters without spaces")
        variables["ANTHROPIC_WORK_SECRET"] = secret
    return variables


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def setup(self):
        super().setup()
        self.timer = threading.Timer(REQUEST_S, self.cut_off)
        self.timer.daemon = True
        self.timer.start()

    def finish(self):
        self.timer.cancel()
        super().finish()

    def cut_off(self):
        try:
            self.connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def do_GET(self):
        if self.path == "/healthz":
            self.answer(200, {"status": "waiting"})
        else:
            self.answer(404, {"error": "expected GET /healthz or POST /"})

    def do_POST(self):
        if self.path != "/":
            self.answer(404, {"error": "expected GET /healthz or POST /"})
            return
        binding = self.server.binding
        try:
            variables = variables_of(self.body())
        except Refused as refused:
            self.answer(400, {"error": str(refused)})
            return
        if not binding.take(variables):
            self.answer(409, {"error": "this pod has a session already"})
            return
        try:
            self.answer(202, {"status": "accepted"})
        finally:
            binding.is_answered.set()

    def body(self):
        if "transfer-encoding" in self.headers:
            raise Refused("Transfer-Encoding is not supported; send Content-Length")
        lengths = self.headers.get_all("content-length") or []
        if len(lengths) != 1 or re.fullmatch(r"[0-9]{1,9}", lengths[0], re.ASCII) is None:
            raise Refused("one Content-Length with a number is required")
        length = int(lengths[0])
        if length > BODY_MAX:
            raise Refused(f"the body has more than {BODY_MAX} bytes")
        body = self.rfile.read(length)
        if len(body) < length:
            raise Refused("the body is shorter than Content-Length says")
        return body

    def answer(self, status, value):
        self.close_connection = True
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        try:
            self.wfile.write(body)
        except OSError:
            # The client is gone. A session that was accepted stays accepted.
            pass

    def send_error(self, code, message=None, explain=None):
        """For requests that http.server itself refuses. Its own answer is a page of HTML."""
        self.answer(code, {"error": message or "bad request"})

    def version_string(self):
        return "session-listener"

    def log_message(self, *_):
        """Requests come from outside and may hold a secret, so none is logged."""


class Server(ThreadingHTTPServer):
    daemon_threads = True
    # Long enough not to fill up: if the kernel dropped a connection, its client would wait for ever.
    request_queue_size = 128

    def __init__(self, address, binding):
        super().__init__(address, Handler)
        self.binding = binding
        self._free = threading.BoundedSemaphore(CONNECTIONS_MAX)

    def process_request(self, request, client_address):
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request, client_address):
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request, client_address):
        """A client that went away is nothing to report."""

    def wait_for_answers(self, seconds):
        """Waits until no connection is served, or the time is up."""
        deadline = time.monotonic() + seconds
        for _ in range(CONNECTIONS_MAX):
            if not self._free.acquire(timeout=max(0, deadline - time.monotonic())):
                return


def main():
    parser = argparse.ArgumentParser(prog="session-listener", allow_abbrev=False)
    parser.add_argument("--host", default="0.0.0.0", help="address to listen at")
    parser.add_argument("--port", type=int, default=8080, help="port; 0 takes a free one")
    parser.add_argument("command", nargs="+", help="what to become, after --")
    options = parser.parse_args()
    program = shutil.which(options.command[0])
    if program is None:
        parser.error(f"there is no command {options.command[0]}")
    # The first process of a container ignores SIGTERM unless it has a handler.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    binding = Binding()
    server = Server((options.host, options.port), binding)
    print(f"session-listener waits at port {server.server_address[1]}", file=sys.stderr, flush=True)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    binding.is_answered.wait()
    server.shutdown()
    server.wait_for_answers(LAST_ANSWERS_S)
    server.server_close()
    variables = {name: value for name, value in os.environ.items() if name != "ANTHROPIC_WORK_SECRET"}
    try:
        os.execve(program, options.command, {**variables, **binding.variables})
    except OSError as error:
        print(f"session-listener cannot become {program}: {error}", file=sys.stderr)
        sys.exit(127)


if __name__ == "__main__":
    main()
