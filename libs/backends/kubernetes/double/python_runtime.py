"""The double's version of Agent Sandbox's Python runtime: GET /, POST /upload, POST /execute.

`python3 python_runtime.py SOCKET RELAY PORT` serves the unix socket SOCKET. Connections to the unix socket
RELAY go to 127.0.0.1:PORT in here, like connections to the pod's own address.
"""
import http.server
import json
import os
import shlex
import socket
import socketserver
import subprocess
import sys
import threading
import time

ROOT = "/home/user"
# Like the runtime's SANDBOX_EXEC_TIMEOUT_SECONDS.
EXEC_SECONDS = 300
RELAY_SECONDS = 10


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def answer(self, status, content):
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.answer(200, {"status": "ok", "message": "Sandbox Runtime is active."})

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.path == "/upload":
            return self.upload(body)
        if self.path == "/execute":
            return self.execute(json.loads(body)["command"])
        self.answer(404, {"detail": "Not Found"})

    def upload(self, body):
        boundary = b"--" + self.headers["content-type"].split("boundary=")[1].encode()
        head, content = body.split(boundary)[1].split(b"\r\n\r\n", 1)
        name = head.split(b'filename="')[1].split(b'"')[0].decode()
        path = os.path.realpath(os.path.join(ROOT, name))
        if not path.startswith(ROOT + "/"):
            return self.answer(403, {"message": "Access denied"})
        with open(path, "wb") as file:
            file.write(content[: -len(b"\r\n")])
        self.answer(200, {"message": f"File '{name}' uploaded successfully."})

    def execute(self, command):
        try:
            done = subprocess.run(
                shlex.split(command), capture_output=True, text=True, cwd=ROOT, timeout=EXEC_SECONDS
            )
            result = {"stdout": done.stdout, "stderr": done.stderr, "exit_code": done.returncode}
        except Exception as error:  # The runtime answers 200 whatever went wrong.
            result = {"stdout": "", "stderr": f"Failed to execute command: {error}", "exit_code": 1}
        self.answer(200, result)


def copy(source, target):
    try:
        while part := source.recv(65536):
            target.sendall(part)
    except OSError:
        pass
    for end in (source, target):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def relay(outside, port):
    deadline = time.monotonic() + RELAY_SECONDS
    while True:
        try:
            inside = socket.create_connection(("127.0.0.1", port))
            break
        except OSError:
            if time.monotonic() > deadline:
                return outside.close()
            time.sleep(0.01)
    inside.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    threading.Thread(target=copy, args=(outside, inside), daemon=True).start()
    copy(inside, outside)


def relays(path, port):
    server = socket.socket(socket.AF_UNIX)
    server.bind(path)
    server.listen(8)
    while True:
        connection, _ = server.accept()
        threading.Thread(target=relay, args=(connection, port), daemon=True).start()


threading.Thread(target=relays, args=(sys.argv[2], int(sys.argv[3])), daemon=True).start()
Server(sys.argv[1], Handler).serve_forever()
