"""Whether a program is watched: by a trace or profile function, or (from Python 3.12 on) by a tool of `sys.monitoring`."""
import sys


def looks():
    """An iterator that says, each time it is asked, that nobody watches. C's own functions alone: a call of ours would be seen."""
    watchers = [sys.gettrace, sys.getprofile]
    if hasattr(sys, "monitoring"):
        from _functools import partial

        watchers += [partial(sys.monitoring.get_tool, tool) for tool in range(6)]
    return map(((None,) * len(watchers)).__eq__, zip(*(iter(watcher, looks) for watcher in watchers)))
