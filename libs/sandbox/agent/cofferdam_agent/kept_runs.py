"""Runs of programs in the interpreters that a session keeps, one after the other."""
import os
import time

from . import reap, spawn
from .channel import read_some
from .kept import FAMILIES, Kept
from .workdir import WorkError


class KeptRuns:
    """`kept`: what there is, by family; its owner reads it, too."""

    def __init__(self, options, work, split, meters, warm, kept):
        self.options = options
        self.work = work
        self.split = split
        self.meters = meters
        self.warm = warm
        self.kept = kept
        # Families that had one, which a program of the session counts on.
        self.known = set()

    def bind(self, run, env):
        self.warm.release()
        family = FAMILIES[run.language]
        if family in self.kept:
            run.found = "kept"
        else:
            run.found = "restarted" if family in self.known else "none"
            self.kept[family] = Kept(self.start(run, env), family)
            self.known.add(family)
        run.session = self.kept[family]
        run.session.run = run
        run.child = run.session.child
        self.meters.exclude(run.at_bind, run.child.pid, self.options.cell)
        self.begin(run)

    def start(self, run, env):
        if run.language == "bash":
            argv = ["bash", "--norc", "--noprofile", os.path.join(spawn.gate_dir("bash-gate"), "session.sh")]
            child = spawn.spawn(argv, env, self.work.path, self.options, self.split, True)
        else:
            child = self.warm.take(run, run.env) or self.warm.start(run.language, run.entry, env)
            child.tell(spawn.session_message(env))
        os.close(child.stdin)
        child.stdin = None
        return child

    def begin(self, run):
        """Its input comes as a file, because the same process gets another one with each run: so all of it must be here."""
        if run.begun or not run.input.is_whole:
            return
        run.begun = True
        path = ""
        if run.stdin_size is not None:
            try:
                fd = self.work.create(spawn.STDIN_NAME, False)
                try:
                    self.work.append(fd, run.input.take_all(), spawn.STDIN_NAME)
                finally:
                    os.close(fd)
            except WorkError:
                run.disk_full = True
            path = os.path.join(self.work.path, spawn.STDIN_NAME)
        run.session.begin(spawn.run_message(run, path, self.work.path))

    def on_told(self, run):
        told = read_some(run.child.control_out)
        if told is None:
            return
        try:
            words = run.reports.feed(told) if run.reports is not None else told
            code = run.session.hear(words) if words else None
        except ValueError:
            code = told = None
        if not told:
            run.session.broken = True
            reap.kill_group(run.child.pid)  # It broke its word: its end comes with its exit status.
        elif code is not None:
            run.ended_in_session(code)

    def finish(self, run):
        if run.alive and run.session.family not in self.kept:
            run.lost_session()
        if run.stdin_size is not None:
            try:
                self.work.remove(spawn.STDIN_NAME)  # A shell cannot without starting a program.
            except WorkError:
                pass

    def freeze(self):
        """Stops what is kept and kills its children; what cannot be stopped, or may have others still, is killed."""
        for kept in list(self.kept.values()):
            if kept.run is not None and not kept.run.alive:
                continue
            if not kept.stop() or not kept.kill_children(time.monotonic() + 1):
                self.end(kept)

    def forget(self):
        """What comes next is to find none of them, and counts on none."""
        for kept in list(self.kept.values()):
            self.end(kept)
        self.known.clear()

    def end(self, kept):
        self.kept.pop(kept.family, None)
        reap.kill_group(kept.pid)
        if kept.run is None:
            kept.child.close()
