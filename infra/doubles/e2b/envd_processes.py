"""`process.Process` of envd, but for terminals. What a process says goes to whoever listens at that moment."""
import base64
import os
import pwd
import signal
import subprocess
import threading
import time

from envd_files import Refused, expand

CHUNK = 32 * 1024
# Nobody changes these.
OWN = {name: value for name, value in os.environ.items() if name in ("E2B_SANDBOX", "E2B_SANDBOX_ID", "E2B_TEMPLATE_ID")}
SIGNALS = {"SIGNAL_SIGTERM": signal.SIGTERM, "SIGNAL_SIGKILL": signal.SIGKILL}


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
                env={**base_environment(), **config.get("envs", {}), **OWN},
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
# What the sandbox was created with.
given = {}


def base_environment():
    home = os.path.expanduser("~")
    user = pwd.getpwuid(os.getuid()).pw_name
    return {"PATH": os.environ["PATH"], "HOME": home, "USER": user, "LOGNAME": user, **given}


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


PROCESS_CALLS = {
    "/process.Process/List": list_processes,
    "/process.Process/SendInput": send_input,
    "/process.Process/CloseStdin": close_stdin,
    "/process.Process/SendSignal": send_signal,
}
PROCESS_STREAMS = {"/process.Process/Start": start, "/process.Process/Connect": connect}
