"""How the end of a program is noticed, and what the worker is told about it.

    SIGCHLD, wait4 ── the main process has a status ── whatever it left is killed ── its pipes are empty ── V, X
                         └─ in a session that keeps processes ── the bytes in its pipes at this moment are read ── V, X

The exit status is the kernel's, so a program cannot forge it. Only a run in a kept interpreter has no process
of its own: there the interpreter reports the exit code and lives on.
"""
import _signal as signal
import os
import select
import time

from . import meters
from .streams import read_all

# The largest value (contract BOUNDS.valueBytes). 'V' and a u32 length precede it on the pipe.
VALUE_MAX = 32 * 1024
# How long to read the pipes if processes that could write to them are not proven gone.
DRAIN_S = 0.25


class ProgramEnd:
    def __init__(self):
        self.status = None
        self.wall_s = 0.0
        self.used = None
        # True if the run has ended but the interpreter that the session keeps lives on.
        self.interpreter_lives = False
        # Processes left when the main process had ended, and whether they were as many as allowed.
        self.left = 0
        self.at_limit = False
        self.proven_gone = True
        # True if other processes were spared, which may go on writing to the pipes.
        self.spared_others = False
        self.disk_full = False
        self._drain_until = None

    def seen(self, status, used, began):
        """`status` and `used` as wait4 returns them."""
        self.status, self.used = status, used
        self.wall_s = time.monotonic() - began

    def seen_in_session(self, code, began):
        self.seen(code << 8, None, began)
        self.interpreter_lives = True

    def interpreter_lost(self):
        """Called when the kept interpreter ended with its run. The run's status stays the same."""
        self.interpreter_lives, self.used = False, _Unknown

    def killed_others(self, proven_gone, process_limit):
        self.proven_gone = proven_gone
        # Whether the program used its whole limit, for sandboxes without a cgroup that counts refused forks.
        self.at_limit = process_limit is not None and self.left + 1 >= process_limit
        self._drain_until = None if proven_gone else time.monotonic() + DRAIN_S

    def drain_until(self):
        return self._drain_until

    def is_drained(self, streams):
        if self.spared_others:
            return all(stream.is_complete for stream in streams)
        open_streams = [stream for stream in streams if stream.open]
        if self.interpreter_lives:
            return not _readable(open_streams)
        return not open_streams or self._drain_until is not None and time.monotonic() >= self._drain_until

    # ---- what the worker is told

    def value(self, run):
        """JSON text of the value that the program reported on its control pipe; None when there is none."""
        if self.status != 0:
            return None
        if run.session is not None:
            return run.session.value()
        if run.child.control_out is None:
            return None
        said = read_all(run.child.control_out, VALUE_MAX + 4096) if run.reports is None else run.reports.value
        # If the interpreter was started for this run, its ready line precedes the value.
        at = said.find(b"\n") + 1 if said[:1] == b"R" else 0
        size = int.from_bytes(said[at + 1 : at + 5], "little")
        if said[at : at + 1] != b"V" or not 0 < size <= VALUE_MAX or len(said) != at + 5 + size:
            return None
        return said[at + 5 :]

    def evidence(self, run, counters):
        """The fields of X. `counters` is the Meters that the run began with."""
        seen = counters.since(run.at_bind, run.child.pid if self.interpreter_lives else None)
        out, err = run.streams
        signalled = os.WIFSIGNALED(self.status)
        return {
            "code": None if signalled else os.WEXITSTATUS(self.status),
            "signal": _signal_name(os.WTERMSIG(self.status)) if signalled else None,
            "wallUs": int(self.wall_s * 1e6),
            "cpuUs": seen["cpuUs"],
            "maxRssKb": meters.peak_kb_of(run.child.pid) if self.interpreter_lives else self.used.ru_maxrss,
            "memPeak": seen["memPeak"],
            "oomKills": seen["oomKills"],
            "pidsPeak": seen["pidsPeak"],
            "pidsHit": int(self.at_limit) if seen["pidsHit"] is None else seen["pidsHit"],
            "left": self.left,
            "readBytes": seen["readBytes"],
            "writeBytes": seen["writeBytes"],
            "diskBytes": seen["diskBytes"],
            "diskFull": self.disk_full,
            "outBytes": out.seen,
            "errBytes": err.seen,
            "outDropped": out.dropped,
            "errDropped": err.dropped,
            "leftovers": not self.proven_gone,
            **({"alive": self.interpreter_lives, "interpreter": run.found} if run.keep else {}),
        }


class _Unknown:
    ru_maxrss = 0


def _readable(streams):
    poller = select.poll()
    for stream in streams:
        poller.register(stream.fd, select.POLLIN)
    return any(events & select.POLLIN for _, events in poller.poll(0))


# Some numbers have two names. These are the names that Node uses: SIGIO, SIGABRT and SIGCHLD, not SIGPOLL,
# SIGIOT and SIGCLD.
_NAMES = {
    getattr(signal, name): name
    for name in sorted(dir(signal), key=lambda name: (-len(name), name))
    if name.startswith("SIG") and not name.startswith("SIG_") and name not in ("SIGCLD", "SIGIOT", "SIGRTMIN", "SIGRTMAX")
}


def _signal_name(number):
    return _NAMES.get(number, "SIG%d" % number)
