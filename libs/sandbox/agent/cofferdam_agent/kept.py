"""Interpreters that a session keeps between runs, stopped while nobody runs anything in them.

    start ──bind "s"──> waits ──run──> runs ──D──> SIGSTOP, its children killed ──run (SIGCONT)──> …
    any ──it dies, or breaks its word on the control pipe──> gone: that run ends with its exit, the next starts a fresh one

It says itself when a run is over and with which code: a session's program may lie about its own runs, and about nothing else.
"""
import _signal as signal
import os
import time

FAMILIES = {"python": "python", "javascript": "javascript", "typescript": "javascript", "bash": "bash"}
VALUE_MAX = 32 * 1024
STOP_S = 1.0
# Linux include/uapi/asm-generic/siginfo.h; `os` has it from Python 3.9 on.
CLD_STOPPED = 5


class Kept:
    def __init__(self, child, family):
        self.child = child
        self.family = family
        self.pid = child.pid
        self.told = b""
        self.broken = False
        # Who runs in it, and closes its pipes when it does not outlive that.
        self.run = None

    def begin(self, message):
        self.told = b""
        _signal(self.pid, signal.SIGCONT)
        self.child.tell(message)

    def hear(self, data):
        """The exit code when the run is over, None while it is not; raises ValueError when it talks nonsense."""
        self.told += data
        if self.told[:1] == b"R":
            # The ready line of an interpreter that did not wait.
            line, end, after = self.told.partition(b"\n")
            if not end:
                return None
            self.told = after
        rest = self.rest()
        if rest is None or not rest:
            return None
        if rest[:1] != b"D" or len(rest) > 5:
            raise ValueError("not a word of the session")
        if not rest.endswith(b"\n"):
            return None
        code = int(rest[1:-1])
        if not 0 <= code <= 255:
            raise ValueError("not an exit code")
        return code

    def rest(self):
        """What follows the value; None while the value is not complete."""
        if self.told[:1] != b"V":
            return self.told
        size = int.from_bytes(self.told[1:5], "little")
        if size > VALUE_MAX:
            raise ValueError("a value of %d bytes" % size)
        return None if len(self.told) < 5 + size else self.told[5 + size :]

    def value(self):
        if self.told[:1] != b"V":
            return None
        return self.told[5 : 5 + int.from_bytes(self.told[1:5], "little")] or None

    def stop(self):
        """Stops all its threads; False when it is dead, or does not stop."""
        until = time.monotonic() + STOP_S
        _signal(self.pid, signal.SIGSTOP)
        while True:
            try:
                seen = os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return False
            if seen is not None:
                return seen.si_code == CLD_STOPPED
            if time.monotonic() > until:
                return False
            time.sleep(0.0001)

    def kill_children(self, until):
        """It is stopped, so nobody but it could wait for its children: a list of only dead ones that stays the same is final."""
        before = None
        while time.monotonic() < until:
            children = _children_of(self.pid)
            if children is None:
                return False
            alive = [pid for pid in children if not _is_dead(pid)]
            if not alive and children == before:
                return True
            for pid in alive:
                _signal(pid, signal.SIGKILL)
            before = children
            if alive:
                time.sleep(0.0003)
        return False


def _children_of(pid):
    """Of all its threads; None when it cannot be read."""
    found = set()
    try:
        for thread in os.listdir("/proc/%d/task" % pid):
            with open("/proc/%d/task/%s/children" % (pid, thread)) as listing:
                found.update(map(int, listing.read().split()))
    except (OSError, ValueError):
        return None
    return found


def _is_dead(pid):
    try:
        with open("/proc/%d/stat" % pid, "rb") as line:
            return line.read().rpartition(b")")[2].split()[0] in (b"Z", b"X")
    except (OSError, IndexError):
        return True


def _signal(pid, number):
    try:
        os.kill(pid, number)
    except OSError:
        pass
