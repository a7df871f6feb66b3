"""The agent's loop.

    start ──(runner waits in its gate)── R ── idle
    idle ──J── binding ──F*── G ── running ──main process ended── ending ──pipes empty── X ── idle
    idle ──C── Z (with F* before it)          any state ──P── A          any error, end of input ── kill all, exit
    idle, proven clean, with a door: end of input ── the door's next worker ── R ── idle

One program at a time. Everything is driven by one poll; only killing leftovers blocks, for at most two seconds.
"""
import _signal as signal  # `signal` itself pulls in enum: 2 ms of a start of 15
import os
import select
import struct
import sys
import time

from . import PROTOCOL, jsontext, linux, meters, reap, spawn
from .channel import Channel, Closed, TO_HOST_MAX, connect, read_some
from .options import Options
from .run import Run
from .warm import Warm
from .workdir import IO_ERROR, NO_LOOPBACK, OK, REFUSED, WorkError, Workdir

# Output waits here for a slow worker before the program's pipes are left unread: four frames.
PENDING_MAX = 4 * TO_HOST_MAX
UNKNOWN = 2**64 - 1


class Agent:
    def __init__(self, options, channel, counters, started, waiting):
        self.options = options
        self.channel = channel
        self.split = os.geteuid() == 0 and _can_setuid()
        if self.split:
            linux.set_file_ids(options.uid, options.gid)
        self.work = Workdir(options.work)
        self.meters = counters
        if options.own_disk:
            counters.used_bytes = self.work.used_bytes
        self.tunnel = None
        self.state = "hold" if options.hold else "idle"
        self.warm = Warm(options, self.split, self.work.path, waiting)
        self.cell = None
        self.run = None
        self.clean_after = None
        # What a session keeps, by the family of its language, and who runs programs in it.
        self.kept = {}
        self.kept_runs = None
        # The language whose next interpreter was not made to wait beside these.
        self.put_off = None
        # A kill(-1) that spares what waits: only PID 1 may take the program's uid for a moment without danger.
        can_spare = self.split and os.getpid() == 1 and self.warm.has_forks
        self.kill_all = self.kill_all_of_program if can_spare else None
        self.last = (0, 0, None, None, 0, None, None)
        self.ready_sent = False
        # What R said, for a worker that comes later.
        self.ready_words = b""
        # Proven clean, and nothing was asked since.
        self.rests = False
        self.started = started
        self.wake, wake_write = os.pipe()
        for fd in (self.wake, wake_write):
            os.set_blocking(fd, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        if self.state == "idle":
            self.begin()

    # ---- what waits

    def begin(self):
        if self.options.cell:
            # Before anything starts: a cell is compared with what it is now. Imported here, for cells alone.
            from .cell import Cell

            self.cell = Cell(self.options, self.work.path, self.split)
        self.prepare(self.options.language)

    def prepare(self, language):
        if not self.warm.prepare(language):
            self.ready({})

    def on_warm_told(self):
        told = self.warm.on_told()
        if told:
            if not self.options.cell:
                self.meters.rest(self.warm.child.pid)
            self.ready({self.warm.child.language: self.warm.version})
        elif told is None and not self.ready_sent:
            self.ready_sent = True
            said = {"protocol": PROTOCOL, "error": "interpreter_not_ready", "message": self.warm.failure}
            self.channel.send("R", jsontext.encode(said))

    def ready(self, languages):
        if self.ready_sent:
            return
        self.ready_sent = True
        self.ready_words = jsontext.encode(
            {
                "protocol": PROTOCOL,
                "agentPython": spawn.version(),
                "languages": languages,
                "cgroup": self.meters.version,
                "uidSplit": self.split,
                "ownsPids": os.getpid() == 1,
                "features": ["connections", "reports", "backups"],
                "bootMs": int((time.monotonic() - self.started) * 1000),
            }
        )
        self.channel.send("R", self.ready_words)

    def attach(self, channel):
        """Another worker goes on where the last one left."""
        for fd in {self.channel.fd_in, self.channel.fd_out}:
            os.close(fd)
        self.channel, self.tunnel = channel, None
        self.channel.send("R", self.ready_words)

    # ---- frames from the worker

    def on_frame(self, kind, payload):
        self.rests = False
        if self.state == "hold":
            if kind != "G":
                raise Closed("frame %s while held" % kind)
            self.state = "idle"
            self.begin()
        elif kind == "J" and self.state == "idle":
            self.run = Run(jsontext.decode(payload.decode("utf-8")))
            self.state = "binding"
        elif kind == "F" and self.state == "binding":
            try:
                self.run.file_chunk(self.work, payload)
            except WorkError as error:
                self.run.refuse(error)
        elif kind == "G" and self.state == "binding":
            self.bind()
        elif kind == "I" and self.run is not None:
            self.run.stdin_chunk(payload)
            if self.run.session is not None:
                self.kept_runs.begin()
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

            back_up(self.work, self.send_and_drain, payload)
        elif kind == "K" and self.state in ("idle", "running", "ending"):
            self.on_clean(payload)
        elif kind == "P":
            self.send_usage()
        else:
            raise Closed("frame %s while %s" % (kind, self.state))

    def collect(self, payload):
        # Imported here: few programs leave files that somebody asks for.
        from .collect import collect

        try:
            collect(self.work, self.send_and_drain, payload)
            self.channel.send("Z", bytes([OK]))
        except WorkError as error:
            self.send_refusal(error)

    def send_and_drain(self, kind, data):
        self.channel.send(kind, data)
        while self.channel.pending > PENDING_MAX:
            poller = select.poll()
            poller.register(self.channel.fd_out, select.POLLOUT)
            if self.channel.life is not None:
                poller.register(self.channel.life, select.POLLIN)
            for fd, _ in poller.poll():
                if fd == self.channel.life:
                    self.channel.on_life()
            self.channel.flush()

    def send_refusal(self, error):
        self.channel.send("Z", bytes([error.status]) + str(error).encode("utf-8", "replace")[:512])

    def send_usage(self):
        """Of the running program so far, else of the last one."""
        run = self.run
        if run is not None and run.at_bind is not None and run.child is not None:
            wall = int((time.monotonic() - run.began) * 1e6)
            self.last = _figures(self.meters.since(run.at_bind, run.child.pid), wall)
        self.channel.send("A", struct.pack("<7Q", *(UNKNOWN if v is None else v for v in self.last)))

    # ---- the program

    def bind(self):
        run = self.run
        if run.refused is None:
            try:
                run.finish_files(self.work)
            except WorkError as error:
                run.refuse(error)
        if run.refused is None and run.connect is not None:
            self.listen(run)
        if run.refused is not None or run.only_files:
            self.run, self.state = None, "idle"
            if run.refused is not None:
                self.send_refusal(run.refused)
            else:
                self.channel.send("Z", bytes([OK]))
            return
        env = dict(self.options.env)
        env.update(run.env)
        if self.options.cell:
            env = spawn.with_packages(env, self.work.path)
            self.warm.settle()
        run.at_bind, run.began = self.meters.bind(), time.monotonic()
        if run.report:
            self.listen_for_reports(run)
            env = spawn.with_commands(env, run)
        if run.keep:
            self.bind_kept(run, env)
        elif run.language in ("python", "javascript", "typescript"):
            run.child = self.warm.take(run, run.env) or self.warm.start(run.language, run.entry, env)
            self.meters.exclude(run.at_bind, run.child.pid, self.options.cell)
            self.tell(run.child, spawn.bind_message(run, env))
        else:
            self.warm.release()
            has_input = run.stdin_size is not None
            run.child = spawn.spawn(
                run.command(env), env, self.work.path, self.options, self.split, False, has_input, reports=run.report
            )
        run.start_streams()
        self.state = "running"

    def listen_for_reports(self, run):
        # Imported here: few programs report.
        from .reports import Reports

        run.reports = Reports(lambda report: self.channel.send("U", report))

    def on_report(self):
        told = read_some(self.run.child.control_out)
        if told:
            self.run.reports.keep(told)
        elif told is not None:
            self.run.reports.closed = True

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

    def bind_kept(self, run, env):
        if self.kept_runs is None:
            # Imported here: few sessions keep interpreters.
            from .kept_runs import KeptRuns

            self.kept_runs = KeptRuns(self, self.kept)
        self.kept_runs.bind(run, env)

    def tell(self, child, message):
        view = memoryview(message)
        try:
            while view:
                view = view[os.write(child.control_in, view) :]
        except OSError:
            pass  # The interpreter died while starting: its exit status says how.

    def on_reaped(self, pid, status, used):
        run = self.run
        if run is not None and run.child is not None and pid == run.child.pid and run.status is None:
            run.ended(status, used)
            if run.session is not None:
                self.kept.pop(run.session.family, None)
        elif not self.warm.on_reaped(pid):
            for kept in [kept for kept in self.kept.values() if kept.pid == pid]:
                self.kept_runs.end(kept)

    def end(self):
        """The main process ended: kill what it left, then empty its pipes."""
        run = self.run
        self.state = "ending"
        run.disk_full = run.disk_full or self.options.own_disk and self.work.is_full()
        if not run.alive:
            self.kill_group(run.child.pid)
        run.proven_gone = self.kill_others()
        if self.tunnel is not None:
            self.tunnel.close()
        run.drain_until = None if run.proven_gone else time.monotonic() + 0.25

    def kill_others(self):
        if self.kept:
            self.kept_runs.freeze()
        kept = self.warm.pids() | {kept.pid for kept in self.kept.values()}
        if not kept:
            return reap.kill_leftovers(self.options.confined, self.on_reaped)
        kill_all = None if self.kept or self.warm.is_exposed() else self.kill_all
        return reap.kill_others(kept, self.options.confined, kill_all, self.on_reaped)

    def kill_all_of_program(self):
        if self.cell is not None:
            self.cell.was_in_reach = True
        linux.kill_all_of(self.options.uid, self.options.gid)

    def kill_group(self, group):
        try:
            os.killpg(group, signal.SIGKILL)
        except OSError:
            pass

    def finish(self):
        run = self.run
        if run.reports is not None:
            run.end_reports()
        value = run.take_value()
        if value is not None:
            self.channel.send("V", value)
        if run.alive and run.session.family not in self.kept:
            run.lost_session()
        if run.session is not None and run.stdin_size is not None:
            try:
                self.work.remove(spawn.STDIN_NAME)  # A shell cannot without starting a program.
            except WorkError:
                pass
        evidence = run.evidence(self.meters)
        self.channel.send("X", jsontext.encode(evidence))
        self.last = _figures(evidence, evidence["wallUs"], evidence["maxRssKb"] * 1024)
        run.close()
        self.run, self.state = None, "idle"
        if self.clean_after is not None:
            self.clean()
        # Nothing is made to wait beside what may still run: the clean that follows proves it, or ends this cell.
        if self.options.cell and run.proven_gone and not (run.alive and run.language != "python"):
            self.prepare_beside_kept(run.language)

    def prepare_beside_kept(self, language):
        """What a session keeps is stopped, but a timer of its own can wake it (SIGCONT): nothing waits within its reach."""
        is_out_of_reach = self.split and self.warm.has_forks and language == "python"
        self.put_off = language if self.kept and not is_out_of_reach else None
        if self.put_off is None:
            self.prepare(language)

    # ---- between two executions of a cell

    def on_clean(self, payload):
        self.clean_after = {b"n": "none", b"f": "files", b"i": "interpreter"}.get(payload)
        if self.clean_after is None:
            raise Closed("frame K with %r" % payload[:8])
        if self.state == "running":
            self.kill_group(self.run.child.pid)  # Its end leads to X, and then here.
        elif self.state == "idle":
            self.clean()

    def clean(self):
        keep, self.clean_after = self.clean_after, None
        try:
            if self.cell is None:
                raise WorkError(REFUSED, "this agent keeps no cell")
            self.warm.settle()
            if keep != "interpreter":
                for kept in list(self.kept.values()):
                    self.kept_runs.end(kept)
            if not self.kill_others():
                raise WorkError(IO_ERROR, "processes are left")
            self.cell.clean(keep)
            self.channel.send("Z", bytes([OK]))
            self.rests = True
            if self.put_off is not None:
                self.prepare_beside_kept(self.put_off)
        except WorkError as error:
            self.send_refusal(error)

    # ---- the loop

    def step(self):
        poller, handlers = select.poll(), {}

        def watch(fd, events, handler):
            poller.register(fd, events)
            handlers[fd] = handler

        channel, run = self.channel, self.run
        if channel.fd_out == channel.fd_in:
            watch(channel.fd_in, select.POLLIN | (select.POLLOUT if channel.pending else 0), self.on_socket)
        else:
            watch(channel.fd_in, select.POLLIN, self.on_channel)
            if channel.pending:
                watch(channel.fd_out, select.POLLOUT, channel.flush)
        if channel.life is not None:
            watch(channel.life, select.POLLIN, channel.on_life)
        watch(self.wake, select.POLLIN, self.on_wake)
        if run is not None and run.session is not None and run.status is None and not run.session.broken:
            watch(run.child.control_out, select.POLLIN, self.kept_runs.on_told)
        starting = self.warm.pending()
        if starting is not None:
            watch(starting, select.POLLIN, self.on_warm_told)
        timeout = None
        if run is not None and run.child is not None:
            if channel.pending < PENDING_MAX:
                for stream in run.open_streams():
                    watch(stream.fd, select.POLLIN, lambda stream=stream: self.on_output(stream))
            if run.stdin_waits():
                watch(run.child.stdin, select.POLLOUT, run.write_stdin)
            if run.reports is not None and run.session is None and run.status is None and not run.reports.closed:
                if run.child.control_out is not None:
                    watch(run.child.control_out, select.POLLIN, self.on_report)
            if self.tunnel is not None:
                self.tunnel.watch(watch, channel.pending < PENDING_MAX)
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

    def on_socket(self):
        self.channel.flush()
        self.on_channel()

    def on_channel(self):
        for kind, payload in self.channel.receive():
            self.on_frame(kind, payload)

    def on_wake(self):
        read_some(self.wake)
        reap.reap(self.on_reaped)

    def on_output(self, stream):
        # A few reads per turn: enough to drain a flood at full speed, few enough to hear a soft stop.
        for _ in range(8):
            data = read_some(stream.fd)
            if data is None:
                return
            if data == b"":
                stream.eof()
                return
            keep = stream.take(data)
            if keep:
                self.channel.send(stream.kind, keep)
            if stream.dropped and not stream.told:
                stream.told = True
                self.channel.send("T", struct.pack("<BQ", ord(stream.kind), stream.dropped))
            if self.channel.pending >= PENDING_MAX:
                return


def _figures(seen, wall_us, peak=None):
    """What A says, in its order."""
    peak = seen["memPeak"] if peak is None or seen["memPeak"] is not None else peak
    return seen["cpuUs"], peak, seen["readBytes"], seen["writeBytes"], wall_us, seen["pidsPeak"], seen["diskBytes"]


def _can_setuid():
    """CAP_SETUID and CAP_SETGID (bits 7 and 6) are effective: else there is one uid for agent and program."""
    try:
        with open("/proc/self/status") as status:
            for line in status:
                if line.startswith("CapEff:"):
                    return int(line.split()[1], 16) & 0xC0 == 0xC0
    except (OSError, ValueError):
        pass
    return False


def _close_inherited(spared):
    """Whatever else the worker had open without close-on-exec must not reach a program."""
    try:
        open_now = [int(name) for name in os.listdir("/proc/self/fd")]
    except (OSError, ValueError):
        os.closerange(3, 65536)
        return
    for fd in open_now:
        if fd > 2 and fd != spared:
            try:
                os.close(fd)
            except OSError:
                pass


def main(argv, waiting=None, door=None):
    """`waiting`: pid and our five pipe ends of an interpreter that began with this process (cofferdam_start).

    `door`: where the next worker of a session comes in (see door.py).
    """
    started = time.monotonic()
    options = Options(argv)
    if waiting is None:
        _close_inherited(None if door is None else door.server.fileno())
    # Before: a process that is not dumpable cannot open its own counters.
    counters = meters.Meters(options.cgroup)
    linux.prctl(linux.PR_SET_DUMPABLE, 0)
    if os.getpid() != 1:
        linux.prctl(linux.PR_SET_CHILD_SUBREAPER, 1)
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGPIPE", "SIGTSTP"):
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    # The channel moves away from 0 and 1, so that nothing that prints by accident can forge a frame.
    if options.socket is None:
        fds = os.dup(0), os.dup(1)
    else:
        opened = connect(options.socket)
        fds = opened, opened, os.dup(0)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    code = 0
    try:
        agent = Agent(options, Channel(*fds), counters, started, waiting)
        while True:
            try:
                agent.step()
            except Closed:
                # A worker that goes within a turn takes the program, and this sandbox, with it.
                if door is None or not agent.rests:
                    raise
                connection = door.next().detach()
                agent.attach(Channel(connection, connection))
    except Closed:
        pass
    except BaseException:
        code = 70
        import traceback

        traceback.print_exc(file=sys.stderr)
    finally:
        try:
            reap.kill_leftovers(options.confined, lambda *_: None)
        finally:
            os._exit(code)
