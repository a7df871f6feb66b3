"""The agent's start: what this process must be before anything of a program runs, then the loop of agent.py."""
import _signal as signal  # `signal` itself pulls in enum: 2 ms of a start of 15
import os
import sys
import time

from . import PROTOCOL, jsontext, linux, meters, reap, spawn, uids
from .agent import Agent
from .channel import Channel, Closed, connect
from .options import Options


class Ready:
    """R: the languages whose interpreters wait, or why none does. Said once, and again to every worker that comes later."""

    def __init__(self, channel, cgroup, split, started):
        self.channel = channel
        self.cgroup = cgroup
        self.split = split
        self.started = started
        self.sent = False
        self.words = b""

    def say(self, languages):
        if self.sent:
            return
        self.sent = True
        self.words = jsontext.encode(
            {
                "protocol": PROTOCOL,
                "agentPython": spawn.version(),
                "languages": languages,
                "cgroup": self.cgroup,
                "uidSplit": self.split,
                "ownsPids": os.getpid() == 1,
                "kernel": os.uname().release[:128],
                "features": ["connections", "reports", "backups", "links"],
                "bootMs": int((time.monotonic() - self.started) * 1000),
            }
        )
        self.channel.send("R", self.words)

    def say_failed(self, message):
        if not self.sent:
            self.sent = True
            said = {"protocol": PROTOCOL, "error": "interpreter_not_ready", "message": message}
            self.channel.send("R", jsontext.encode(said))

    def attach(self, channel):
        self.channel = channel
        channel.send("R", self.words)


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
    _protect()
    fds = _take_channel(options.socket)
    code = 0
    try:
        channel = Channel(*fds)
        split = uids.are_two(options)
        if split:
            linux.set_file_ids(options.uid, options.gid)
        ready = Ready(channel, counters.version, split, started)
        _serve(Agent(options, split, channel, counters, ready, waiting), door)
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


def _serve(agent, door):
    while True:
        try:
            agent.step()
        except Closed:
            # A worker that goes within a turn takes the program, and this sandbox, with it.
            if door is None or not agent.rests:
                raise
            connection = door.next().detach()
            agent.attach(Channel(connection, connection))


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


def _protect():
    linux.prctl(linux.PR_SET_DUMPABLE, 0)
    if os.getpid() != 1:
        linux.prctl(linux.PR_SET_CHILD_SUBREAPER, 1)
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGPIPE", "SIGTSTP"):
        signal.signal(getattr(signal, name), signal.SIG_IGN)


def _take_channel(path):
    """Descriptors for Channel. They move away from 0 and 1, so that nothing that prints by accident can forge a frame."""
    if path is None:
        fds = os.dup(0), os.dup(1)
    else:
        opened = connect(path)
        fds = opened, opened, os.dup(0)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    return fds
