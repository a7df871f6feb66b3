"""One session of the double, inside its jail: the nine tools over HTTP on a unix socket.

POST /call {name, arguments, previews} answers lines of JSON: {"text"} while a cell runs (only with previews), then {"result"}
in the shape that the service was seen to answer. Calls come one at a time; the caller sees to that.
"""
import base64
import codecs
import json
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import UnixStreamServer

HOME, NODE, KERNEL = "/home/user", "/opt/node/bin/node", "/opt/kernel.py"
# What the pipes of a program that ended may still hold is read this long; daemons of it may keep them open for ever.
DRAIN_S = 0.2
ENVIRONMENT = {name: os.environ[name] for name in ("PATH", "HOME", "LANG")}


class Stream:
    """What came out of one pipe since the last mark, in pieces: joined once, at the end."""

    def __init__(self, pipe, changed, on_text=None):
        self.pipe, self.changed, self.closed = pipe, changed, False
        self.begin(None, on_text)
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def begin(self, mark, on_text):
        self.parts, self.mark, self.done, self.tail, self.on_text = [], mark, False, b"", on_text
        self.decoder, self.unsaid = codecs.getincrementaldecoder("utf-8")("replace"), b""

    def end(self):
        """Of what comes later nobody hears."""
        with self.changed:
            self.on_text = None

    def read(self):
        while True:
            data = os.read(self.pipe.fileno(), 65536)
            with self.changed:
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
        """All but what may be the beginning of the mark or of a character."""
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
                self.changed.wait_for(lambda: self.out.closed and self.err.closed, DRAIN_S)
                return 137, self.out.text(), self.err.text()
        line = b""
        while not line.endswith(b"\n"):
            line += os.read(self.control, 4096)
        return json.loads(line)["code"], self.out.text(), self.err.text()


class Task:
    """A command with both streams in one, as on a terminal."""

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
        self.out.thread.join(DRAIN_S)
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


def finished(code, out, err, seconds):
    blocks = [{"type": "text", "text": text} for text in (out, err) if text != ""]
    structured = {"stdout": out, "stderr": err, "exitCode": code, "executionTime": seconds}
    return {"content": blocks, "structuredContent": structured, "isError": code != 0}


def said(text, is_error=False, structured=None):
    result = {"content": [{"type": "text", "text": text}], "isError": is_error}
    return result if structured is None else {**result, "structuredContent": structured}


class Refused(Exception):
    pass


def inside(path):
    if not path or path.startswith("/") or ".." in path.split("/") or "\0" in path:
        raise Refused("%r is not a relative path" % path)
    return os.path.join(HOME, path)


class Session:
    def __init__(self):
        self.kernel, self.tasks = None, {}

    def executeCode(self, given, on_text):
        started = time.monotonic()
        if given.get("language", "python") != "python":
            return self.script(given)
        if self.kernel is None or self.kernel.dead:
            self.kernel = Kernel()
        code, out, err = self.kernel.run(given["code"], given.get("clearContext") is True, on_text)
        return finished(code, strip(out), strip(err), time.monotonic() - started)

    def script(self, given):
        started = time.monotonic()
        ending = ".mts" if given["language"] == "typescript" else ".cjs"
        path = "/tmp/%s%s" % (uuid.uuid4().hex, ending)
        with open(path, "w") as file:
            file.write(given["code"])
        ran = subprocess.run([NODE, path], cwd=HOME, env=ENVIRONMENT, stdin=subprocess.DEVNULL, capture_output=True)
        os.unlink(path)
        out, err = (strip(text.decode("utf-8", "replace")) for text in (ran.stdout, ran.stderr))
        return finished(ran.returncode & 255, out, err, time.monotonic() - started)

    def executeCommand(self, given, on_text):
        task = Task(given["command"], on_text and (lambda text: on_text(text.replace("\n", "\r\n"))))
        task.ended.wait()
        output, code = task.output(), task.code()
        return finished(code, output, "", task.seconds) if code == 0 else finished(code, "", output, task.seconds)

    def startCommandExecution(self, given, on_text):
        task = Task(given["command"])
        self.tasks[task.id] = task
        structured = {"taskId": task.id, "taskStatus": "submitted", "stdout": "", "stderr": ""}
        return said("Task %s submitted" % task.id, False, structured)

    def task(self, given):
        task = self.tasks.get(given["taskId"])
        if task is None:
            raise Refused("Task %s not found" % given["taskId"])
        return task

    def getTask(self, given, on_text):
        task = self.task(given)
        structured = {"taskId": task.id, "taskStatus": task.status, "stdout": "", "stderr": ""}
        if task.ended.is_set():
            name = "stdout" if task.code() == 0 else "stderr"
            structured.update({name: task.output(), "exitCode": task.code(), "executionTime": task.seconds})
        return said("Task %s is %s" % (task.id, task.status), task.status == "failed", structured)

    def stopTask(self, given, on_text):
        task = self.task(given)
        if task.ended.is_set():
            raise Refused("Task cannot be canceled: it is %s" % task.status)
        task.status = "canceled"
        os.killpg(task.process.pid, signal.SIGKILL)
        task.ended.wait()
        structured = {"taskId": task.id, "taskStatus": "canceled", "stdout": "", "stderr": ""}
        return said("Task %s canceled" % task.id, False, structured)

    def writeFiles(self, given, on_text):
        for block in given["content"]:
            path = inside(block["path"])
            os.makedirs(os.path.dirname(path), exist_ok=True)
            data = base64.b64decode(block["blob"]) if "blob" in block else block.get("text", "").encode()
            with open(path, "wb") as file:
                file.write(data)
        return said("Successfully wrote all %d files" % len(given["content"]))

    def readFiles(self, given, on_text):
        blocks = []
        for name in given["paths"]:
            with open(inside(name), "rb") as file:
                data = file.read()
            resource = {"uri": "file:///%s" % name}
            try:
                resource.update(type="text", mimeType="text/plain", text=data.decode())
            except UnicodeDecodeError:
                resource.update(type="blob", mimeType="application/octet-stream", blob=base64.b64encode(data).decode())
            blocks.append({"type": "resource", "resource": resource})
        return {"content": blocks, "isError": False}

    def listFiles(self, given, on_text):
        folder = given.get("directoryPath") or given.get("path") or "."
        blocks = []
        for name in sorted(os.listdir(inside(folder))):
            is_folder = os.path.isdir(os.path.join(HOME, folder, name))
            path = os.path.normpath(os.path.join(folder, name))
            blocks.append({"type": "resource_link", "uri": "file:///%s" % path, "name": name,
                           "description": "Directory" if is_folder else "File"})  # fmt: skip
        return {"content": blocks, "isError": False}

    def removeFiles(self, given, on_text):
        for name in given["paths"]:
            os.unlink(inside(name))
        return said("Successfully removed all %d files" % len(given["paths"]))


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
        """A caller that went away is no error of ours."""
        if not isinstance(sys.exc_info()[1], (BrokenPipeError, ConnectionResetError)):
            super().handle_error(request, client_address)


Server(sys.argv[1], Handler).serve_forever()
