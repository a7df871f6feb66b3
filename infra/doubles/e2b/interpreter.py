"""The code interpreter of an E2B sandbox (port 49999), as far as its SDKs use it: /execute, /contexts, /health, with kernel.py below.

  POST /execute {"code", "context_id"? | "language"?, "env_vars"?}   lines of JSON, one per frame, until {"type": "end_of_execution"}
  GET, POST /contexts     DELETE /contexts/ID     POST /contexts/ID/restart

Cells of a context take turns; a client that goes away interrupts its cell, and the context lives on. Python is the only language.
"""
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import uuid

from unix_http import JsonHandler, LoopbackServer, Server

KERNEL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "kernel.py")
HOME = os.path.expanduser("~")
# Every so often a frame goes to a client that hears nothing, as the service's own does.
KEEPALIVE_S = 5
# A frame that is larger is nobody's result: its kernel is given up.
LINE_MAX = 64 * 1024 * 1024
DEAD = {"type": "error", "name": "UnexpectedEndOfExecution", "value": "Connection to the execution was closed before the execution was finished", "traceback": ""}
END = b'{"type": "end_of_execution"}\n'


class Context:
    def __init__(self, cwd):
        self.id, self.cwd, self.turn = str(uuid.uuid4()), cwd, threading.Lock()
        self.child = None
        self.is_given = False

    def shown(self):
        return {"id": self.id, "language": "python", "cwd": self.cwd}

    def start(self):
        cells, to_kernel = os.pipe()
        self.events, said = os.pipe()
        self.child = subprocess.Popen(
            [sys.executable, KERNEL, str(cells), str(said)],
            cwd=self.cwd,
            stdin=subprocess.DEVNULL,
            pass_fds=(cells, said),
            env={name: value for name, value in os.environ.items() if not name.startswith("E2B_")},
        )
        os.close(cells)
        os.close(said)
        self.cells, self.held = os.fdopen(to_kernel, "wb"), b""

    def end(self):
        if self.child is None:
            return
        self.child.kill()
        self.child.wait()
        self.cells.close()
        os.close(self.events)
        self.child = None

    def execute(self, cell, given, client, send):
        """One cell from its first frame to its last. `given` is for the context's first one, which leaves it to all."""
        with self.turn:
            if not self.is_given:
                self.is_given, cell["given"] = True, given
            if self.child is not None and self.child.poll() is not None:
                self.end()
            if self.child is None:
                self.start()
            try:
                self.cells.write(json.dumps(cell).encode() + b"\n")
                self.cells.flush()
            except BrokenPipeError:
                pass  # It died between two cells: its events end, too.
            is_begun = is_gone = is_interrupted = False
            for line in self.lines(client):
                is_begun = is_begun or line is not None and line.startswith(b'{"execution_count"')
                is_gone = is_gone or line is None or not _sent(send, line)
                if line == END:
                    return
                # Not before it began: it would run all the same.
                if is_gone and is_begun and not is_interrupted:
                    is_interrupted = True
                    self.child.send_signal(signal.SIGINT)
            # A new one starts with the next cell.
            self.end()
            if not is_gone:
                send(json.dumps(DEAD).encode() + b"\n")
                send(END)

    def lines(self, client):
        """What the kernel says, until it is gone; None once when the client has gone."""
        while True:
            line, newline, rest = self.held.partition(b"\n")
            if newline:
                self.held = rest
                yield line + newline
                continue
            watched = [self.events] + ([client] if client is not None else [])
            ready = select.select(watched, [], [], KEEPALIVE_S)[0]
            if client in ready and not _peek(client):
                client = None
                yield None
            elif not ready:
                yield b'{"type": "keepalive"}\n'
            elif self.events in ready:
                data = os.read(self.events, 65536)
                if not data or len(self.held) > LINE_MAX:
                    return
                self.held += data


def _sent(send, line):
    try:
        send(line)
        return True
    except (BrokenPipeError, ConnectionResetError):
        return False


def _peek(client):
    try:
        return client.recv(1, socket.MSG_PEEK)
    except OSError:
        return b""


class Contexts:
    def __init__(self):
        self.default = Context(HOME)
        self.all = {self.default.id: self.default}

    def create(self, cwd):
        context = Context(cwd)
        self.all[context.id] = context
        return context


contexts = Contexts()


class Handler(JsonHandler):
    def text(self, status, words):
        self.answer(status, words.encode(), "text/plain; charset=utf-8")

    def do_GET(self):
        if self.path == "/health":
            return self.answer_json(200, "OK")
        if self.path == "/contexts":
            return self.answer_json(200, [context.shown() for context in contexts.all.values()])
        return self.answer_json(404, {"detail": "Not Found"})

    def do_DELETE(self):
        self.of_context(self.path)

    def do_POST(self):
        try:
            wish = json.loads(self.read_body() or b"{}")
            if self.path == "/execute":
                return self.execute(wish)
            if self.path == "/contexts":
                return self.create(wish)
        except (KeyError, TypeError, ValueError) as error:
            return self.answer_json(422, {"detail": str(error)})
        return self.of_context(self.path)

    def execute(self, wish):
        wanted, language = wish.get("context_id"), wish.get("language")
        if wanted and language:
            return self.text(400, "Only one of context_id or language can be provided")
        if not is_python(language):
            return self.text(500, "Failed to create context: this double has no kernel for %s" % language)
        context = contexts.all.get(wanted) if wanted else contexts.default
        if context is None:
            return self.text(404, "Context %s not found" % wanted)
        cell = {"code": wish["code"], "env": wish.get("env_vars") or {}}
        self.begin_stream("application/json")
        try:
            context.execute(cell, self.given(), self.connection, self.chunk)
            self.end_stream()
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def given(self):
        """What envd answers to whoever asks for the environment with this token, refusals included: so the service does it."""
        if not self.token or self.headers.get("X-Access-Token") == self.token:
            return self.envs
        return {"code": "401", "message": "unauthorized access"}

    def create(self, wish):
        if not is_python(wish.get("language")):
            return self.text(500, "Failed to create context: this double has no kernel for %s" % wish["language"])
        cwd = wish.get("cwd") or HOME
        if not os.path.isdir(cwd):
            return self.text(500, "Failed to set working directory")
        return self.answer_json(200, contexts.create(cwd).shown())

    def of_context(self, path):
        _, _, wanted, *action = path.split("/") + [""]
        context = contexts.all.get(wanted)
        if context is None:
            return self.text(404, "Context %s not found" % wanted)
        if self.command == "DELETE":
            del contexts.all[wanted]
        elif action[:1] != ["restart"]:
            return self.answer_json(404, {"detail": "Not Found"})
        # Also in the middle of a cell, which ends with it.
        child = context.child
        if child is not None:
            child.kill()
            child.wait()
        return self.answer_json(200, None)


def is_python(language):
    return (language or "python").lower().strip() == "python"


def listen(path, token, envs):
    """Serves in threads of its own: clients outside through the socket, programs inside at the port."""
    Handler.token, Handler.envs = token, envs
    for server in (LoopbackServer(("127.0.0.1", 49999), Handler), Server(path, Handler)):
        threading.Thread(target=server.serve_forever, daemon=True).start()
