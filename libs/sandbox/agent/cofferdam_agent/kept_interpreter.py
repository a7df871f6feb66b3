"""One interpreter that a session keeps between runs: its messages, and how it is stopped."""
import _signal as signal
import os
import time

VALUE_MAX = 32 * 1024
STOP_S = 1.0
# Linux include/uapi/asm-generic/siginfo.h; `os` has it from Python 3.9 on.
CLD_STOPPED = 5


class KeptInterpreter:
    def __init__(self, child, family):
        self.child = child
        self.family = family
        self.pid = child.pid
        self._unread = b""
        self.broken = False
        # The current run. If the interpreter ends with the run, the run closes the pipes.
        self.run = None

    def begin(self, message):
        self._unread = b""
        _signal(self.pid, signal.SIGCONT)
        self.child.send(message)

    def on_message(self, data):
        """The exit code of a finished run; None before. Raises ValueError for an unknown message."""
        self._unread += data
        if self._unread[:1] == b"R":
            # An interpreter that was started for this run sends its ready line first.
            line, end, after = self._unread.partition(b"\n")
            if not end:
                return None
            self._unread = after
        rest = self._after_value()
        if rest is None or not rest:
            return None
        if rest[:1] != b"D" or len(rest) > 5:
            raise ValueError("not a message of a session")
        if not rest.endswith(b"\n"):
            return None
        code = int(rest[1:-1])
        if not 0 <= code <= 255:
            raise ValueError("not an exit code")
        return code

    def _after_value(self):
        """The bytes after the value; None while the value is not complete."""
        if self._unread[:1] != b"V":
            return self._unread
        size = int.from_bytes(self._unread[1:5], "little")
        if size > VALUE_MAX:
            raise ValueError("a value of %d bytes" % size)
        return None if len(self._unread) < 5 + size else self._unread[5 + size :]

    def value(self):
        if self._unread[:1] != b"V":
            return None
        return self._unread[5 : 5 + int.from_bytes(self._unread[1:5], "little")] or None

    def stop(self):
        """Stops all threads of the interpreter; False when it is dead, or does not stop."""
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
        """Kills its children. The interpreter is stopped, and only it can reap them. So if all children are
        dead and the list did not change, no more can appear."""
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
    """The children of all threads of the process; None if they cannot be read."""
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
