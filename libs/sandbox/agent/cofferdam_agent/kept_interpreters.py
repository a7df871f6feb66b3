"""Interpreters that a session keeps between runs. Each is stopped while no program runs in it.

    start ──session message──> waits ──run──> runs ──D──> SIGSTOP, its children are killed ──run (SIGCONT)──> …
    any ──it dies, or breaks the protocol of the control pipe──> gone: that run ends with its exit, the next starts a fresh one

In a session that keeps processes, an interpreter is not stopped and keeps its children. If it dies, they
live on.

The interpreter says when a run is over and with which code. A program of the session can forge that for its
own session's runs, and for nothing else.
"""
import os
import time

from . import gate, reap, spawn
from .channel import read_some
from .kept_interpreter import KeptInterpreter
from .workdir import WorkError

FAMILIES = {"python": "python", "javascript": "javascript", "typescript": "javascript", "bash": "bash"}
# In the work directory, the input of a program that a kept interpreter runs.
STDIN_NAME = ".cofferdam-stdin"
# In the work directory, the script of a shell in a session that keeps processes (job.ts). It is not
# `main.sh`, because that could be a file of one of those processes.
SCRIPT_NAME = ".cofferdam-main.sh"


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
        # Families that had an interpreter in this session. A program may rely on its state, so a restart is
        # reported.
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
        """Begins the run once its input is complete. The input is a file, because one process gets a new
        input with each run.
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
            # The kill below ends the run with the interpreter's exit status. But the interpreter may have
            # exited by itself: its pipe can end before its exit is seen. In a session that keeps processes,
            # its background processes must then live on. So only the interpreter is killed there, not its
            # process group.
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
        """Removes a file of the run. A shell itself could not do it without starting a program."""
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
        """Ends all kept interpreters and forgets their families. The next run then reports `none` instead of
        `restarted`.
        """
        for kept in list(self.kept.values()):
            self.end(kept)
        self.known.clear()

    def on_died(self, kept):
        """Called when a kept interpreter died without a run, or after its run had ended."""
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
