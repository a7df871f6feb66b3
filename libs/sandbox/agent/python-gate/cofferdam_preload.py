"""Imports of a waiting interpreter, and how the garbage collector is kept from touching them."""
import os
import sys


def preload():
    """Imports the configured modules. They must leave no thread and no open file or socket, because every
    fork starts from this state.
    """
    names = os.environ.get("COFFERDAM_PRELOAD")
    if not names:
        return []
    modules, files = set(sys.modules), open_files()
    for name in names.split(","):
        __import__(name)
    if len(os.listdir("/proc/self/task")) != 1:
        raise ImportError("a module of the preload (%s) left a thread running" % names)
    if not open_files() <= files:
        raise ImportError("a module of the preload (%s) left a file or socket open" % names)
    freeze()
    added = set(sys.modules) - modules
    return sorted({name.partition(".")[0] for name in added})


def freeze():
    """Makes the collector skip existing objects, so that a fork copies fewer pages. Saves 0.9 of 3.4 ms CPU
    per fork.

    The names of `__main__` are not frozen. A frozen dictionary would keep cycles through it alive, so that
    finalisers which a bare run calls at its end would not run. An empty dictionary is not tracked and
    therefore not frozen.
    """
    had = "gc" in sys.modules
    import gc

    space = sys.modules["__main__"].__dict__
    names = dict(space)
    space.clear()
    gc.collect()
    if not gc.is_tracked(space):
        gc.freeze()
    space.update(names)
    if not had:
        del sys.modules["gc"]


def open_files():
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            found.add((name, os.readlink("/proc/self/fd/" + name)))
        except OSError:
            pass  # The descriptor of the listing itself.
    return found
