"""Whether a program is watched: by a trace or profile function, or (from Python 3.12 on) by a tool of `sys.monitoring`."""
import sys
from _operator import is_
from itertools import repeat, starmap


def looks():
    """An iterator that says, each time it is asked, that nobody watches. C's own functions alone: a call of ours would be seen.

    By identity: whoever watches may have an `__eq__`, which would be called, and seen, and could say anything.
    """
    watchers = [sys.gettrace, sys.getprofile]
    if hasattr(sys, "monitoring"):
        from _functools import partial

        watchers += [partial(sys.monitoring.get_tool, tool) for tool in range(6)]
    return map(all, zip(*(map(is_, starmap(watcher, repeat(())), repeat(None)) for watcher in watchers)))
