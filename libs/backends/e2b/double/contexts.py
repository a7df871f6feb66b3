"""Contexts of the code interpreter: each has a kernel that runs one cell at a time and outlives clients."""
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import uuid

KERNEL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "kernel.py")
HOME = os.path.expanduser("~")
# Interval at which a silent stream sends a frame, like the service.
KEEPALIVE_S = 5
# Longest frame of a kernel. No real result is this long, so a kernel that sends more is ended.
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
        """Runs a cell from first to last frame. `given`: environment of all cells, sent with the first."""
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
                pass  # It died between two cells, so its events end too.
            is_begun = is_gone = is_interrupted = False
            for line in self.lines(client):
                is_begun = is_begun or line is not None and line.startswith(b'{"execution_count"')
                is_gone = is_gone or line is None or not _sent(send, line)
                if line == END:
                    return
                # A kernel ignores SIGINT until its cell has begun.
                if is_gone and is_begun and not is_interrupted:
                    is_interrupted = True
                    self.child.send_signal(signal.SIGINT)
            # The next cell starts a new kernel.
            self.end()
            if not is_gone:
                send(json.dumps(DEAD).encode() + b"\n")
                send(END)

    def lines(self, client):
        """Yields the kernel's lines until the kernel ends. Yields None once, when the client disconnects."""
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
