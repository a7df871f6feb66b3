"""What envd is inside of an E2B sandbox, as far as SDKs and backends use it: Connect-JSON `process.Process` and
`filesystem.Filesystem`, `/files`, `/health`. Start: `python3 -I envd.py SOCKET [SOCKET OF THE CODE INTERPRETER]`; ENVD_TOKEN is the access token.

It runs inside the sandbox: pids, paths and users are the sandbox's own. Not spoken: pty, watching, signed URLs (unimplemented).
"""
import base64
import email.parser
import email.policy
import json
import os
import pwd
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
from urllib.parse import parse_qs, urlsplit

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from unix_http import JsonHandler, Server  # noqa: E402

TOKEN = os.environ.pop("ENVD_TOKEN", "")
# What every process of the sandbox gets.
GIVEN = {name: value for name, value in os.environ.items() if name.startswith("E2B_")}
CHUNK = 32 * 1024
HTTP_OF = {"not_found": 404, "already_exists": 409, "invalid_argument": 400, "unauthenticated": 401, "unimplemented": 501}
SIGNALS = {"SIGNAL_SIGTERM": signal.SIGTERM, "SIGNAL_SIGKILL": signal.SIGKILL}


class Refused(Exception):
    def __init__(self, code, message):
        super().__init__(message)
        self.code, self.message = code, message


class Process:
    """One started program. Each reader gets what comes while it listens, and the end; what comes while nobody does is lost."""

    def __init__(self, wish):
        config = wish["process"]
        cwd = expand(config.get("cwd") or "~")
        if not os.path.isdir(cwd):
            raise Refused("invalid_argument", "cwd %r does not exist" % cwd)
        self.config, self.tag = config, wish.get("tag")
        has_input = wish.get("stdin", True)
        try:
            self.child = subprocess.Popen(
                [config["cmd"], *config.get("args", [])],
                cwd=cwd,
                env=dict(base_environment(), **config.get("envs", {})),
                stdin=subprocess.PIPE if has_input else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except FileNotFoundError as error:
            raise Refused("not_found", str(error))
        self.pid = self.child.pid
        self.change, self.readers, self.open = threading.Condition(), [], 2

    def begin(self):
        for name, pipe in (("stdout", self.child.stdout), ("stderr", self.child.stderr)):
            threading.Thread(target=self.pump, args=(name, pipe), daemon=True).start()

    def pump(self, name, pipe):
        """A reader that stops reading holds the program up, as a full pipe does."""
        for chunk in iter(lambda: pipe.read1(CHUNK), b""):
            with self.change:
                self.change.wait_for(lambda: all(len(queue) < 4 for queue in self.readers))
                for queue in self.readers:
                    queue.append({"data": {name: base64.b64encode(chunk).decode()}})
                self.change.notify_all()
        with self.change:
            self.open -= 1
            self.change.notify_all()

    def subscribe(self):
        queue = []
        with self.change:
            self.readers.append(queue)
        return queue

    def events(self, queue):
        try:
            yield from self.heard(queue)
        finally:
            with self.change:
                self.readers = [one for one in self.readers if one is not queue]
                self.change.notify_all()
        yield {"end": self.end()}

    def heard(self, queue):
        over_at = None
        while True:
            with self.change:
                self.change.wait_for(lambda: queue or self.open == 0, timeout=0.1)
                ready, queue[:] = queue[:], []
                done = self.open == 0
                self.change.notify_all()
            yield from ready
            if ready:
                continue
            over = self.child.poll() is not None
            # A grandchild may hold the pipes of a program that was killed: its streams end all the same.
            over_at = (over_at or time.monotonic()) if over else None
            if done or (over and self.child.returncode < 0 and time.monotonic() - over_at > 0.2):
                break

    def end(self):
        code = self.child.wait()
        if code < 0:
            words = {9: "killed", 15: "terminated", 2: "interrupt", 11: "segmentation fault"}.get(-code, "signal %d" % -code)
            return {"exitCode": -1, "exited": False, "status": "signal: " + words, "error": "signal: " + words}
        end = {"exitCode": code, "exited": True, "status": "exit status %d" % code}
        return dict(end, error="exit status %d" % code) if code else end


processes = {}


def base_environment():
    home = os.path.expanduser("~")
    user = pwd.getpwuid(os.getuid()).pw_name
    kept = {name: os.environ[name] for name in ("PATH", "E2B_SANDBOX", "E2B_SANDBOX_ID", "E2B_TEMPLATE_ID") if name in os.environ}
    return dict(kept, HOME=home, USER=user, LOGNAME=user)


def expand(path):
    home = os.path.expanduser("~")
    return os.path.normpath(os.path.join(home, os.path.expanduser(path)))


def find(selector):
    for process in processes.values():
        if process.pid == selector.get("pid") or (process.tag is not None and process.tag == selector.get("tag")):
            return process
    raise Refused("not_found", "no such process")


def start(wish):
    process = Process(wish)
    processes[process.pid] = process
    yield from followed(process, process.begin)


def connect(wish):
    yield from followed(find(wish["process"]), lambda: None)


def followed(process, begin):
    queue = process.subscribe()
    yield {"event": {"start": {"pid": process.pid}}}
    begin()
    for event in process.events(queue):
        yield {"event": event}


def send_input(wish):
    pipe = find(wish["process"]).child.stdin
    if pipe is None:
        raise Refused("invalid_argument", "stdin is not open")
    try:
        pipe.write(base64.b64decode(wish["input"]["stdin"]))
        pipe.flush()
    except (BrokenPipeError, ValueError):
        raise Refused("not_found", "stdin is closed")
    return {}


def close_stdin(wish):
    pipe = find(wish["process"]).child.stdin
    if pipe is not None:
        pipe.close()
    return {}


def send_signal(wish):
    process = find(wish["process"])
    if process.child.poll() is not None:
        raise Refused("not_found", "no such process")
    number = SIGNALS.get(wish.get("signal"))
    if number is None:
        raise Refused("invalid_argument", "unknown signal")
    os.kill(process.pid, number)
    return {}


def list_processes(_wish):
    living = [p for p in processes.values() if p.child.poll() is None]
    return {"processes": [dict({"config": p.config, "pid": p.pid}, **({"tag": p.tag} if p.tag else {})) for p in living]}


def entry_of(path):
    try:
        found = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        raise Refused("not_found", "file not found: %s" % path)
    kinds = {stat.S_IFDIR: "FILE_TYPE_DIRECTORY", stat.S_IFLNK: "FILE_TYPE_SYMLINK"}
    entry = {
        "name": os.path.basename(path) or "/",
        "type": kinds.get(stat.S_IFMT(found.st_mode), "FILE_TYPE_FILE"),
        "path": path,
        "size": str(found.st_size),
        "mode": stat.S_IMODE(found.st_mode),
        "permissions": stat.filemode(found.st_mode),
        "owner": "user",
        "group": "user",
        "modifiedTime": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(found.st_mtime)),
    }
    if stat.S_ISLNK(found.st_mode):
        entry["symlinkTarget"] = os.path.realpath(path)
    return entry


def list_folder(wish):
    root, depth = expand(wish["path"]), wish.get("depth") or 1
    if not os.path.isdir(root):
        entry_of(root)
        raise Refused("invalid_argument", "path is not a directory: %s" % root)
    found = []

    def walk(folder, level):
        for name in sorted(os.listdir(folder)):
            path = os.path.join(folder, name)
            found.append(entry_of(path))
            if level < depth and os.path.isdir(path) and not os.path.islink(path):
                walk(path, level + 1)

    walk(root, 1)
    return {"entries": found}


def make_folder(wish):
    path = expand(wish["path"])
    if os.path.isdir(path):
        raise Refused("already_exists", "directory already exists: %s" % path)
    if os.path.lexists(path):
        raise Refused("invalid_argument", "path is a file: %s" % path)
    os.makedirs(path)
    return {"entry": entry_of(path)}


def move(wish):
    source, target = expand(wish["source"]), expand(wish["destination"])
    entry_of(source)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    os.rename(source, target)
    return {"entry": entry_of(target)}


def remove(wish):
    path = expand(wish["path"])
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)
    return {}


UNARY = {
    "/process.Process/List": list_processes,
    "/process.Process/SendInput": send_input,
    "/process.Process/CloseStdin": close_stdin,
    "/process.Process/SendSignal": send_signal,
    "/filesystem.Filesystem/Stat": lambda wish: {"entry": entry_of(expand(wish["path"]))},
    "/filesystem.Filesystem/ListDir": list_folder,
    "/filesystem.Filesystem/MakeDir": make_folder,
    "/filesystem.Filesystem/Move": move,
    "/filesystem.Filesystem/Remove": remove,
}
STREAMS = {"/process.Process/Start": start, "/process.Process/Connect": connect}


class Handler(JsonHandler):
    def refuse(self, code, message):
        self.answer_json(HTTP_OF.get(code, 500), {"code": code, "message": message})

    def allowed(self):
        if not TOKEN or self.headers.get("X-Access-Token") == TOKEN:
            return True
        self.read_body()
        self.refuse("unauthenticated", "missing or wrong access token")
        return False

    def do_GET(self):
        url = urlsplit(self.path)
        if url.path == "/health":
            return self.answer(204)
        if not self.allowed():
            return None
        if url.path == "/envs":
            return self.answer_json(200, GIVEN)
        if url.path != "/files":
            return self.answer(404, b'{"code":404,"message":"no such path"}')
        path = expand(parse_qs(url.query).get("path", [""])[0])
        if os.path.isdir(path):
            return self.answer(400, b'{"code":400,"message":"path is a directory"}')
        try:
            with open(path, "rb") as source:
                self.answer(200, source.read(), "application/octet-stream")
        except FileNotFoundError:
            self.answer(404, b'{"code":404,"message":"path does not exist"}')

    def do_POST(self):
        url = urlsplit(self.path)
        if not self.allowed():
            return None
        body = self.read_body()
        if url.path == "/files":
            return self.upload(body, parse_qs(url.query).get("path", [None])[0])
        try:
            if url.path in STREAMS:
                # One message in an envelope of five bytes.
                return self.stream(STREAMS[url.path](json.loads(body[5:])))
            if url.path in UNARY:
                return self.answer(200, json.dumps(UNARY[url.path](json.loads(body or b"{}"))).encode())
            return self.refuse("unimplemented", "%s is not spoken by this double" % url.path)
        except Refused as error:
            return self.refuse(error.code, error.message)
        except (KeyError, TypeError, ValueError) as error:
            return self.refuse("invalid_argument", "malformed message: %r" % error)

    def upload(self, body, wanted):
        kind = self.headers.get("Content-Type", "")
        if kind.startswith("multipart/"):
            parser = email.parser.BytesParser(policy=email.policy.HTTP)
            parts = parser.parsebytes(b"Content-Type: " + kind.encode() + b"\r\n\r\n" + body).iter_parts()
            files = [(wanted or part.get_filename(), part.get_payload(decode=True)) for part in parts]
        else:
            files = [(wanted, body)]
        written = []
        for name, content in files:
            path = expand(name or "")
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as target:
                target.write(content or b"")
            written.append({"name": os.path.basename(path), "path": path, "type": "file"})
        return self.answer(200, json.dumps(written).encode())

    def stream(self, messages):
        # What is refused before the first message is a message too: a stream's errors stand in its last one.
        self.begin_stream("application/connect+json")
        last = {}
        try:
            for message in messages:
                self.envelope(0, message)
        except Refused as error:
            last = {"error": {"code": error.code, "message": error.message}}
        except (BrokenPipeError, ConnectionResetError):
            # Whoever read is gone; the program runs on.
            self.close_connection = True
            return
        finally:
            messages.close()
        self.envelope(2, last)
        self.end_stream()

    def envelope(self, flags, message):
        payload = json.dumps(message).encode()
        self.chunk(bytes([flags]) + len(payload).to_bytes(4, "big") + payload)


if len(sys.argv) > 2:
    import interpreter

    interpreter.listen(sys.argv[2], TOKEN, GIVEN)
Server(sys.argv[1], Handler).serve_forever()
