"""One program from J to X: its files, its input and output, its soft stop and the evidence of its end."""
import _signal as signal
import os
import select
import time

from . import meters
from .channel import read_some
from .files import GivenFiles
from .streams import Input, Output
from .workdir import WorkError

# The largest value of a script (contract BOUNDS.valueBytes) and its head on the control pipe: 'V' and u32 length.
VALUE_MAX = 32 * 1024


class Run:
    def __init__(self, channel, work, job):
        self.channel = channel
        self.only_files = job["op"] == "put"
        self.kind = job.get("kind")
        self.language = job.get("language")
        self.entry = job.get("entry")
        self.argv = job.get("argv", [])
        self.text = job.get("text")
        self.env = job.get("env", {})
        self.stdin_size = job.get("stdin")
        self.caps = job.get("caps", {"out": 0, "err": 0})
        self.files = GivenFiles(work, job.get("files", []))
        self.keep = job.get("keep", False)
        # Whether the worker wants to hear of progress; what listens for it.
        self.report = job.get("report", False)
        self.reports = None
        self.session = None
        # Whether the session had kept an interpreter for it: kept, restarted, none.
        self.found = "none"
        self.begun = False
        self.alive = False
        # Port on the loopback where the program may connect; None when it may not.
        self.connect = job.get("connect")
        self.refused = None
        self.child = None
        self.at_bind = None
        self.began = None
        self.wall = 0.0
        self.status = None
        self.used = None
        self.disk_full = False
        # Processes of it that were still there when its main process had ended, and whether they were as many
        # as it may have.
        self.left = 0
        self.at_limit = False
        self.proven_gone = True
        self.drain_until = None
        self.input = Input(self.stdin_size)
        self._term_at = None
        self._stopping = False
        self.streams = []

    # ---- before it begins

    def take_file(self, payload):
        if self.refused is None:
            try:
                self.files.take(payload)
            except WorkError as error:
                self.refuse(error)

    def finish_files(self):
        if self.refused is None:
            try:
                self.files.finish()
            except WorkError as error:
                self.refuse(error)

    def refuse(self, error):
        if self.refused is None:
            self.refused = error

    # ---- the process

    def command(self, env):
        if self.kind == "script":
            return ["bash", self.entry] + self.argv
        if self.kind == "shell":
            shell = "bash" if _on_path("bash", env) else "/bin/sh"
            return [shell, self.entry] if self.entry else [shell, "-c", self.text]
        return self.argv

    def runs_as(self, pid):
        """True when this is its process, and no end of it is known."""
        return self.child is not None and self.child.pid == pid and self.status is None

    def start_streams(self):
        self.streams = [
            Output(self.channel, "O", self.child.stdout, self.caps["out"]),
            Output(self.channel, "E", self.child.stderr, self.caps["err"]),
        ]
        self.write_stdin()

    def open_streams(self):
        return [stream for stream in self.streams if stream.open]

    def take_stdin(self, payload):
        self.input.take(payload)
        self.write_stdin()

    def write_stdin(self):
        if self.child is not None:
            self.input.write_to(self.child)

    def watch(self, watch, may_send):
        if may_send:
            for stream in self.open_streams():
                watch(stream.fd, select.POLLIN, stream.forward)
        if self.input.waits_for(self.child):
            watch(self.child.stdin, select.POLLOUT, self.write_stdin)
        # A session's come with its other words.
        if self.reports is not None and self.session is None and self.status is None and not self.reports.closed:
            if self.child.control_out is not None:
                watch(self.child.control_out, select.POLLIN, self.on_report)

    def soft_stop(self, grace_s):
        if self.status is None and not self._stopping:
            self._stopping = True
            self._signal(signal.SIGINT)
            self._term_at = time.monotonic() + grace_s / 2

    def _signal(self, number):
        try:
            os.killpg(self.child.pid, number)
        except OSError:
            pass

    def next_timer_ms(self):
        due = self.drain_until if self.drain_until is not None else self._term_at
        report = None if self.reports is None else self.reports.due_ms()
        if due is None or (self.status is not None and self.drain_until is None):
            return report
        due = max(0, int((due - time.monotonic()) * 1000) + 1)
        return due if report is None else min(due, report)

    def fire_timers(self):
        if self.reports is not None:
            self.reports.tell()
        if self._term_at is not None and self.status is None and time.monotonic() >= self._term_at:
            self._term_at = None
            self._signal(signal.SIGTERM)

    def ended(self, status, used):
        self.status, self.used = status, used
        self.wall = time.monotonic() - self.began

    def ended_in_session(self, code):
        self.ended(code << 8, None)
        self.alive = True

    def lost_session(self):
        """The interpreter did not outlive the end of its run, which stays what it was."""
        self.alive, self.used = False, _Unknown

    def is_drained(self):
        if self.alive:
            return not _readable(self.streams)
        if not self.open_streams():
            return True
        return self.drain_until is not None and time.monotonic() >= self.drain_until

    def take_value(self):
        if self.session is not None:
            return self.session.value() if self.status == 0 else None
        if self.child.control_out is None or self.status != 0:
            return None
        told = self._read_told(VALUE_MAX + 4096) if self.reports is None else self.reports.value
        # The ready line of an interpreter that did not wait stands in front of it.
        at = told.find(b"\n") + 1 if told[:1] == b"R" else 0
        size = int.from_bytes(told[at + 1 : at + 5], "little")
        if told[at : at + 1] != b"V" or not 0 < size <= VALUE_MAX or len(told) != at + 5 + size:
            return None
        return told[at + 5 :]

    def _read_told(self, most):
        told = b""
        try:
            while len(told) < most:
                data = os.read(self.child.control_out, 65536)
                if not data:
                    break
                told += data
        except OSError:
            pass
        return told

    # ---- what it tells while it runs

    def listen_for_reports(self):
        # Imported here: few programs report.
        from .reports import Reports

        self.reports = Reports(lambda report: self.channel.send("U", report))

    def on_report(self):
        told = read_some(self.child.control_out)
        if told:
            self.reports.keep(told)
        elif told is not None:
            self.reports.closed = True

    def end_reports(self):
        """Its last words may still stand in the pipe."""
        if self.session is None and not self.reports.closed and self.child.control_out is not None:
            # Twice the pipe: every process that could fill it again is dead.
            self.reports.keep(self._read_told(128 * 1024))
        self.reports.tell(True)

    # ---- what it used

    def usage(self, seen_by):
        """So far; None before it has begun."""
        if self.at_bind is None or self.child is None:
            return None
        wall = int((time.monotonic() - self.began) * 1e6)
        return _figures(seen_by.since(self.at_bind, self.child.pid), wall)

    def evidence(self, seen_by):
        seen = seen_by.since(self.at_bind, self.child.pid if self.alive else None)
        out, err = self.streams
        signalled = os.WIFSIGNALED(self.status)
        return {
            "code": None if signalled else os.WEXITSTATUS(self.status),
            "signal": _signal_name(os.WTERMSIG(self.status)) if signalled else None,
            "wallUs": int(self.wall * 1e6),
            "cpuUs": seen["cpuUs"],
            "maxRssKb": self._peak_kb(),
            "memPeak": seen["memPeak"],
            "oomKills": seen["oomKills"],
            "pidsPeak": seen["pidsPeak"],
            "pidsHit": int(self.at_limit) if seen["pidsHit"] is None else seen["pidsHit"],
            "left": self.left,
            "readBytes": seen["readBytes"],
            "writeBytes": seen["writeBytes"],
            "diskBytes": seen["diskBytes"],
            "diskFull": self.disk_full,
            "outBytes": out.seen,
            "errBytes": err.seen,
            "outDropped": out.dropped,
            "errDropped": err.dropped,
            "leftovers": not self.proven_gone,
            **({"alive": self.alive, "interpreter": self.found} if self.keep else {}),
        }

    def _peak_kb(self):
        return meters.peak_kb_of(self.child.pid) if self.alive else self.used.ru_maxrss

    def close(self):
        if self.session is not None:
            self.session.run = None
        if not self.alive:
            self.child.close()


def usage_of(evidence):
    return _figures(evidence, evidence["wallUs"], evidence["maxRssKb"] * 1024)


def _figures(seen, wall_us, peak=None):
    """What A says, in its order."""
    peak = seen["memPeak"] if peak is None or seen["memPeak"] is not None else peak
    return seen["cpuUs"], peak, seen["readBytes"], seen["writeBytes"], wall_us, seen["pidsPeak"], seen["diskBytes"]


class _Unknown:
    ru_maxrss = 0


def _readable(streams):
    poller = select.poll()
    for stream in streams:
        if stream.open:
            poller.register(stream.fd, select.POLLIN)
    return any(events & select.POLLIN for _, events in poller.poll(0))


# Some numbers have two names; the shorter is the older and the one that Node knows (SIGIO, SIGABRT).
_NAMES = {
    getattr(signal, name): name
    for name in sorted(dir(signal), key=lambda name: (-len(name), name))
    if name.startswith("SIG") and not name.startswith("SIG_") and name not in ("SIGCLD", "SIGIOT", "SIGRTMIN", "SIGRTMAX")
}


def _signal_name(number):
    return _NAMES.get(number, "SIG%d" % number)


def _on_path(name, env):
    return any(os.access(os.path.join(folder, name), os.X_OK) for folder in env.get("PATH", "").split(":") if folder)
