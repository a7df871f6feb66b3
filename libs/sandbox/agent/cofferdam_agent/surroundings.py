"""What is in the sandbox beside the running program: the interpreter that waits for the next one, those that a session keeps, and
what a cell was when it was fresh.

    a program begins   it gets what waits, what its session keeps, or a process of its own
    a program ends     all but what waits and what is kept is killed, then the next interpreter is made to wait
    between two        in a cell: kept interpreters end too, unless the session wants them, and all is proven clean
"""
import os
import select

from . import linux, reap, spawn
from .warm import ENTRIES, Warm
from .workdir import IO_ERROR, REFUSED, WorkError


class Surroundings:
    def __init__(self, options, work, split, meters, ready, waiting):
        self.options = options
        self.work = work
        self.split = split
        self.meters = meters
        self.ready = ready
        self.warm = Warm(options, split, work.path, waiting)
        self.cell = None
        # What a session keeps, by the family of its language, and who runs programs in it.
        self.kept = {}
        self.kept_runs = None
        # The language whose next interpreter was not made to wait beside these.
        self.put_off = None
        # A kill(-1) that spares what waits: only PID 1 may take the program's uid for a moment without danger.
        can_spare = split and os.getpid() == 1 and self.warm.has_forks
        self.kill_all = self.kill_all_of_program if can_spare else None

    def begin(self):
        if self.options.cell:
            # Before anything starts: a cell is compared with what it is now. Imported here, for cells alone.
            from .cell import Cell

            self.cell = Cell(self.options, self.work.path, self.split)
        self.prepare(self.options.language)

    def watch(self, watch, run):
        if run is not None and run.session is not None and run.status is None and not run.session.broken:
            watch(run.child.control_out, select.POLLIN, lambda: self.kept_runs.on_told(run))
        starting = self.warm.pending()
        if starting is not None:
            watch(starting, select.POLLIN, self.on_warm_told)

    # ---- what waits

    def prepare(self, language):
        if not self.warm.prepare(language):
            self.ready.say({})

    def prepare_after(self, run):
        # Nothing is made to wait beside what may still run: the clean that follows proves it, or ends this cell.
        if self.options.cell and run.proven_gone and not (run.alive and run.language != "python"):
            self.prepare_beside_kept(run.language)

    def prepare_beside_kept(self, language):
        """What a session keeps is stopped, but a timer of its own can wake it (SIGCONT): nothing waits within its reach."""
        is_out_of_reach = self.split and self.warm.has_forks and language == "python"
        self.put_off = language if self.kept and not is_out_of_reach else None
        if self.put_off is None:
            self.prepare(language)

    def prepare_put_off(self):
        if self.put_off is not None:
            self.prepare_beside_kept(self.put_off)

    def settle(self):
        self.warm.settle()

    def on_warm_told(self):
        told = self.warm.on_told()
        if told:
            self.ready.say({self.warm.child.language: self.warm.version})
        elif told is None:
            self.ready.say_failed(self.warm.failure)

    # ---- a program

    def start(self, run, env):
        """Gives it its process, which begins."""
        if run.keep:
            self.start_kept(run, env)
        elif run.language in ENTRIES:
            run.child = self.warm.take(run, run.env) or self.warm.start(run.language, run.entry, env)
            self.meters.exclude(run.at_bind, run.child.pid, self.options.cell)
            run.child.tell(spawn.bind_message(run, env))
        else:
            self.warm.release()
            has_input = run.stdin_size is not None
            run.child = spawn.spawn(
                run.command(env), env, self.work.path, self.options, self.split, False, has_input, reports=run.report
            )

    def start_kept(self, run, env):
        if self.kept_runs is None:
            # Imported here: few sessions keep interpreters.
            from .kept_runs import KeptRuns

            self.kept_runs = KeptRuns(self.options, self.work, self.split, self.meters, self.warm, self.kept)
        self.kept_runs.bind(run, env)

    def on_stdin(self, run):
        if run.session is not None:
            self.kept_runs.begin(run)

    def on_end(self, run):
        """The process of `run` was reaped."""
        if run.session is not None:
            self.kept.pop(run.session.family, None)

    def on_reaped(self, pid):
        """Another one was."""
        if not self.warm.on_reaped(pid):
            for kept in [kept for kept in self.kept.values() if kept.pid == pid]:
                self.kept_runs.end(kept)

    def finish(self, run):
        """What it left is dead, and its pipes are empty."""
        if run.session is not None:
            self.kept_runs.finish(run)

    def kill_others(self, on_reaped):
        """All but what waits and what is kept. True when proven gone."""
        if self.kept:
            self.kept_runs.freeze()
        kept = self.warm.pids() | {kept.pid for kept in self.kept.values()}
        if not kept:
            return reap.kill_leftovers(self.options.confined, on_reaped)
        kill_all = None if self.kept or self.warm.is_exposed() else self.kill_all
        return reap.kill_others(kept, self.options.confined, kill_all, on_reaped)

    def kill_all_of_program(self):
        if self.cell is not None:
            self.cell.was_in_reach = True
        linux.kill_all_of(self.options.uid, self.options.gid)

    # ---- between two executions of a cell

    def clean(self, keep, on_reaped):
        """
        Returns how many processes of the agent's own wait for the next program. Unless kept interpreters stay, no other process
        starts before the next request, because the host counts what is left. Raises WorkError when the cell cannot be proven clean.
        """
        if self.cell is None:
            raise WorkError(REFUSED, "this agent keeps no cell")
        self.settle()
        if keep != "interpreter":
            if self.kept_runs is not None:
                self.kept_runs.forget()
            self.put_off = None
        if not self.kill_others(on_reaped):
            raise WorkError(IO_ERROR, "processes are left")
        self.cell.clean(keep)
        return len(self.warm.pids())
