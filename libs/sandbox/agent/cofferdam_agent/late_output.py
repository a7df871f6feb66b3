"""Output of background processes while no program of their language runs, in a session that keeps processes.

    a kept interpreter has no run   its output pipes are read here: background processes write to them
    an interpreter or command ends  its output pipes stay open here, so that no writer gets SIGPIPE
    the next run of that language   begins with what was kept: the newest 64 KiB of each output

A command's pipes are read too, but what comes after its end is dropped, because no later program is its
successor. A pipe is read once in 20 ms: a process that writes faster is slowed down, and never blocked for
ever. So the agent's memory and CPU time are bounded whatever the processes write.
"""
import os
import select
import time

from .channel import read_some

HELD_MAX = 64 * 1024
PAUSE_S = 0.02
# Pipes of ended processes; the oldest are closed. One process can hold the pipes of any number of programs.
PIPES_MAX = 64


class _Pipe:
    def __init__(self, fd, keeper, name=None):
        self.fd = fd
        # The kept interpreter that this pipe belongs to. None if its process has ended: LateOutput then
        # closes the pipe.
        self.keeper = keeper
        # Language family and output under which its bytes are kept; None drops them.
        self.name = name

    def is_late(self):
        return self.keeper is None or self.keeper.run is None


class LateOutput:
    def __init__(self):
        self._pipes = []
        self._held = {}
        self._next_read = 0.0

    def begin(self, kept):
        """An interpreter that the session keeps has started."""
        self._pipes += [
            _Pipe(kept.child.stdout, kept, (kept.family, "O")),
            _Pipe(kept.child.stderr, kept, (kept.family, "E")),
            # Between runs no message is expected on the control pipe. It is read so that a thread that
            # reports progress does not block.
            _Pipe(kept.child.control_out, kept),
        ]

    def lose(self, kept):
        """A kept interpreter has ended."""
        self._pipes = [pipe for pipe in self._pipes if pipe.keeper is not kept]
        self._adopt(kept.child, kept.family)

    def end_command(self, child):
        self._adopt(child, None)

    def _adopt(self, child, family):
        for kind, name in (("O", "stdout"), ("E", "stderr")):
            fd = getattr(child, name)
            if fd is not None:
                setattr(child, name, None)
                self._pipes.append(_Pipe(fd, None, None if family is None else (family, kind)))
        child.close()
        ours = [pipe for pipe in self._pipes if pipe.keeper is None]
        for pipe in ours[:-PIPES_MAX]:
            self._end(pipe)

    def take(self, family, kind):
        # Read the pipes once more, because what was written a moment ago is not read yet.
        for pipe in [pipe for pipe in self._pipes if pipe.keeper is None and pipe.name == (family, kind)]:
            self._read(pipe)
        return bytes(self._held.pop((family, kind), b""))

    def watch(self, watch):
        """Returns the milliseconds until the pipes may be read again; None if nothing limits the wait."""
        pipes = [pipe for pipe in self._pipes if pipe.is_late()]
        pause_s = self._next_read - time.monotonic()
        if pipes and pause_s > 0:
            return int(pause_s * 1000) + 1
        for pipe in pipes:
            watch(pipe.fd, select.POLLIN, lambda pipe=pipe: self._read(pipe))
        return None

    def _read(self, pipe):
        # An earlier handler of this turn of the loop may have closed it, or begun a run that reads it.
        if pipe not in self._pipes or not pipe.is_late():
            return
        data = read_some(pipe.fd)
        if data is None:
            return
        self._next_read = time.monotonic() + PAUSE_S
        if not data:
            self._end(pipe)
        elif pipe.name is not None:
            held = self._held.setdefault(pipe.name, bytearray())
            held += data
            del held[:-HELD_MAX]

    def _end(self, pipe):
        self._pipes.remove(pipe)
        if pipe.keeper is None:
            os.close(pipe.fd)
