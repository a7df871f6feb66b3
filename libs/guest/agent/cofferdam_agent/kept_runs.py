"""Runs of programs in the interpreters that a session keeps, one after the other: what the agent's loop does about them."""
import os
import time

from . import spawn
from .channel import read_some
from .kept import FAMILIES, Kept
from .workdir import WorkError


class KeptRuns:
    """`kept`: by family, the agent's own, who asks it what there is."""

    def __init__(self, agent, kept):
        self.agent = agent
        self.kept = kept

    def bind(self, run, env):
        agent = self.agent
        agent.warm.release()
        family = FAMILIES[run.language]
        if family not in self.kept:
            self.kept[family] = Kept(self.start(run, env), family)
        run.session = self.kept[family]
        run.child = run.session.child
        agent.meters.exclude(run.at_bind, run.child.pid, agent.options.cell)
        agent.state = "running"
        self.begin()

    def start(self, run, env):
        agent = self.agent
        if run.language == "bash":
            argv = ["bash", "--norc", "--noprofile", os.path.join(spawn.gate_dir("bash-gate"), "session.sh")]
            child = spawn.spawn(argv, env, agent.work.path, agent.options, agent.split, True)
        else:
            child = agent.warm.take(run, run.env) or agent.warm.start(run.language, run.entry, env)
            agent.tell(child, spawn.session_message(env))
        os.close(child.stdin)
        child.stdin = None
        return child

    def begin(self):
        """Its input comes as a file, because the same process gets another one with each run: so all of it must be here."""
        agent, run = self.agent, self.agent.run
        if agent.state != "running" or run.begun or not run.input_is_here():
            return
        run.begun = True
        path = ""
        if run.stdin_size is not None:
            try:
                fd = agent.work.create(spawn.STDIN_NAME, False)
                try:
                    agent.work.append(fd, run.take_input(), spawn.STDIN_NAME)
                finally:
                    os.close(fd)
            except WorkError:
                run.disk_full = True
            path = os.path.join(agent.work.path, spawn.STDIN_NAME)
        run.session.begin(spawn.run_message(run, path, agent.work.path))

    def on_told(self):
        run = self.agent.run
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
            self.agent.kill_group(run.child.pid)  # It broke its word: its end comes with its exit status.
        elif code is not None:
            run.ended_in_session(code)

    def freeze(self):
        """Stops what is kept and kills its children; what cannot be stopped, or may have others still, is killed."""
        run = self.agent.run
        for kept in list(self.kept.values()):
            if run is not None and run.child is kept.child and not run.alive:
                continue
            if not kept.stop() or not kept.kill_children(time.monotonic() + 1):
                self.end(kept)

    def end(self, kept):
        self.kept.pop(kept.family, None)
        self.agent.kill_group(kept.pid)
        if self.agent.run is None or self.agent.run.child is not kept.child:
            kept.child.close()
