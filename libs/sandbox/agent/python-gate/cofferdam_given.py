"""Gives a waiting interpreter the input, arguments and variables that a start for this program would have
set.
"""
import os
import sys


class WithoutInput:
    """Prepares the usual case, a program without input, before the program comes. Saves 0.1 ms. A cell's fork
    server does it once for all its forks.
    """

    def __init__(self):
        self.pipe = os.dup(0)
        self.given = sys.stdin
        open_null()
        sys.stdin = sys.__stdin__ = new_stdin(self.given)

    def is_forked(self, pipe):
        """A fork has its own pipe and opens /dev/null itself, because flags of an open file are shared."""
        os.dup2(pipe, self.pipe)
        open_null()

    def settle(self, without):
        """Gives the program its real input, unless it has none."""
        if not without:
            os.dup2(self.pipe, 0)
            sys.stdin = sys.__stdin__ = self.given
        os.close(self.pipe)


def open_null():
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)


def new_stdin(old):
    """A new stream for another file: the old one was made for a pipe and remembers that it cannot seek."""
    io = sys.modules["io"]
    raw = io.FileIO(0, "rb", closefd=False)
    raw.name = "<stdin>"
    new = io.TextIOWrapper(io.BufferedReader(raw), old.encoding, old.errors, "\n", old.line_buffering)
    new.mode = "r"
    return new


def program_of(count, rest):
    return rest[: int(count)], rest[int(count) :]


def add_arguments(argv):
    more = [os.fsdecode(arg) for arg in argv]
    sys.argv.extend(more)
    if hasattr(sys, "orig_argv"):
        sys.orig_argv.extend(more)


def set_environment(env):
    wanted = [tuple(map(os.fsdecode, item.split(b"=", 1))) for item in env]
    if wanted != list(os.environ.items()):
        os.environ.clear()
        os.environ.update(wanted)
        if "TZ" in os.environ:
            import time

            time.tzset()
    # A fresh start reads this variable, but a waiting interpreter has not.
    for path in reversed(os.environ.get("PYTHONPATH", "").split(":")):
        if path and path not in sys.path:
            sys.path.insert(0, path)


def drop_own_variables(here):
    """Removes only our own variables. Setting all of the program's would take 0.2 ms in a fork."""
    os.environ.pop("COFFERDAM_PRELOAD", None)
    if os.environ.get("PYTHONPATH") == here:
        del os.environ["PYTHONPATH"]
