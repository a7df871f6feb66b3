"""One program from J to X: its files, its streams with byte caps, its soft stop and the evidence of its end."""
import _signal as signal
import os
import select
import struct
import time

from . import meters
from .workdir import REFUSED, WorkError

# The largest value of a script (contract BOUNDS.valueBytes) and its head on the control pipe: 'V' and u32 length.
VALUE_MAX = 32 * 1024


class Stream:
    def __init__(self, kind, fd, cap):
        self.kind = kind
        self.fd = fd
        self.cap = cap
        self.seen = 0
        self.dropped = 0
        self.told = False
        self.open = True

    def take(self, data):
        keep = data[: max(0, self.cap - self.seen)]
        self.seen += len(data)
        self.dropped += len(data) - len(keep)
        return keep

    def eof(self):
        self.open = False


class Run:
    def __init__(self, job):
        self.only_files = job["op"] == "put"
        self.kind = job.get("kind")
        self.language = job.get("language")
        self.entry = job.get("entry")
        self.argv = job.get("argv", [])
        self.text = job.get("text")
        self.env = job.get("env", {})
        self.stdin_size = job.get("stdin")
        self.caps = job.get("caps", {"out": 0, "err": 0})
        self.files = job.get("files", [])
        self.keep = job.get("keep", False)
        # Whether the worker wants to hear of progress; what listens for it.
        self.report = job.get("report", False)
        self.reports = None
        self.session = None
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
        self.proven_gone = True
        self.drain_until = None
        self._file = None
        self._stdin = bytearray()
        self._stdin_got = 0
        self._stdin_end = self.stdin_size in (None, 0)
        self._term_at = None
        self._stopping = False
        self.streams = []

    # ---- files: F frames carry (index u32, bytes); indexes go up, sizes are declared in J

    def file_chunk(self, work, payload):
        if self.refused is not None:
            return
        index = struct.unpack_from("<I", payload)[0]
        if self._file is None or self._file[0] != index:
            self._next_file(work, index)
        opened = self._file
        opened[2] -= len(payload) - 4
        if opened[2] < 0:
            raise WorkError(REFUSED, "more bytes than declared")
        work.append(opened[1], memoryview(payload)[4:], self.files[index]["path"])

    def finish_files(self, work):
        self._next_file(work, len(self.files))

    def _next_file(self, work, index):
        at = -1
        if self._file is not None:
            at, fd, left = self._file
            os.close(fd)
            self._file = None
            if left:
                raise WorkError(REFUSED, "fewer bytes than declared")
        for empty in range(at + 1, min(index, len(self.files))):
            if self.files[empty]["size"]:
                raise WorkError(REFUSED, "a file was left out")
            os.close(work.create(self.files[empty]["path"], self.files[empty].get("exec", False)))
        if index < len(self.files):
            declared = self.files[index]
            self._file = [index, work.create(declared["path"], declared.get("exec", False)), declared["size"]]

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

    def start_streams(self):
        self.streams = [
            Stream("O", self.child.stdout, self.caps["out"]),
            Stream("E", self.child.stderr, self.caps["err"]),
        ]
        self.write_stdin()

    def open_streams(self):
        return [stream for stream in self.streams if stream.open]

    def stdin_chunk(self, payload):
        if not payload:
            self._stdin_end = True
        elif self.stdin_size is None or self._stdin_got + len(payload) > self.stdin_size:
            raise WorkError(REFUSED, "more input than declared")
        else:
            self._stdin_got += len(payload)
            self._stdin += payload
        self.write_stdin()

    def stdin_waits(self):
        return self.child.stdin is not None and len(self._stdin) > 0

    def write_stdin(self):
        child = self.child
        if child is None or child.stdin is None:
            return
        try:
            while self._stdin:
                del self._stdin[: os.write(child.stdin, memoryview(self._stdin)[: 64 * 1024])]
        except BlockingIOError:
            return
        except OSError:
            self._stdin.clear()  # The program closed its input, which is its right.
            self._stdin_end = True
        if self._stdin_end and not self._stdin:
            os.close(child.stdin)
            child.stdin = None

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

    def input_is_here(self):
        return self._stdin_end

    def take_input(self):
        data, self._stdin = bytes(self._stdin), bytearray()
        return data

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

    def end_reports(self):
        """Its last words may still stand in the pipe."""
        if self.session is None and not self.reports.closed and self.child.control_out is not None:
            # Twice the pipe: every process that could fill it again is dead.
            self.reports.keep(self._read_told(128 * 1024))
        self.reports.tell(True)

    def evidence(self, seen_by):
        seen = seen_by.since(self.at_bind, self.child.pid if self.alive else None)
        out, err = self.streams
        signalled = os.WIFSIGNALED(self.status)
        return {
            "code": None if signalled else os.WEXITSTATUS(self.status),
            "signal": _signal_name(os.WTERMSIG(self.status)) if signalled else None,
            "wallUs": int(self.wall * 1e6),
            "cpuUs": seen["cpuUs"],
            "maxRssKb": meters.peak_kb_of(self.child.pid) if self.alive else self.used.ru_maxrss,
            "memPeak": seen["memPeak"],
            "oomKills": seen["oomKills"],
            "pidsPeak": seen["pidsPeak"],
            "pidsHit": seen["pidsHit"],
            "readBytes": seen["readBytes"],
            "writeBytes": seen["writeBytes"],
            "diskBytes": seen["diskBytes"],
            "diskFull": self.disk_full,
            "outBytes": out.seen,
            "errBytes": err.seen,
            "outDropped": out.dropped,
            "errDropped": err.dropped,
            "leftovers": not self.proven_gone,
            **({"alive": self.alive} if self.keep else {}),
        }

    def close(self):
        if not self.alive:
            self.child.close()


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
