"""Runs programs in the session's interpreter, which keeps their variables. Threads and processes of a program
may outlive it.
"""
import linecache
import os
import signal
import sys
import tempfile
import threading
import time
import traceback
import types

from . import script

DRAIN_S = 0.2


class Kept:
    def __init__(self):
        self._module = types.ModuleType("__main__")
        self._number = 0

    def run(self, job, work, out, err, live):
        """Runs the program and returns evidence of its end."""
        self._number += 1
        started, told, stops = time.monotonic(), [], []
        with Streams(out, err, job["stdin"], live), Place(self._module, work, job["env"]), Alarm(job, stops):
            with open(job["program"]["entry"], "rb") as file:
                source = file.read()
            os.unlink(job["program"]["entry"])
            sys.argv = [job["program"]["entry"]] + job["program"]["argv"]
            code = self._execute(source, told.append)
        value = script.encode(told[-1]) if told else None
        found = "kept" if self._number > 1 else "none"
        end = {"code": code, "interpreter": found, "signal": None, "value": value, "stopped": bool(stops), "oom": 0}
        return {**end, "wall_ms": (time.monotonic() - started) * 1000}

    def _execute(self, source, tell):
        name = "<run %d>" % self._number
        text = source.decode("utf-8", "replace")
        linecache.cache[name] = (len(text), None, text.splitlines(True), name)
        try:
            code, names = script.compiled(source, name, tell)
            self._module.__dict__.update(names)
            exec(code, self._module.__dict__)
            return 0
        except SystemExit as end:
            if end.code is None or isinstance(end.code, int):
                return (end.code or 0) & 255
            print(end.code, file=sys.stderr)
            return 1
        except BaseException as error:
            ours = script.without(__file__, error.__traceback__)
            traceback.print_exception(type(error), error, ours)
            return 130 if isinstance(error, KeyboardInterrupt) else 1


class Streams:
    """Gives the program its own descriptors 0 to 2 and stream objects; later restores the old ones."""

    def __init__(self, out, err, data, live):
        self._captures, self._data, self._live = (out, err), data, live

    def __enter__(self):
        self._objects = sys.stdin, sys.stdout, sys.stderr
        for stream in self._objects[1:]:
            stream.flush()
        self._fds = [os.dup(fd) for fd in (0, 1, 2)]
        self._live.through(self._fds[1])
        self._threads = []
        with tempfile.TemporaryFile() as file:
            file.write(self._data)
            file.seek(0)
            os.dup2(file.fileno(), 0)
        for fd, capture in zip((1, 2), self._captures):
            read, write = os.pipe()
            os.dup2(write, fd)
            os.close(write)
            thread = threading.Thread(target=lambda read=read, capture=capture: (capture.drain(read), os.close(read)), daemon=True)
            thread.start()
            self._threads.append(thread)
        sys.stdin = open(0, closefd=False)
        sys.stdout = open(1, "w", closefd=False)
        sys.stderr = open(2, "w", buffering=1, closefd=False)

    def __exit__(self, *_):
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError, AttributeError):
                pass
        sys.stdin, sys.stdout, sys.stderr = self._objects
        self._live.end()
        for fd, saved in enumerate(self._fds):
            os.dup2(saved, fd)
            os.close(saved)
        for thread in self._threads:
            thread.join(DRAIN_S)


class Place:
    """Sets the program's module, work directory and environment variables."""

    def __init__(self, module, work, env):
        self._module, self._work, self._env = module, work, env

    def __enter__(self):
        self._main, self._variables, self._argv = sys.modules["__main__"], dict(os.environ), sys.argv
        sys.modules["__main__"] = self._module
        os.environ.update(self._env)
        os.chdir(self._work)
        if self._work not in sys.path:
            sys.path.insert(0, self._work)

    def __exit__(self, *_):
        sys.modules["__main__"], sys.argv = self._main, self._argv
        os.environ.clear()
        os.environ.update(self._variables)


class Alarm:
    """Raises KeyboardInterrupt at the soft deadline, and again until the program has ended."""

    def __init__(self, job, stops):
        self._seconds, self._again, self._stops = job["soft_ms"] / 1000, max(0.05, job["grace_ms"] / 4000), stops

    def __enter__(self):
        def interrupt(_number, _frame):
            self._stops.append(True)
            raise KeyboardInterrupt

        self._before = signal.signal(signal.SIGALRM, interrupt)
        signal.setitimer(signal.ITIMER_REAL, self._seconds, self._again)

    def __exit__(self, *_):
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self._before)
