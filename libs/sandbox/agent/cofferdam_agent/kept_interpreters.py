"""Interpreters that a session keeps between runs. Each is stopped while no program runs in it.

    start ──session message──> waits ──run──> runs ──D──> SIGSTOP, its children are killed ──run (SIGCONT)──> …
    any ──it dies, or breaks the protocol of the control pipe──> gone: that run ends with its exit, the next starts a fresh one

In a session that keeps processes, an interpreter is not stopped and keeps its children. If it dies, they
live on.

The interpreter says when a run is over and with which code. A program of the session can forge that for its
own session's runs, and for nothing else.
"""
import _signal as signal
import os
import time

from . import gate, reap, spawn
from .channel import read_some
from .workdir import WorkError

FAMILIES = {"python": "python", "javascript": "javascript", "typescript": "javascript", "bash": "bash"}
VALUE_MAX = 32 * 1024
# In the work directory, the input of a program that a kept interpreter runs.
STDIN_NAME = ".cofferdam-stdin"
# There too, the script of a shell whose session keeps its processes (job.ts): `main.sh` may be a file of theirs.
SCRIPT_NAME = ".cofferdam-main.sh"
STOP_S = 1.0
# Linux include/uapi/asm-generic/siginfo.h; `os` has it from Python 3.9 on.
CLD_STOPPED = 5


class KeptInterpreter:
    def __init__(self, child, family):
        self.child = child
        self.family = family
        self.pid = child.pid
        self._unread = b""
        self.broken = False
        # Its current run, which closes the pipes if the interpreter does not outlive it.
        self.run = None

    def begin(self, message):
        self._unread = b""
        _signal(self.pid, signal.SIGCONT)
        self.child.send(message)

    def on_message(self, data):
        """The exit code of a finished run; None before. Raises ValueError for an unknown message."""
        self._unread += data
        if self._unread[:1] == b"R":
            # The ready line of an interpreter that did not wait.
            line, end, after = self._unread.partition(b"\n")
            if not end:
                return None
            self._unread = after
        rest = self._after_value()
        if rest is None or not rest:
            return None
        if rest[:1] != b"D" or len(rest) > 5:
            raise ValueError("not a message of a session")
        if not rest.endswith(b"\n"):
            return None
        code = int(rest[1:-1])
        if not 0 <= code <= 255:
            raise ValueError("not an exit code")
        return code

    def _after_value(self):
        """The bytes after the value; None while the value is not complete."""
        if self._unread[:1] != b"V":
            return self._unread
        size = int.from_bytes(self._unread[1:5], "little")
        if size > VALUE_MAX:
            raise ValueError("a value of %d bytes" % size)
        return None if len(self._unread) < 5 + size else self._unread[5 + size :]

    def value(self):
        if self._unread[:1] != b"V":
            return None
        return self._unread[5 : 5 + int.from_bytes(self._unread[1:5], "little")] or None

    def stop(self):
        """Stops all its threads; False when it is dead, or does not stop."""
        until = time.monotonic() + STOP_S
        _signal(self.pid, signal.SIGSTOP)
        while True:
            try:
                seen = os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return False
            if seen is not None:
                return seen.si_code == CLD_STOPPED
            if time.monotonic() > until:
                return False
            time.sleep(0.0001)

    def kill_children(self, until):
        """Kills its children. It is stopped and only it waits for them, so an unchanged list is final."""
        before = None
        while time.monotonic() < until:
            children = _children_of(self.pid)
            if children is None:
                return False
            alive = [pid for pid in children if not _is_dead(pid)]
            if not alive and children == before:
                return True
            for pid in alive:
                _signal(pid, signal.SIGKILL)
            before = children
            if alive:
                time.sleep(0.0003)
        return False


class KeptInterpreters:
    """`kept`: the interpreters by family. Processes reads it too. `late`: the LateOutput of a session that
    keeps processes; None in others.
    """

    def __init__(self, options, work, split, meters, waiting, kept, late):
        self.options = options
        self.work = work
        self.split = split
        self.meters = meters
        self.waiting = waiting
        self.kept = kept
        self.late = late
        # Families that had one, on whose state a program of the session may rely.
        self.known = set()

    def bind(self, run, env):
        self.waiting.release()
        family = FAMILIES[run.language]
        if family in self.kept:
            run.found = "kept"
        else:
            run.found = "restarted" if family in self.known else "none"
            self.kept[family] = KeptInterpreter(self.start(run, env), family)
            if self.late is not None:
                self.late.begin(self.kept[family])
            self.known.add(family)
        run.session = self.kept[family]
        run.session.run = run
        run.child = run.session.child
        self.meters.exclude(run.at_bind, run.child.pid, self.options.cell)
        self.begin(run)

    def start(self, run, env):
        if run.language == "bash":
            argv = ["bash", "--norc", "--noprofile", os.path.join(gate.folder_of("bash-gate"), "session.sh")]
            child = spawn.spawn(argv, env, self.work.path, self.options, self.split, True)
        else:
            child = self.waiting.take(run, run.env) or self.waiting.start(run.language, run.entry, env)
            child.send(gate.session_message(env))
        os.close(child.stdin)
        child.stdin = None
        return child

    def begin(self, run):
        """Begins the run once its input is complete, in a file: the process gets another input with each run.
        """
        if run.begun_in_session or not run.input.is_whole:
            return
        run.begun_in_session = True
        path = ""
        if run.stdin_size is not None:
            try:
                fd = self.work.create(STDIN_NAME, False)
                try:
                    self.work.append(fd, run.input.take_all(), STDIN_NAME)
                finally:
                    os.close(fd)
            except WorkError:
                run.end.disk_full = True
            path = os.path.join(self.work.path, STDIN_NAME)
        run.session.begin(gate.run_message(run, path, self.work.path))

    def on_message(self, run):
        data = read_some(run.child.control_out)
        if data is None:
            return
        code, is_broken = None, not data
        try:
            messages = run.reports.feed(data) if run.reports is not None else data
            code = run.session.on_message(messages) if messages else None
        except ValueError:
            is_broken = True
        if is_broken:
            run.session.broken = True
            # The end of the run is then the exit status of this process. It may have ended already: its pipe
            # can end before its exit is seen. So a session that keeps processes spares its children here.
            if self.late is None:
                reap.kill_group(run.child.pid)
            else:
                reap.kill(run.child.pid)
        elif code is not None:
            run.end.seen_in_session(code, run.began)

    def finish(self, run):
        if run.end.interpreter_lives and run.session.family not in self.kept:
            run.end.interpreter_lost()
        if run.stdin_size is not None:
            self.remove(STDIN_NAME)
        if run.entry == SCRIPT_NAME:
            self.remove(SCRIPT_NAME)

    def remove(self, name):
        """A shell cannot do it without starting a program."""
        try:
            self.work.remove(name)
        except WorkError:
            pass

    def stop_all(self):
        """Stops interpreters without a run and kills their children. Kills one for which that fails."""
        for kept in list(self.kept.values()):
            if kept.run is not None and not kept.run.end.interpreter_lives:
                continue
            if not kept.stop() or not kept.kill_children(time.monotonic() + 1):
                self.end(kept)

    def end_all(self):
        """Ends all of them, so that the next program relies on none."""
        for kept in list(self.kept.values()):
            self.end(kept)
        self.known.clear()

    def on_died(self, kept):
        """It has died without a run, or after its run has ended."""
        if self.late is None:
            reap.kill_group(kept.pid)
        self.forget(kept)

    def end(self, kept):
        reap.kill_group(kept.pid)
        self.forget(kept)

    def forget(self, kept):
        self.kept.pop(kept.family, None)
        if kept.run is not None:
            return  # The end of its run closes the pipes.
        if self.late is None:
            kept.child.close()
        else:
            self.late.lose(kept)


def _children_of(pid):
    """The children of all its threads; None if they cannot be read."""
    found = set()
    try:
        for thread in os.listdir("/proc/%d/task" % pid):
            with open("/proc/%d/task/%s/children" % (pid, thread)) as listing:
                found.update(map(int, listing.read().split()))
    except (OSError, ValueError):
        return None
    return found


def _is_dead(pid):
    try:
        with open("/proc/%d/stat" % pid, "rb") as line:
            return line.read().rpartition(b")")[2].split()[0] in (b"Z", b"X")
    except (OSError, IndexError):
        return True


def _signal(pid, number):
    try:
        os.kill(pid, number)
    except OSError:
        pass
