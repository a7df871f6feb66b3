"""The programs in a session of the double: its Python process, its commands, and readers of their output."""
import codecs
import json
import os
import select
import subprocess
import threading
import time
import uuid

HOME, KERNEL = "/home/user", "/opt/kernel.py"
# A daemon that a program left may keep the program's pipes open for ever. Wait this long for the end of the
# pipes, then read what they hold.
DRAIN_S = 0.2
# Wait at most this long for a pipe that never runs empty.
FLOOD_S = 20
ENVIRONMENT = {name: os.environ[name] for name in ("PATH", "HOME", "LANG")}


class Stream:
    """Output of one pipe since the last mark, kept in pieces and joined once at the end."""

    def __init__(self, pipe, changed, on_text=None):
        self.pipe, self.changed, self.closed = pipe, changed, False
        self.begin(None, on_text)
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def begin(self, mark, on_text):
        self.parts, self.mark, self.done, self.tail, self.on_text = [], mark, False, b"", on_text
        self.decoder, self.unsaid = codecs.getincrementaldecoder("utf-8")("replace"), b""

    def end(self):
        """Stops the reports: `on_text` gets no output that comes later."""
        with self.changed:
            self.on_text = None

    def is_unread(self):
        return bool(select.select([self.pipe], [], [], 0)[0])

    def drain(self):
        """Waits for the last output of a program that has ended."""
        with self.changed:
            self.changed.wait_for(lambda: self.closed, DRAIN_S)
            self.changed.wait_for(lambda: self.closed or not self.is_unread(), FLOOD_S)

    def read(self):
        while True:
            select.select([self.pipe], [], [])
            with self.changed:
                # Read under the lock, so that data that has left the pipe is always in `parts`.
                data = os.read(self.pipe.fileno(), 65536)
                if not data:
                    self.closed = True
                elif self.mark is not None and self.mark in self.tail + data:
                    both = self.tail + data
                    whole = b"".join(self.parts)
                    end = both.index(self.mark)
                    keep = both[:end]
                    self.say(both[len(self.tail) - len(self.unsaid) : end])
                    self.parts = [whole[: len(whole) - len(self.tail)], keep]
                    self.done = True
                else:
                    self.parts.append(data)
                    self.tail = (self.tail + data)[-len(self.mark or b"") :] if self.mark else b""
                    self.preview(data)
                self.changed.notify_all()
                if not data:
                    return

    def preview(self, data):
        """Reports everything except a tail that may be the beginning of the mark or of a character."""
        if self.on_text is None:
            return
        data = self.unsaid + data
        cut = data.rfind(b"\0") if self.mark is not None else -1
        if cut < max(0, len(data) - len(self.mark or b"")):
            cut = len(data)
        self.unsaid = data[cut:]
        self.say(data[:cut])

    def say(self, data):
        text = self.decoder.decode(data)
        if text and self.on_text is not None:
            self.on_text(text)

    def text(self):
        return b"".join(self.parts).decode("utf-8", "replace")


class Kernel:
    def __init__(self):
        self.changed = threading.Condition()
        to_kernel, self.cells = os.pipe()
        self.control, from_kernel = os.pipe()

        self.process = subprocess.Popen(
            ["/usr/bin/python3", "-u", KERNEL, str(to_kernel), str(from_kernel)], cwd=HOME, env=ENVIRONMENT, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True, pass_fds=(to_kernel, from_kernel),
        )  # fmt: skip
        os.close(to_kernel)
        os.close(from_kernel)
        self.out, self.err = Stream(self.process.stdout, self.changed), Stream(self.process.stderr, self.changed)
        self.dead = False
        threading.Thread(target=self.watch, daemon=True).start()

    def watch(self):
        self.process.wait()
        with self.changed:
            self.dead = True
            self.changed.notify_all()

    def run(self, code, clear, on_text):
        mark = "\0end %s\0" % uuid.uuid4().hex
        with self.changed:
            self.out.begin(mark.encode(), on_text)
            self.err.begin(mark.encode(), None)
        cell = json.dumps({"code": code, "clear": clear, "mark": mark}).encode()
        try:
            view = memoryview(len(cell).to_bytes(4, "big") + cell)
            while view:
                view = view[os.write(self.cells, view) :]
        except BrokenPipeError:
            pass
        with self.changed:
            self.changed.wait_for(lambda: self.dead or (self.out.done and self.err.done))
            self.out.on_text = None
            if self.dead and not (self.out.done and self.err.done):
                self.out.drain()
                self.err.drain()
                return 137, self.out.text(), self.err.text()
        line = b""
        while not line.endswith(b"\n"):
            line += os.read(self.control, 4096)
        return json.loads(line)["code"], self.out.text(), self.err.text()


class Task:
    """A command with stdout and stderr in one stream, as on a terminal."""

    def __init__(self, command, on_text=None):
        self.id, self.started, self.status = str(uuid.uuid4()), time.monotonic(), "working"
        self.process = subprocess.Popen(
            ["/bin/bash", "-c", command], cwd=HOME, env=ENVIRONMENT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        self.out = Stream(self.process.stdout, threading.Condition(), on_text)
        self.seconds = 0.0
        self.ended = threading.Event()
        threading.Thread(target=self.watch, daemon=True).start()

    def watch(self):
        code = self.process.wait()
        self.seconds = time.monotonic() - self.started
        self.out.drain()
        self.out.end()
        if self.status == "working":
            self.status = "completed" if code == 0 else "failed"
        self.ended.set()

    def code(self):
        code = self.process.returncode
        return None if code is None else code if code >= 0 else 128 - code

    def output(self):
        return strip(self.out.text().replace("\r\n", "\n").replace("\n", "\r\n"))


def strip(text):
    return text[:-2] if text.endswith("\r\n") else text[:-1] if text.endswith("\n") else text
