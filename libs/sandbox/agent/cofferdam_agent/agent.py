"""The agent's loop.

    start ──(runner waits in its gate)── R ── idle
    idle ──J── binding ──F*── G ── running ──main process ended── ending ──pipes empty── X ── idle
    idle ──C── Z (with F* before it)          any state ──P── A          any error, end of input ── kill all, exit
    idle, proven clean, with a door: end of input ── the door's next worker ── R ── idle

One program at a time. Everything is driven by one poll; only killing leftovers blocks, for at most two seconds.
"""
import os
import select
import struct
import time

from . import jsontext, reap, spawn
from .channel import Closed, read_some
from .run import Run, usage_of
from .surroundings import Surroundings
from .workdir import NO_LOOPBACK, OK, WorkError, Workdir

UNKNOWN = 2**64 - 1


class Agent:
    """`ready` says R on the same channel."""

    def __init__(self, options, split, channel, meters, ready, waiting):
        self.options = options
        self.channel = channel
        self.work = Workdir(options.work)
        self.meters = meters
        if options.own_disk:
            meters.used_bytes = self.work.used_bytes
        self.ready = ready
        self.tunnel = None
        self.state = "hold" if options.hold else "idle"
        self.surroundings = Surroundings(options, self.work, split, meters, ready, waiting)
        self.run = None
        self.clean_after = None
        self.last = (0, 0, None, None, 0, None, None)
        # Proven clean, and nothing was asked since.
        self.rests = False
        self.wake = reap.open_wake()
        if self.state == "idle":
            self.surroundings.begin()

    def attach(self, channel):
        """Another worker goes on where the last one left."""
        for fd in {self.channel.fd_in, self.channel.fd_out}:
            os.close(fd)
        self.channel, self.tunnel = channel, None
        self.ready.attach(channel)

    # ---- frames from the worker

    def on_frame(self, kind, payload):
        self.rests = False
        if self.state == "hold":
            if kind != "G":
                raise Closed("frame %s while held" % kind)
            self.state = "idle"
            self.surroundings.begin()
        elif kind == "J" and self.state == "idle":
            self.run = Run(self.channel, self.work, jsontext.decode(payload.decode("utf-8")))
            self.state = "binding"
        elif kind == "F" and self.state == "binding":
            self.run.take_file(payload)
        elif kind == "G" and self.state == "binding":
            self.bind()
        elif kind == "I" and self.run is not None:
            self.run.take_stdin(payload)
            if self.state == "running":
                self.surroundings.on_stdin(self.run)
        elif kind == "I":
            pass  # Input that was on its way when the program ended.
        elif kind in "DWQ" and self.tunnel is not None:
            self.tunnel.on_frame(kind, payload)
        elif kind == "S":
            if self.state == "running":
                self.run.soft_stop(struct.unpack("<I", payload)[0] / 1000)
        elif kind == "C" and self.state == "idle":
            self.collect(payload)
        elif kind == "B" and self.state != "binding":
            # Imported here: few programs leave checkpoints.
            from .backup import back_up

            back_up(self.work, self.channel.send_and_drain, payload)
        elif kind == "K" and self.state in ("idle", "running", "ending"):
            self.on_clean(payload)
        elif kind == "P":
            self.send_usage()
        else:
            raise Closed("frame %s while %s" % (kind, self.state))

    def collect(self, payload):
        # Imported here: few programs leave files that somebody asks for.
        from .collect import collect

        began, refused = time.process_time(), None
        try:
            collect(self.work, self.channel.send_and_drain, payload)
        except WorkError as error:
            refused = error
        # The program made the files: what it costs to find and read them is its CPU time too.
        if self.last[0] is not None:
            self.last = (self.last[0] + int((time.process_time() - began) * 1e6),) + self.last[1:]
        self.answer(refused)

    def answer(self, refused=None, said=b""):
        if refused is not None:
            said = str(refused).encode("utf-8", "replace")[:512]
        self.channel.send("Z", bytes([OK if refused is None else refused.status]) + said)

    def send_usage(self):
        """Of the running program so far, else of the last one."""
        if self.run is not None:
            self.last = self.run.usage(self.meters) or self.last
        self.channel.send("A", struct.pack("<7Q", *(UNKNOWN if v is None else v for v in self.last)))

    # ---- the program

    def bind(self):
        run = self.run
        run.finish_files()
        if run.refused is None and run.connect is not None:
            self.listen(run)
        if run.refused is not None or run.only_files:
            self.run, self.state = None, "idle"
            self.answer(run.refused)
            return
        env = dict(self.options.env)
        env.update(run.env)
        if self.options.cell:
            env = spawn.with_packages(env, self.work.path)
            self.surroundings.settle()
        run.at_bind, run.began = self.meters.bind(), time.monotonic()
        if run.report:
            run.listen_for_reports()
            env = spawn.with_commands(env, run)
        self.surroundings.start(run, env)
        run.start_streams()
        self.state = "running"

    def listen(self, run):
        if self.tunnel is None:
            # Imported here: few programs connect.
            from .tunnel import Tunnel

            self.tunnel = Tunnel(self.channel)
        try:
            self.tunnel.listen(run.connect)
        except OSError as error:
            said = "cannot listen on 127.0.0.1:%d: %s" % (run.connect, error.strerror or error)
            run.refuse(WorkError(NO_LOOPBACK, said))

    def on_reaped(self, pid, status, used):
        if self.run is not None and self.run.runs_as(pid):
            self.run.ended(status, used)
            self.surroundings.on_end(self.run)
        else:
            if self.state == "ending":
                self.run.left += 1
            self.surroundings.on_reaped(pid)

    def end(self):
        """The main process ended: kill what it left, then empty its pipes."""
        run = self.run
        self.state = "ending"
        run.disk_full = run.disk_full or self.options.own_disk and self.work.is_full()
        if not run.alive:
            reap.kill_group(run.child.pid)
        run.proven_gone = self.surroundings.kill_others(self.on_reaped)
        # Where no cgroup counts refusals: what it left was as many as it may have, itself perhaps included.
        most = self.options.rlimits.get("nproc")
        run.at_limit = most is not None and run.left + 1 >= most
        if self.tunnel is not None:
            self.tunnel.close()
        run.drain_until = None if run.proven_gone else time.monotonic() + 0.25

    def finish(self):
        run = self.run
        if run.reports is not None:
            run.end_reports()
        value = run.take_value()
        if value is not None:
            self.channel.send("V", value)
        self.surroundings.finish(run)
        evidence = run.evidence(self.meters)
        self.channel.send("X", jsontext.encode(evidence))
        self.last = usage_of(evidence)
        run.close()
        self.run, self.state = None, "idle"
        self.surroundings.prepare_after(run)
        if self.clean_after is not None:
            self.clean()

    # ---- between two executions of a cell

    def on_clean(self, payload):
        self.clean_after = {b"n": "none", b"f": "files", b"i": "interpreter"}.get(payload)
        if self.clean_after is None:
            raise Closed("frame K with %r" % payload[:8])
        if self.state == "running":
            reap.kill_group(self.run.child.pid)  # Its end leads to X, and then here.
        elif self.state == "idle":
            self.clean()

    def clean(self):
        keep, self.clean_after = self.clean_after, None
        try:
            waiting = self.surroundings.clean(keep, self.on_reaped)
            self.answer(said=bytes([waiting]))
            self.rests = True
            self.surroundings.prepare_put_off()
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
        self.surroundings.watch(watch, run)
        timeout = None
        if run is not None and run.child is not None:
            run.watch(watch, channel.has_room())
            if self.tunnel is not None:
                self.tunnel.watch(watch, channel.has_room())
            timeout = run.next_timer_ms()
        for fd, events in poller.poll(timeout):
            if fd == channel.fd_in and events & (select.POLLERR | select.POLLNVAL):
                raise Closed("poll %d" % events)
            if events & select.POLLNVAL:
                raise Closed("poll on fd %d" % fd)
            handlers[fd]()
        if run is not None and run is self.run and run.child is not None:
            run.fire_timers()
            if self.state == "running" and run.status is not None:
                self.end()
            if self.state == "ending" and run.is_drained():
                self.finish()

    def on_wake(self):
        read_some(self.wake)
        reap.reap(self.on_reaped)
