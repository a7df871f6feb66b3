"""One program from J to X: files, input, output, soft stop (soft_stop.py), end (program_end.py)."""
import os
import select
import struct
import time

from . import gate, usage
from .channel import read_some
from .program_end import ProgramEnd
from .soft_stop import SoftStop
from .streams import Input, Output, read_all
from .workdir import REFUSED, WorkError


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
        # `keep`: whether the session keeps the interpreter. `found`: what the run found. `none`: the session
        # had no interpreter of this language yet. `kept`: it has one. `restarted`: it had one, which is gone.
        self.keep = job.get("keep", False)
        # Whether the session keeps all processes: this run's end then kills none.
        self.leaves = job.get("leave", False)
        self.session = None
        self.found = "none"
        self.begun_in_session = False
        # Whether the worker wants progress reports, and their parser.
        self.report = job.get("report", False)
        self.reports = None
        # Port on the loopback where the program may connect; None when it may not.
        self.connect = job.get("connect")
        self.refused = None
        self.child = None
        self.at_bind = None
        self.began = None
        self.input = Input(self.stdin_size)
        self.streams = []
        self.soft_stop = SoftStop()
        self.end = ProgramEnd()

    # ---- before the program begins

    def take_file(self, payload):
        if self.refused is None:
            try:
                self.files.take(payload)
            except WorkError as error:
                self.refused = error

    def finish_files(self):
        if self.refused is None:
            try:
                self.files.finish()
            except WorkError as error:
                self.refused = error

    # ---- while the program runs

    @property
    def has_ended(self):
        """True when the main process has a status; its pipes may still hold output."""
        return self.end.status is not None

    def command(self, env):
        """The command of a program without a waiting interpreter."""
        if self.kind == "script":
            return ["bash", self.entry] + self.argv
        if self.kind == "shell":
            shell = "bash" if _on_path("bash", env) else "/bin/sh"
            return [shell, self.entry] if self.entry else [shell, "-c", self.text]
        return self.argv

    def runs_as(self, pid):
        return self.child is not None and self.child.pid == pid and not self.has_ended

    def start_streams(self):
        self.streams = [
            Output(self.channel, "O", self.child.stdout, self.caps["out"]),
            Output(self.channel, "E", self.child.stderr, self.caps["err"]),
        ]
        self.write_stdin()

    def take_stdin(self, payload):
        self.input.take(payload)
        self.write_stdin()

    def write_stdin(self):
        if self.child is not None:
            self.input.write_to(self.child)

    def watch(self, watch, may_send):
        for stream in self.streams:
            if not stream.is_complete and may_send:
                watch(stream.fd, select.POLLIN, stream.forward)
        if self.input.waits_for(self.child):
            watch(self.child.stdin, select.POLLOUT, self.write_stdin)
        # In a session, kept_interpreters.py reads this pipe, because it also carries the interpreter's other
        # messages.
        if self.reports is not None and self.session is None and not self.has_ended and not self.reports.closed:
            if self.child.control_out is not None:
                watch(self.child.control_out, select.POLLIN, self.on_report)

    def next_timer_ms(self):
        due = self.end.drain_until() if self.has_ended else self.soft_stop.due_at()
        due_ms = None if due is None else max(0, int((due - time.monotonic()) * 1000) + 1)
        report_ms = None if self.reports is None else self.reports.due_ms()
        return min((ms for ms in (due_ms, report_ms) if ms is not None), default=None)

    def fire_timers(self):
        if self.reports is not None:
            self.reports.send_due()
        if not self.has_ended:
            self.soft_stop.fire(self.child.pid)

    # ---- progress reports

    def with_reports(self, env):
        """Returns `env` with the commands that report, if this program may."""
        if not self.report and not (self.leaves and self.keep):
            return env
        # Imported here: few programs report.
        from .reports import Reports

        # In a kept interpreter, code of earlier runs may still send reports. If this run may not report, they
        # are read and dropped.
        self.reports = Reports((lambda report: self.channel.send("U", report)) if self.report else None)
        return gate.with_commands(env, self) if self.report else env

    def on_report(self):
        data = read_some(self.child.control_out)
        if data:
            self.reports.keep(data)
        elif data is not None:
            self.reports.closed = True

    def end_reports(self):
        """Reads the reports that the pipe still holds, and sends the last one."""
        if self.session is None and not self.reports.closed and self.child.control_out is not None:
            # Twice the size of a pipe: every process that could fill it again is dead.
            self.reports.keep(read_all(self.child.control_out, 128 * 1024))
        self.reports.send_due(True)

    # ---- what the program used

    def usage(self, counters):
        """The numbers of A so far; None before the program has begun."""
        if self.at_bind is None or self.child is None:
            return None
        wall_us = int((time.monotonic() - self.began) * 1e6)
        return usage.numbers(counters.since(self.at_bind, self.child.pid), wall_us)

    def close(self):
        if self.session is not None:
            self.session.run = None
        if not self.end.interpreter_lives:
            self.child.close()


class GivenFiles:
    """Writes the files of a program. J declares their sizes. An F has an index (u32, ascending) and bytes."""

    def __init__(self, work, declared):
        self.work = work
        self.declared = declared
        # Index, descriptor and missing bytes of the file that is being written.
        self.opened = None

    def take(self, payload):
        index = struct.unpack_from("<I", payload)[0]
        if self.opened is None or self.opened[0] != index:
            self._next(index)
        opened = self.opened
        opened[2] -= len(payload) - 4
        if opened[2] < 0:
            raise WorkError(REFUSED, "more bytes than declared")
        self.work.append(opened[1], memoryview(payload)[4:], self.declared[index]["path"])

    def finish(self):
        self._next(len(self.declared))

    def _next(self, index):
        at = -1
        if self.opened is not None:
            at, fd, left = self.opened
            os.close(fd)
            self.opened = None
            if left:
                raise WorkError(REFUSED, "fewer bytes than declared")
        for empty in range(at + 1, min(index, len(self.declared))):
            if self.declared[empty]["size"]:
                raise WorkError(REFUSED, "a file was left out")
            os.close(self._create(self.declared[empty]))
        if index < len(self.declared):
            declared = self.declared[index]
            self.opened = [index, self._create(declared), declared["size"]]

    def _create(self, declared):
        return self.work.create(declared["path"], declared.get("exec", False))


def _on_path(name, env):
    return any(os.access(os.path.join(folder, name), os.X_OK) for folder in env.get("PATH", "").split(":") if folder)
