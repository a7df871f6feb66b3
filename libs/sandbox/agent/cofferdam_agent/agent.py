"""The agent's loop, driven by one poll. One program runs at a time.

    start ──(an interpreter waits in its gate)── R ── idle
    idle ──J── binding ──F*── G ── running ──main process ended── ending ──pipes empty── X ── idle
    idle ──C── Z (with F* before it)          any state ──P── A          any error, end of input ── kill all, exit
    idle, proven clean, in a pod that keeps a session: end of input ── the next worker attaches ── R ── idle
    a session that keeps processes: ending kills nothing, and "proven clean" means that its worker has finished a turn

Where to look: spawn.py starts a program's process, soft_stop.py asks it to stop, program_end.py sees its end,
and processes.py has every other process of the sandbox. Only one step blocks, for at most two seconds: the
one that kills the processes that a program left.
"""
import os
import select
import struct
import time

from . import gate, jsontext, reap
from .channel import Closed, read_some
from .processes import Processes
from .run import Run
from .usage import LastUsage
from .workdir import OK, WorkError, Workdir

# Payloads of K: what stays between two executions.
_KEPT = {b"n": "none", b"f": "files", b"i": "interpreter", b"p": "processes"}


class Agent:
    """`ready`: the Ready that sends frame R on `channel`. `started_with_us` is explained at main()."""

    def __init__(self, options, split, channel, meters, ready, started_with_us):
        self.options = options
        self.channel = channel
        self.work = Workdir(options.work)
        self.meters, self.ready = meters, ready
        if options.own_disk:
            meters.used_bytes = self.work.used_bytes
        self.tunnel = None
        self.state = "hold" if options.hold else "idle"
        self.processes = Processes(options, self.work, split, meters, ready, started_with_us)
        self.run = None
        self.clean_after = None
        self.last_usage = LastUsage()
        # True if the sandbox was proven clean and no frame came since.
        self.is_clean = False
        self.wake = reap.open_wake()
        if self.state == "idle":
            self.processes.begin()

    def attach(self, channel):
        """Continues with another worker where the last one stopped."""
        for fd in {self.channel.fd_in, self.channel.fd_out}:
            os.close(fd)
        self.channel, self.tunnel = channel, None
        self.ready.attach(channel)

    # ---- frames from the worker

    def on_frame(self, kind, payload):
        self.is_clean = False
        if self.state == "hold":
            if kind != "G":
                raise Closed("frame %s while held" % kind)
            self.state = "idle"
            self.processes.begin()
        elif kind == "J" and self.state == "idle":
            self.run = Run(self.channel, self.work, jsontext.decode(payload.decode("utf-8")))
            self.state = "binding"
        elif kind == "F" and self.state == "binding":
            self.run.take_file(payload)
        elif kind == "G" and self.state == "binding":
            self.start_program()
        elif kind == "I":
            # If there is no run, the program ended while this frame was in flight.
            if self.run is not None:
                self.run.take_stdin(payload)
            if self.state == "running":
                self.processes.on_stdin(self.run)
        elif kind in "DWQ" and self.tunnel is not None:
            self.tunnel.on_frame(kind, payload)
        elif kind == "S":
            if self.state == "running" and not self.run.has_ended:
                self.run.soft_stop.begin(self.run.child.pid, struct.unpack("<I", payload)[0] / 1000)
        elif kind == "C" and self.state == "idle":
            self.collect(payload)
        elif kind == "B" and self.state != "binding":
            # Imported here: few programs have checkpoints.
            from .collect import back_up

            back_up(self.work, self.channel.send_and_drain, payload)
        elif kind == "K" and self.state in ("idle", "running", "ending"):
            self.on_clean(payload)
        elif kind == "P":
            self.channel.send("A", self.last_usage.payload(self.run, self.meters))
        else:
            raise Closed("frame %s while %s" % (kind, self.state))

    def collect(self, payload):
        # Imported here: few programs leave files that somebody asks for.
        from .collect import collect

        began = time.process_time()
        try:
            collect(self.work, self.channel.send_and_drain, payload)
            self.answer()
        except WorkError as error:
            self.answer(error)
        # The program made the files, so the time to find and read them is charged to it.
        self.last_usage.charge(time.process_time() - began)

    def answer(self, refused=None, payload=b""):
        if refused is not None:
            payload = str(refused).encode("utf-8", "replace")[:512]
        self.channel.send("Z", bytes([OK if refused is None else refused.status]) + payload)

    # ---- the program

    def start_program(self):
        run = self.run
        run.finish_files()
        if run.refused is None and run.connect is not None:
            self.listen(run)
        if run.refused is not None or run.only_files:
            self.run, self.state = None, "idle"
            self.answer(run.refused)
            return
        env = {**self.options.env, **run.env}
        if self.options.cell:
            env = gate.with_packages(env, self.work.path)
            self.processes.wait_for_starting()
        run.at_bind, run.began = self.meters.bind(), time.monotonic()
        self.processes.start(run, run.with_reports(env))
        run.start_streams()
        self.processes.give_late_output(run)
        self.state = "running"

    def listen(self, run):
        if self.tunnel is None:
            # Imported here: few programs may open connections.
            from .tunnel import Tunnel

            self.tunnel = Tunnel(self.channel)
        try:
            self.tunnel.listen(run.connect)
        except WorkError as error:
            run.refused = error

    def on_reaped(self, pid, status, used):
        run = self.run
        if run is not None and run.runs_as(pid):
            run.end.seen(status, used, run.began)
            self.processes.on_end(run)
        else:
            if self.state == "ending" and not run.leaves:
                run.end.left += 1
            self.processes.on_reaped(pid)

    def end(self):
        """Called when the main process has ended. Kills the processes that it left, unless the session keeps
        them. The loop then empties its pipes.
        """
        run = self.run
        self.state = "ending"
        run.end.disk_full = run.end.disk_full or self.options.own_disk and self.work.is_full()
        if run.leaves:
            self.processes.spare_others(run)
        else:
            self.processes.kill_left(run, self.on_reaped)
        if self.tunnel is not None:
            self.tunnel.close()

    def finish(self):
        run = self.run
        if run.reports is not None:
            run.end_reports()
        value = run.end.value(run)
        if value is not None:
            self.channel.send("V", value)
        self.processes.finish(run)
        evidence = run.end.evidence(run, self.meters)
        self.channel.send("X", jsontext.encode(evidence))
        self.last_usage.ended(evidence)
        run.close()
        self.run, self.state = None, "idle"
        self.processes.prepare_after(run)
        if self.clean_after is not None:
            self.clean()

    # ---- between two executions of a cell

    def on_clean(self, payload):
        self.clean_after = _KEPT.get(payload)
        if self.clean_after is None:
            raise Closed("frame K with %r" % payload[:8])
        if self.state == "running":
            reap.kill_group(self.run.child.pid)  # Its end leads to X, and then to `clean`.
        elif self.state == "idle":
            self.clean()

    def clean(self):
        keep, self.clean_after = self.clean_after, None
        try:
            waiting = self.processes.clean(keep, self.on_reaped)
            self.answer(payload=bytes([waiting]))
            self.is_clean = True
            self.processes.prepare_postponed()
        except WorkError as error:
            self.answer(error)

    # ---- the loop

    def step(self):
        poller, handlers = select.poll(), {}

        def watch(fd, events, handler):
            poller.register(fd, events)
            handlers[fd] = handler

        channel, run = self.channel, self.run
        channel.watch(watch, self.on_frame)
        watch(self.wake, select.POLLIN, self.on_wake)
        timeout = self.processes.watch(watch, run)
        if run is not None and run.child is not None:
            run.watch(watch, channel.has_room())
            if self.tunnel is not None:
                self.tunnel.watch(watch, channel.has_room())
            due_ms = run.next_timer_ms()
            timeout = due_ms if timeout is None else min(timeout, timeout if due_ms is None else due_ms)
        for fd, events in poller.poll(timeout):
            if events & select.POLLNVAL or fd == channel.fd_in and events & select.POLLERR:
                raise Closed("poll %d on fd %d" % (events, fd))
            handlers[fd]()
        if run is not None and run is self.run and run.child is not None:
            run.fire_timers()
            if self.state == "running" and run.has_ended:
                self.end()
            if self.state == "ending" and run.end.is_drained(run.streams):
                self.finish()

    def watch_at_rest(self, watch):
        """Watches background processes while no worker is attached. Returns the ms until the next look."""
        if self.processes.late is None:
            return None
        watch(self.wake, select.POLLIN, self.on_wake)
        return self.processes.late.watch(watch)

    def on_wake(self):
        read_some(self.wake)
        reap.reap(self.on_reaped)
