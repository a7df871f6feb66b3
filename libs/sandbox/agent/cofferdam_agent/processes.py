"""Every process of the sandbox but the running program: the interpreter that waits for the next program, the
interpreters that a session keeps, and whatever a program left.

    a program begins   it gets the waiting interpreter, a kept one, or a process of its own
    a program ends     everything but waiting and kept interpreters is killed, then the next interpreter is started
    between two        in a cell: kept interpreters are killed too, unless the session wants them, and the cell is proven clean

In a session that keeps processes, the end of a program kills nothing and nothing is proven between two,
because the sandbox is that session's alone and ends with it. No interpreter waits beside its processes.
"""
import os
import select

from . import gate, linux, reap, spawn
from .waiting import ENTRIES, WaitingInterpreter
from .workdir import IO_ERROR, REFUSED, WorkError

# How long killed processes of a cell may take to end. One that waits for a busy disk ends only when the disk
# has answered. GONE_S + WIPE_S + FREE_S is below the worker's limit of 15 s (CLEAN_MS in cells.ts).
GONE_S = 6.0


class Processes:
    def __init__(self, options, work, split, meters, ready, started_with_us):
        self.options = options
        self.work = work
        self.split = split
        self.meters = meters
        self.ready = ready
        self.waiting = WaitingInterpreter(options, split, work.path, started_with_us)
        self.cell = None
        # A session's kept interpreters by language family, and what runs programs in them.
        self.kept = {}
        self.kept_interpreters = None
        # Output of background processes. Set by the first program of a session that keeps processes.
        self.late = None
        # The language whose next interpreter is not started yet, because kept interpreters could reach it.
        self.postponed = None
        # `kill_all`: a kill(-1) that spares waiting processes. It runs with the program's uid, which only PID
        # 1 can take safely.
        can_spare = split and os.getpid() == 1 and self.waiting.has_forks
        self.kill_all = self.kill_all_of_program if can_spare else None

    def begin(self):
        if self.options.cell:
            # Create it before anything starts, because later the cell is compared with its state at this
            # moment. Imported only for cells.
            from .cell import Cell

            self.cell = Cell(self.options, self.work.path, self.split)
        self.prepare(self.options.language)

    def watch(self, watch, run):
        """Returns the milliseconds until there is more to watch; None if nothing limits the wait."""
        if run is not None and run.session is not None and not run.has_ended and not run.session.broken:
            watch(run.child.control_out, select.POLLIN, lambda: self.kept_interpreters.on_message(run))
        starting = self.waiting.starting()
        if starting is not None:
            watch(starting, select.POLLIN, self.on_waiting_message)
        return None if self.late is None else self.late.watch(watch)

    # ---- the waiting interpreter

    def prepare(self, language):
        if not self.waiting.prepare(language):
            self.ready.say({})

    def prepare_after(self, run):
        # Start no interpreter while processes of a program may still run, because they could reach it.
        if self.late is not None:
            return
        if self.options.cell and run.end.proven_gone and not (run.end.interpreter_lives and run.language != "python"):
            self.prepare_beside_kept(run.language)

    def prepare_beside_kept(self, language):
        """Prepares an interpreter, or postpones that if a kept one could reach it. A kept one is stopped, but
        a timer that sends it SIGCONT can wake it.
        """
        is_out_of_reach = self.split and self.waiting.has_forks and language == "python"
        self.postponed = language if self.kept and not is_out_of_reach else None
        if self.postponed is None:
            self.prepare(language)

    def prepare_postponed(self):
        if self.postponed is not None:
            self.prepare_beside_kept(self.postponed)

    def wait_for_starting(self):
        self.waiting.wait_for_starting()

    def on_waiting_message(self):
        is_ready = self.waiting.on_message()
        if is_ready:
            self.ready.say({self.waiting.child.language: self.waiting.version})
        elif is_ready is None:
            self.ready.say_failed(self.waiting.failure)

    # ---- a program

    def start(self, run, env):
        """Gives the run its process and lets it begin."""
        if run.leaves and self.late is None:
            # Imported here: few sessions keep processes.
            from .late_output import LateOutput

            self.late = LateOutput()
        self.start_process(run, env)
        if self.late is not None:
            self.waiting.drop()
            self.waiting.drop_fork_server()

    def start_process(self, run, env):
        if run.keep:
            self.start_kept(run, env)
        elif run.language in ENTRIES:
            run.child = self.waiting.take(run, run.env) or self.waiting.start(run.language, run.entry, env)
            self.meters.exclude(run.at_bind, run.child.pid, self.options.cell)
            run.child.send(gate.bind_message(run, env))
        else:
            self.waiting.release()
            has_input = run.stdin_size is not None
            run.child = spawn.spawn(
                run.command(env), env, self.work.path, self.options, self.split, False, has_input, reports=run.report
            )

    def start_kept(self, run, env):
        if self.kept_interpreters is None:
            # Imported here: few sessions keep interpreters.
            from .kept_interpreters import KeptInterpreters

            self.kept_interpreters = KeptInterpreters(
                self.options, self.work, self.split, self.meters, self.waiting, self.kept, self.late
            )
        self.kept_interpreters.bind(run, env)

    def on_stdin(self, run):
        if run.session is not None:
            self.kept_interpreters.begin(run)

    def on_end(self, run):
        """The process of `run` was reaped."""
        if run.session is not None:
            self.kept.pop(run.session.family, None)

    def on_reaped(self, pid):
        """Another process was reaped."""
        if not self.waiting.on_reaped(pid):
            for kept in [kept for kept in self.kept.values() if kept.pid == pid]:
                self.kept_interpreters.on_died(kept)

    def give_late_output(self, run):
        """Begins the run's output with what background processes wrote since the last run of its language."""
        if self.late is not None and run.session is not None:
            for stream in run.streams:
                data = self.late.take(run.session.family, stream.kind)
                if data:
                    stream.send(data)

    def spare_others(self, run):
        """The end of a run in a session that keeps processes. If the run did not obey SIGINT, its process
        group is killed, and with it the background jobs of a shell.
        """
        if run.soft_stop.has_terminated:
            reap.kill_group(run.child.pid)
            if run.end.interpreter_lives:
                self.kept_interpreters.end(run.session)
        for stream in run.streams:
            stream.end_here()
        run.end.spared_others = True

    def kill_left(self, run, on_reaped):
        """The end of a run, unless the session keeps processes: kills what the run's main process left."""
        if not run.end.interpreter_lives:
            reap.kill_group(run.child.pid)
        proven_gone = self.kill_others(on_reaped)
        run.end.killed_others(proven_gone, self.options.rlimits.get("nproc"))

    def finish(self, run):
        """Called when the run's leftovers are dead, or spared, and its pipes are empty."""
        if run.session is not None:
            self.kept_interpreters.finish(run)
        if self.late is not None and not run.end.interpreter_lives:
            if run.session is not None:
                self.late.lose(run.session)
            else:
                self.late.end_command(run.child)

    def kill_others(self, on_reaped, within_s=2.0):
        """Kills everything but waiting and kept interpreters. True when it is proven gone."""
        if self.kept:
            self.kept_interpreters.stop_all()
        spared = self.waiting.pids() | {kept.pid for kept in self.kept.values()}
        if not spared:
            return reap.kill_leftovers(self.options.confined, on_reaped, within_s)
        kill_all = None if self.kept or self.waiting.is_exposed() else self.kill_all
        return reap.kill_others(spared, self.options.confined, kill_all, on_reaped, within_s)

    def kill_all_of_program(self):
        if self.cell is not None:
            self.cell.was_in_reach = True
        linux.kill_all_of(self.options.uid, self.options.gid)

    # ---- between two executions of a cell

    def clean(self, keep, on_reaped):
        """Returns how many processes of the agent's own wait for the next program.

        Unless kept interpreters stay, no other process starts before the next request, because the host
        counts what is left. Raises WorkError when the cell cannot be proven clean.
        """
        if self.cell is None:
            raise WorkError(REFUSED, "this agent keeps no cell")
        self.wait_for_starting()
        if keep == "processes":
            return len(self.waiting.pids())
        if keep != "interpreter":
            if self.kept_interpreters is not None:
                self.kept_interpreters.end_all()
            self.postponed = None
        if not self.kill_others(on_reaped, GONE_S):
            raise WorkError(IO_ERROR, "processes are left")
        self.cell.clean(keep)
        return len(self.waiting.pids())
