"""Runs a program as a process: feeds its input, enforces deadlines, ends its whole process group."""
import os
import selectors
import signal
import subprocess
import sys
import threading
import time

# How long to read after the program's end, because processes that outlive it may keep its pipes open.
DRAIN_S = 0.2
READ = 65536
VALUE_MAX = 64 * 1024
HERE = os.path.dirname(os.path.abspath(__file__))


def argv_of(job, value_fd):
    program = job["program"]
    if program["type"] == "command":
        return program["argv"]
    entry, rest = program["entry"], program["argv"]
    return {
        "python": [sys.executable or "python3", os.path.join(HERE, "script.py"), str(value_fd), entry],
        "javascript": [job["node"], entry],
        "bash": ["bash", entry],
    }[program["language"]] + rest


def oom_kills():
    """Processes that the kernel killed for memory since boot; None if the kernel does not count them."""
    try:
        with open("/proc/vmstat") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("oom_kill "))
    except (OSError, StopIteration):
        return None


class Stops:
    """SIGINT at the soft deadline, SIGTERM after half of the grace time, SIGKILL at its end."""

    def __init__(self, soft_ms, grace_ms):
        now = time.monotonic()
        soft, grace = now + soft_ms / 1000, grace_ms / 1000
        self._left = [(soft, signal.SIGINT), (soft + grace / 2, signal.SIGTERM), (soft + grace, signal.SIGKILL)]
        self.stopped = self.killed = False

    def wait_s(self):
        return max(0, self._left[0][0] - time.monotonic()) if self._left else None

    def due(self, group):
        while self._left and self._left[0][0] <= time.monotonic():
            self.stopped, self.killed = True, len(self._left) == 1
            send(group, self._left.pop(0)[1])


def send(group, number):
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        pass


def run_child(job, work, out, err, live):
    """Runs the program and returns evidence of its end."""
    value_out, value_in = os.pipe()
    before, started = oom_kills(), time.monotonic()
    env = {"PATH": os.environ.get("PATH", os.defpath), **job["env"]}
    data = job["stdin"]
    try:
        process = subprocess.Popen(
            argv_of(job, value_in), cwd=work, env=env, stdin=subprocess.PIPE if data else subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, start_new_session=True, pass_fds=(value_in,),
        )  # fmt: skip
    except OSError as error:
        os.close(value_out)
        os.close(value_in)
        # The message that a shell would print.
        err.take(("%s: %s\n" % (job["program"].get("argv", ["?"])[0], error.strerror)).encode())
        return {"code": 127 if isinstance(error, FileNotFoundError) else 126}
    os.close(value_in)
    value, stops = pump(process, job, {process.stdout: out.take, process.stderr: err.take}, data, value_out, live)
    code = process.returncode
    after = oom_kills()
    return {
        "code": code if code >= 0 else None,
        "signal": None if code >= 0 else signal_name(-code),
        "value": value.decode("utf-8", "replace") if 0 < len(value) < VALUE_MAX else None,
        "stopped": stops.stopped,
        "killed": stops.killed,
        "oom": 0 if before is None or after is None or code != -signal.SIGKILL or stops.stopped else after - before,
        "wall_ms": (time.monotonic() - started) * 1000,
    }  # fmt: skip


def signal_name(number):
    try:
        return signal.Signals(number).name
    except ValueError:
        return "SIG%d" % number


def pump(process, job, takers, data, value_out, live):
    """Moves bytes until the program and its streams end. Returns its value and how it was stopped."""
    stops = Stops(job["soft_ms"], job["grace_ms"])
    ended_out, ended_in = os.pipe()
    waiter = threading.Thread(target=lambda: (process.wait(), os.close(ended_in)), daemon=True)
    waiter.start()
    value, left, ended_at = bytearray(), memoryview(data), None
    with selectors.DefaultSelector() as selector:
        for stream in takers:
            selector.register(stream, selectors.EVENT_READ)
        selector.register(value_out, selectors.EVENT_READ)
        selector.register(ended_out, selectors.EVENT_READ)
        if process.stdin is not None:
            os.set_blocking(process.stdin.fileno(), False)
            selector.register(process.stdin, selectors.EVENT_WRITE)
        open_streams = set(takers)
        while open_streams or ended_at is None:
            waits = (stops.wait_s(), live.wait_s()) if ended_at is None else (max(0, ended_at + DRAIN_S - time.monotonic()),)
            ready = selector.select(min((wait_s for wait_s in waits if wait_s is not None), default=None))
            if ended_at is None:
                live.say_due()
                stops.due(process.pid)
            elif not ready:
                break
            for key, _ in ready:
                if key.fileobj == ended_out:
                    ended_at = time.monotonic()
                    selector.unregister(ended_out)
                    send(process.pid, signal.SIGKILL)
                elif key.fileobj is process.stdin:
                    left = feed(process.stdin, left)
                    if not left:
                        selector.unregister(process.stdin)
                        close(process.stdin)
                else:
                    got = os.read(key.fd, READ)
                    if not got:
                        selector.unregister(key.fileobj)
                        open_streams.discard(key.fileobj)
                    elif key.fileobj == value_out:
                        value += got[: VALUE_MAX - len(value)]
                    else:
                        takers[key.fileobj](got)
    waiter.join()
    for fd in (value_out, ended_out):
        os.close(fd)
    for stream in (process.stdin, *takers):
        if stream is not None:
            close(stream)
    return bytes(value), stops


def feed(pipe, left):
    try:
        return left[os.write(pipe.fileno(), left[:READ]) :]
    except BlockingIOError:
        return left
    except OSError:
        return left[:0]  # It reads no more.


def close(stream):
    try:
        stream.close()
    except OSError:
        pass
