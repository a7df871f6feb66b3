"""A code-interpreter session of Azure as clients see it: a Python kernel that keeps its state, a shell, and
the files of /mnt/data. `python3 -I interpreter.py SOCKET` answers the double's requests on a unix socket:

  POST /execute {"code" | "shell" | "argv", "seconds"} → {"status", "stdout", "stderr", "result", "exitCode", "ms"}
  PUT | GET | DELETE /file?path=&name=      GET /files?path=&recursive=
"""
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from socketserver import StreamRequestHandler, ThreadingMixIn, UnixStreamServer
from urllib.parse import parse_qs, urlsplit

DATA = "/mnt/data"
TIMED_OUT = "Request timed out waiting for code execution to complete"
ABORTED = "Execution aborted"

KERNEL = r'''
import ast, contextlib, io, json, os, sys, traceback
own, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
null = os.open(os.devnull, os.O_RDWR)
os.dup2(null, 0), os.dup2(null, 1), os.dup2(null, 2)
names = {"__name__": "__main__"}
for line in own:
    code, out, err, result, ok = json.loads(line), io.StringIO(), io.StringIO(), None, True
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            tree = ast.parse(code)
            last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
            exec(compile(tree, "<cell>", "exec"), names)
            if last is not None:
                result = eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)
        except BaseException:
            ok = False
            traceback.print_exc()
    try:
        text = json.dumps(result)
    except (TypeError, ValueError):
        text = json.dumps(repr(result))
    answers.write(json.dumps({"ok": ok, "stdout": out.getvalue(), "stderr": err.getvalue(), "result": json.loads(text)}) + "\n")
    answers.flush()
'''


class Kernel:
    """Runs one cell at a time. A cell that takes too long ends the kernel and loses all variables."""

    def __init__(self):
        self.turn, self.child = threading.Lock(), None
        self.start()

    def start(self):
        pipe = subprocess.PIPE
        self.child = subprocess.Popen([sys.executable, "-c", KERNEL], stdin=pipe, stdout=pipe, text=True, cwd=os.path.expanduser("~"))

    def run(self, code, seconds):
        with self.turn:
            if self.child.poll() is not None:
                self.start()
            child, timed_out = self.child, []
            timer = threading.Timer(seconds, lambda: (timed_out.append(True), child.kill()))
            timer.start()
            try:
                child.stdin.write(json.dumps(code) + "\n")
                child.stdin.flush()
                line = child.stdout.readline()
            except OSError:
                line = ""
            finally:
                timer.cancel()
            if not line:
                child.kill()
                child.wait()
                return {"status": "Failed", "stdout": "", "stderr": TIMED_OUT if timed_out else ABORTED, "result": None}
            done = json.loads(line)
            return {"status": "Succeeded" if done.pop("ok") else "Failed", **done}


kernel = Kernel()


def execute(wish):
    started = time.monotonic()
    if "code" in wish:
        done = kernel.run(wish["code"], wish["seconds"])
    else:
        command = ["/bin/bash", "-c", wish["shell"]] if "shell" in wish else wish["argv"]
        with kernel.turn:
            try:
                ran = subprocess.run(command, capture_output=True, timeout=wish["seconds"], cwd=DATA, stdin=subprocess.DEVNULL)
                text = {"stdout": ran.stdout.decode("utf-8", "replace"), "stderr": ran.stderr.decode("utf-8", "replace")}
                done = dict(text, status="Succeeded", exitCode=ran.returncode, result=None)
            except subprocess.TimeoutExpired:
                done = {"status": "Failed", "stdout": "", "stderr": TIMED_OUT, "result": None, "exitCode": 124}
    return dict(done, ms=round((time.monotonic() - started) * 1000))


def place(query):
    path = os.path.join(DATA, query.get("path", [""])[0], query.get("name", [""])[0])
    if any(part in (".", "..") for part in path.split("/")):
        raise ValueError(path)
    return path.rstrip("/")


def listed(query):
    top, found = place(query), []
    for folder, folders, files in os.walk(top):
        for name in folders + files:
            path = os.path.join(folder, name)
            try:
                stat = os.stat(path)
            except OSError:
                continue
            below = os.path.relpath(folder, top)
            found.append(
                {"name": name, "isDirectory": name in folders, "size": stat.st_size, "modified": stat.st_mtime, "directory": "" if below == "." else below}
            )
        if query.get("recursive", ["false"])[0] != "true":
            break
    return found


class Handler(StreamRequestHandler):
    """Parses only the HTTP that the double sends. Importing an HTTP library would take longer than loading
    this file.
    """

    def handle(self):
        line = self.rfile.readline().decode()
        if not line:
            return  # Somebody looks whether this listens.
        length = 0
        while (header := self.rfile.readline().strip()) != b"":
            name, _, value = header.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        command, target, _ = line.split(" ", 2)
        status, body = answer(command, urlsplit(target), self.rfile.read(length))
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.wfile.write(b"HTTP/1.1 %d -\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % (status, len(data)) + data)


def answer(command, url, body):
    query = parse_qs(url.query)
    try:
        if url.path == "/execute":
            return 200, execute(json.loads(body))
        if url.path == "/files":
            return 200, listed(query)
        path = place(query)
        if command == "PUT":
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as out:
                out.write(body)
            return 200, {"size": len(body), "modified": time.time()}
        if command == "DELETE":
            shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
            return 200, {}
        with open(path, "rb") as found:
            return 200, found.read()
    except FileNotFoundError:
        return 404, {}
    except (OSError, ValueError, KeyError) as error:
        return 400, {"error": str(error)}


class Server(ThreadingMixIn, UnixStreamServer):
    daemon_threads = True

    def handle_error(self, *_):
        pass


os.makedirs(DATA, exist_ok=True)
Server(sys.argv[1], Handler).serve_forever()
