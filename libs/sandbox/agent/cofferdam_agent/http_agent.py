"""The agent of a container that is reached over HTTP (http_pod.py), and the bytes between it and its worker.

    free ──attach──▶ attached ──release (clean)──▶ released ──attach──▶ attached …      agent ends ──▶ over
                       └─ sent nothing yet: a worker with a higher fence takes over
"""
import hmac
import os
import select
import socket
import subprocess
import sys
import threading
import time

from .cell import Cell
from .channel import HEAD, TO_HOST_MAX
from .options import Options
from .uids import are_two, FilesOfProgram
from .workdir import WorkError

FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# A worker asks at least every 20 s. Four lost answers in a row mean that it is dead.
LIFE_SECONDS = 90
# Bytes that may wait here for the worker's next request; one answer holds them all. Beyond that, the agent
# queues its output itself.
HELD_MAX = 1024 * 1024
SEND_SECONDS = 10


class Refused(Exception):
    def __init__(self, status, reason):
        Exception.__init__(self, reason)
        self.status, self.reason = status, reason


class Pod:
    """One agent for the life of the container, and the channel of the worker that may use it."""

    def __init__(self, own_options):
        self.own_options = own_options
        self.boot = os.urandom(16).hex()
        self.change = threading.Condition()
        self.sending = threading.Lock()
        self.agent = self.pipe = self.cell = self.channel = self.released = None
        self.fence = -1
        self.is_over = False
        self.heard = time.monotonic()
        self.reset()

    def reset(self, held=b""):
        self.held, self.base, self.taken = bytearray(held), 0, 0

    def attach(self, asked):
        channel, fence, options = asked["channel"], asked["fence"], asked["options"]
        if not isinstance(channel, str) or len(channel) < 32 or not all(isinstance(option, str) for option in options):
            raise Refused(400, "not a worker's")
        # Wait until the last worker's requests are complete.
        with self.sending, self.change:
            if asked.get("boot") not in (None, self.boot):
                raise Refused(410, "another incarnation")
            self.heard = time.monotonic()
            if self.agent is None:
                self.start(options)
            elif self.holds(channel) and self.taken == 0 and self.base == 0:
                return {"pod": self.boot, "fresh": self.is_fresh}  # Its first answer was lost.
            else:
                # A higher fence takes over only from a worker that has sent nothing: it died or was replaced.
                if fence < self.fence or (self.channel is not None and (self.taken > 0 or fence == self.fence)):
                    raise Refused(409, "another holds it")
                if self.agent.poll() is not None:
                    raise Refused(410, "over")
                self.reset(self.ready)
                self.is_fresh = False
            self.channel, self.fence = channel, fence
            return {"pod": self.boot, "fresh": self.is_fresh}

    def start(self, options):
        parsed = Options(self.own_options + options)
        two_uids = are_two(parsed)
        os.makedirs(parsed.work, 0o755, exist_ok=True)
        self.as_program = lambda: FilesOfProgram(parsed, two_uids)
        if "--cell" in options:
            # The whole machine belongs to the session, so `owns_mounts` holds even if this process is not PID
            # 1.
            with self.as_program():
                self.cell = Cell(parsed, os.path.realpath(parsed.work), two_uids, owns_mounts=True)
        mine, agents = socket.socketpair()
        command = [sys.executable, "-I", "-S", os.path.join(FOLDER, "agent.py"), *self.own_options, *options]
        self.agent = subprocess.Popen(command, stdin=agents, stdout=agents)
        agents.close()
        mine.setblocking(False)
        self.pipe, self.ready, self.is_fresh = mine, b"", True
        threading.Thread(target=self.read, args=(mine,), daemon=True).start()

    def read(self, pipe):
        first = bytearray()
        while True:
            select.select([pipe], [], [])
            try:
                data = pipe.recv(TO_HOST_MAX)
            except OSError:
                data = b""
            with self.change:
                if not self.ready:
                    # The agent sends R once. Workers that attach later get this copy.
                    first += data
                    if len(first) >= HEAD.size and len(first) >= HEAD.size + HEAD.unpack_from(first)[1]:
                        self.ready = bytes(first[: HEAD.size + HEAD.unpack_from(first)[1]])
                self.held += data
                self.is_over = not data
                self.change.notify_all()
                self.change.wait_for(lambda: len(self.held) < HELD_MAX)
            if not data:
                return

    def holds(self, channel):
        return self.channel is not None and hmac.compare_digest(self.channel.encode(), channel.encode())

    def check(self, channel):
        if not self.holds(channel):
            raise Refused(410, "not the channel")
        self.heard = time.monotonic()

    def send(self, channel, at, body):
        with self.sending:
            with self.change:
                self.check(channel)
                if at > self.taken:
                    raise Refused(409, "bytes are missing")
                rest = memoryview(body)[self.taken - at :]
            sent = 0
            try:
                # An agent that is busy gets the rest with the next request.
                while sent < len(rest) and select.select([], [self.pipe], [], SEND_SECONDS)[1]:
                    sent += self.pipe.send(rest[sent:])
            except OSError:
                raise Refused(410, "over")
            self.taken += sent
            return {"pod": self.boot, "at": self.taken}

    def forget(self, at):
        if not self.base <= at <= self.base + len(self.held):
            raise Refused(409, "no such byte")
        del self.held[: at - self.base]
        self.base = at
        self.change.notify_all()

    def receive(self, channel, at, seconds):
        with self.change:
            self.check(channel)
            self.forget(at)
            self.change.wait_for(lambda: self.held or self.is_over or not self.holds(channel), timeout=seconds)
            self.check(channel)
            if not self.held and self.is_over:
                raise Refused(410, "over")
            return bytes(self.held)

    def release(self, channel, at, keep):
        with self.change:
            if self.channel is None and channel == self.released:
                return {"pod": self.boot}  # The first answer was lost.
            self.check(channel)
            self.forget(at)
            if self.held or self.is_over or self.cell is None:
                raise Refused(409, "the turn is not over")
            try:
                # The agent has proven that no process is left, and has wiped the folders it knows. This wipes
                # every writable folder of the container.
                with self.as_program():
                    self.cell.clean(keep)
            except WorkError as error:
                raise Refused(409, "not clean: %s" % error)
            self.channel, self.released = None, channel
            return {"pod": self.boot}

    def watch(self):
        """Ends this process, and everything that runs, when the worker is gone."""
        while True:
            time.sleep(1)
            with self.change:
                is_left = self.channel is not None and time.monotonic() - self.heard > LIFE_SECONDS
                if is_left and self.taken == 0 and not self.is_fresh:
                    # The worker attached to an idle container and sent nothing, so the container stays idle.
                    self.channel = is_left = None
            if is_left:
                self.agent.kill()
                os._exit(1)
