"""The agent's start: protects this process before any program runs, then enters agent.py's loop."""
import _signal as signal  # `signal` itself pulls in enum: 2 ms of a start of 15
import os
import sys
import time

from . import PROTOCOL, jsontext, linux, meters, reap, spawn, uids
from .agent import Agent
from .channel import Channel, Closed, connect
from .options import Options


class Ready:
    """Frame R: languages with waiting interpreters, or the failure. Repeated to each worker that attaches."""

    def __init__(self, channel, cgroup, split, started):
        self.channel = channel
        self.cgroup = cgroup
        self.split = split
        self.started = started
        self.sent = False
        self.payload = b""

    def say(self, languages):
        if self.sent:
            return
        self.sent = True
        self.payload = jsontext.encode(
            {
                "protocol": PROTOCOL,
                "agentPython": spawn.version(),
                "languages": languages,
                "cgroup": self.cgroup,
                "uidSplit": self.split,
                "ownsPids": os.getpid() == 1,
                "kernel": os.uname().release[:128],
                "features": ["connections", "reports", "backups", "links", "processes"],
                "bootMs": int((time.monotonic() - self.started) * 1000),
            }
        )
        self.channel.send("R", self.payload)

    def say_failed(self, message):
        if not self.sent:
            self.sent = True
            failure = {"protocol": PROTOCOL, "error": "interpreter_not_ready", "message": message}
            self.channel.send("R", jsontext.encode(failure))

    def attach(self, channel):
        self.channel = channel
        channel.send("R", self.payload)


def main(argv, started_with_us=None, listener=None):
    """`started_with_us`: pid and our five pipe ends of an interpreter that was forked from this process
    (cofferdam_start).

    `listener`: where the next worker of a session attaches (see reattach.py).
    """
    started = time.monotonic()
    options = Options(argv)
    if started_with_us is None:
        _close_inherited(None if listener is None else listener.server.fileno())
    # Open them first: a non-dumpable process cannot open its own counters.
    counters = meters.Meters(options.cgroup)
    _protect()
    fds = _take_channel(options.socket)
    code = 0
    try:
        channel = Channel(*fds)
        split = uids.are_two(options)
        if split:
            linux.set_file_ids(options.uid, options.gid)
        ready = Ready(channel, counters.version, split, started)
        _serve(Agent(options, split, channel, counters, ready, started_with_us), listener)
    except Closed:
        pass
    except BaseException:
        code = 70
        import traceback

        traceback.print_exc(file=sys.stderr)
        sys.stderr.flush()  # A buffer of its own before Python 3.9.
    finally:
        try:
            reap.kill_leftovers(options.confined, lambda *_: None)
        finally:
            os._exit(code)


def _serve(agent, listener):
    while True:
        try:
            agent.step()
        except Closed:
            # If a worker disappears during a turn, its program and this sandbox end too.
            if listener is None or not agent.is_clean:
                raise
            connection = listener.next_worker(agent.watch_at_rest).detach()
            agent.attach(Channel(connection, connection))


def _close_inherited(spared):
    """Closes the descriptors that the worker passed on, except 0 to 2 and `spared`. A program must not get
    them."""
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


def _protect():
    linux.prctl(linux.PR_SET_DUMPABLE, 0)
    if os.getpid() != 1:
        linux.prctl(linux.PR_SET_CHILD_SUBREAPER, 1)
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGPIPE", "SIGTSTP"):
        signal.signal(getattr(signal, name), signal.SIG_IGN)


def _take_channel(path):
    """Descriptors for Channel, moved away from 0 and 1, so that no accidental print can forge a frame."""
    if path is None:
        fds = os.dup(0), os.dup(1)
    else:
        opened = connect(path)
        fds = opened, opened, os.dup(0)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    return fds
