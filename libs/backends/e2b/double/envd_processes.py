"""envd's `process.Process` without terminals. Output goes to those who listen when it is printed."""
import base64
import os
import pwd
import signal
import subprocess
import threading
import time

from envd_files import Refused, expand

CHUNK = 32 * 1024
# Variables that a caller cannot change.
OWN = {name: value for name, value in os.environ.items() if name in ("E2B_SANDBOX", "E2B_SANDBOX_ID", "E2B_TEMPLATE_ID")}
SIGNALS = {"SIGNAL_SIGTERM": signal.SIGTERM, "SIGNAL_SIGKILL": signal.SIGKILL}


class Process:
    """One started program. A reader gets the output that is printed after it connects, and the end. Other
    output is lost."""

    def __init__(self, wish):
        config = wish["process"]
        if wish.get("pty") is not None:
            raise Refused("unimplemented", "this double has no terminals")
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
        except OSError as error:
            raise Refused("invalid_argument", "error starting process %r: %s" % (config["cmd"], error))
        self.pid = self.child.pid
        self.change, self.readers, self.open = threading.Condition(), [], 2

    def begin(self):
        for name, pipe in (("stdout", self.child.stdout), ("stderr", self.child.stderr)):
            threading.Thread(target=self.pump, args=(name, pipe), daemon=True).start()

    def pump(self, name, pipe):
        """A slow reader blocks the program, like a full pipe."""
        for chunk in iter(lambda: pipe.read1(CHUNK), b""):
            with self.change:
                self.change.wait_for(lambda: all(len(queue) < 4 for queue in self.readers))
                for queue in self.readers:
                    queue.append({"data": {name: base64.b64encode(chunk).decode()}})
                self.change.notify_all()
        with self.change:
            self.open -= 1
            self.change.notify_all()

    def kill(self):
        """Kills only the process itself, like envd at its deadline. Its children run on."""
        if self.child.poll() is None:
            self.child.kill()

    def subscribe(self):
        queue = []
        with self.change:
            self.readers.append(queue)
        return queue

    def events(self, queue, call):
        try:
            yield from self.heard(queue, call)
        finally:
            with self.change:
                self.readers = [one for one in self.readers if one is not queue]
                self.change.notify_all()
        yield {"end": self.end()}

    def heard(self, queue, call):
        over_at, spoke_at = None, time.monotonic()
        while True:
            call.check_deadline()
            with self.change:
                self.change.wait_for(lambda: queue or self.open == 0, timeout=0.1)
                ready, queue[:] = queue[:], []
                done = self.open == 0
                self.change.notify_all()
            yield from ready
            if ready:
                spoke_at = time.monotonic()
                continue
            if time.monotonic() - spoke_at >= call.keepalive_s:
                spoke_at = time.monotonic()
                yield {"keepalive": {}}
            over = self.child.poll() is not None
            # A grandchild may hold the pipes of a killed program, whose streams must end anyway.
            over_at = (over_at or time.monotonic()) if over else None
            if done or (over and self.child.returncode < 0 and time.monotonic() - over_at > 0.2):
                break

    def end(self):
        code = self.child.wait()
        if code < 0:
            words = {9: "killed", 15: "terminated", 2: "interrupt", 11: "segmentation fault"}.get(-code, "signal %d" % -code)
            return {"exitCode": -1, "status": "signal: " + words, "error": "signal: " + words}
        end = {"exited": True, "status": "exit status %d" % code}
        # JSON of proto3 omits zeros.
        return dict(end, exitCode=code, error="exit status %d" % code) if code else end


processes = {}
# Variables that the sandbox was created with.
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


def find_living(selector):
    process = find(selector)
    if process.child.poll() is not None:
        raise Refused("not_found", "no such process")
    return process


def start(wish, call):
    process = Process(wish)
    processes[process.pid] = process
    if call.timeout_s:
        timer = threading.Timer(call.timeout_s, process.kill)
        timer.daemon = True
        timer.start()
    yield from followed(process, call, process.begin)


def connect(wish, call):
    yield from followed(find(wish["process"]), call, lambda: None)


def followed(process, call, begin):
    queue = process.subscribe()
    yield {"event": {"start": {"pid": process.pid}}}
    begin()
    for event in process.events(queue, call):
        yield {"event": event}


def send_input(wish):
    pipe = find_living(wish["process"]).child.stdin
    if "stdin" not in wish["input"]:
        raise Refused("internal", "tty not assigned to process")
    if pipe is None or pipe.closed:
        raise Refused("internal", "error writing to stdin: stdin not enabled or closed")
    try:
        pipe.write(base64.b64decode(wish["input"]["stdin"]))
        pipe.flush()
    except (BrokenPipeError, ValueError) as error:
        raise Refused("internal", "error writing to stdin: %s" % error)
    return {}


def close_stdin(wish):
    pipe = find_living(wish["process"]).child.stdin
    if pipe is not None:
        pipe.close()
    return {}


def send_signal(wish):
    process = find_living(wish["process"])
    number = SIGNALS.get(wish.get("signal"))
    if number is None:
        raise Refused("unimplemented", "invalid signal: %s" % wish.get("signal"))
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
