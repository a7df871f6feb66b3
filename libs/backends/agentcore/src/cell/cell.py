"""Serves a worker's requests in a session: programs, files, and the outcome of a program whose answer was
lost.

A request is base64 of JSON with a nonce. Its answer is one line, which only a holder of the nonce can write:

    @cofferdam:NONCE:base64(zlib(u32 length, JSON, stdout, stderr))@

Each program has a unique name (`once`). A request to run it begins it at most once, however often it comes,
and its outcome is kept until the session ends. After the cell has answered that a program has not begun, the
program never begins: a late call finds that answer as its outcome.
"""
import base64
import json
import os
import struct
import sys
import zlib

from .capture import Capture
from .child import oom_kills, run_child
from .kept import Kept
from .live import Live
from .redact import Redactor, install
from .workdir import NOT_FOUND, REFUSED, TOO_LARGE, Workdir, WorkError

CODES = {NOT_FOUND: "not_found", TOO_LARGE: "payload_too_large", REFUSED: "invalid_request"}
STREAMS = ("stdout", "stderr")
_cell = None


class Cell:
    def __init__(self, base, say):
        self.base, self.say, self.redactor, self.kept = base, say, Redactor(), Kept()
        self.root, self.spool = os.path.dirname(base), os.path.join(base, "spool")
        os.makedirs(self.spool, 0o700, exist_ok=True)
        self.work = Workdir(os.path.join(base, "work"))

    def handle(self, request):
        # Checked before `unpack`: if the program began before, its files were unpacked then and the archive
        # is gone.
        if request["op"] == "run" and not self.claim(request["once"]):
            return self.do_outcome(request)
        self.unpack(request.get("archive"))
        return getattr(self, "do_" + request["op"])(request)

    def claim(self, once):
        """True only for the first caller."""
        try:
            os.close(os.open(os.path.join(self.base, "begun-" + once), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            return True
        except FileExistsError:
            return False

    def unpack(self, archive):
        """Unpacks the file that the worker wrote beside us: a line of JSON, then the bytes of all files."""
        if archive is None:
            return
        path = os.path.join(self.root, archive)
        with open(path, "rb") as file:
            os.unlink(path)
            for entry in json.loads(file.readline()):
                self.put(entry["path"], file.read(entry["size"]), entry["executable"])

    def put(self, path, data, executable):
        fd = self.work.create(path, executable)
        try:
            self.work.append(fd, data, path)
        finally:
            os.close(fd)

    def do_put(self, request):
        return {}, b"", b""

    def do_list(self, request):
        found = self.work.list(request["globs"], request["most"])
        return {"entries": [{"path": path.decode(), "size": size} for path, size in found if is_text(path)]}, b"", b""

    def do_read(self, request):
        return {}, b"".join(self.work.read(request["path"], request["most"])), b""

    def do_remove(self, request):
        self.work.remove(request["path"])
        return {}, b"", b""

    def do_run(self, request):
        for secret in request["secrets"]:
            self.redactor.register(secret)
        program = request["program"]
        if "source" in program:
            self.put(program["entry"], program.pop("source").encode("utf-8", "surrogatepass"), False)
        request["stdin"] = base64.b64decode(request["stdin"])
        live = Live(request["nonce"], request.get("live", 0), self.say)
        out, err = (Capture(name, request["max"][name], self.spool, self.redactor, live) for name in STREAMS)
        # The worker reads this count if the interpreter dies: out-of-memory kills before this program.
        write_whole(os.path.join(self.base, "oom"), b"%d" % (oom_kills() or 0))
        run = self.kept.run if request["keep"] else run_child
        end = run(request, self.work.path, out, err, live)
        head = {
            "exit": end,
            "bytes": [out.bytes, err.bytes],
            "dropped": [out.dropped, err.dropped],
            "disk_full": self.work.is_full(),
        }
        answer = head, out.close(), err.close()
        try:
            write_whole(os.path.join(self.base, "outcome-" + request["once"]), pack(*answer))
        except OSError:
            pass  # On a full disk nothing can be kept for a second question; the answer to this one says that it is full.
        return answer

    def do_shown(self, request):
        """What a background program has printed since the last request, redacted when it was written."""
        return ({}, *(self.shown(name, at, request["most"]) for name, at in zip(STREAMS, request["from"])))

    def shown(self, name, at, most):
        try:
            # O_NONBLOCK, because a program may have put anything there, such as a pipe.
            fd = os.open(os.path.join(self.spool, name), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return b""
        try:
            return os.pread(fd, most, at)
        finally:
            os.close(fd)

    def do_outcome(self, request):
        """The outcome of a program that may have begun."""
        path = os.path.join(self.base, "outcome-" + request["once"])
        if self.claim(request["once"]):
            write_whole(path, pack({"outcome": "not_begun", "for_good": True}, b"", b""))
        try:
            with open(path, "rb") as file:
                return file.read()
        except FileNotFoundError:
            return {"outcome": "no_end"}, b"", b""


def is_text(path):
    try:
        path.decode()
        return True
    except UnicodeDecodeError:
        return False


def pack(head, out, err):
    text = json.dumps({**head, "sizes": [len(out), len(err)]}).encode()
    return zlib.compress(struct.pack(">I", len(text)) + text + out + err, 1)


def write_whole(path, data):
    """Writes a file that readers never see in part."""
    with open(path + "~", "wb") as file:
        file.write(data)
    os.rename(path + "~", path)


def open_cell(base, say):
    global _cell
    _cell = Cell(base, say)


def answer(text):
    """Carries out one request and always prints an answer."""
    request = json.loads(base64.b64decode(text))
    try:
        said = _cell.handle(request)
    except WorkError as error:
        said = {"failed": CODES.get(error.status, "failed"), "message": str(error)}, b"", b""
    except Exception as error:
        said = {"failed": "failed", "message": "%s: %s" % (type(error).__name__, error)}, b"", b""
    data = said if isinstance(said, bytes) else pack(*said)
    _cell.say.write("@cofferdam:%s:%s@\n" % (request["nonce"], base64.b64encode(data).decode()))
    _cell.say.flush()


def ready(base, marker):
    """Runs first in the session's interpreter. Prints the base path, and last the marker."""
    open_cell(base, sys.stdout)
    install(_cell.redactor)
    print(base)
    print(marker)
