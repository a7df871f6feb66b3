"""The agent's end of a Python fork server (cofferdam_forks.py): starts it, requests forks, replaces it.

It forks only between runs, when every process of earlier programs is proven gone. With two uids a program
cannot reach it. With one uid a program can signal it, but cannot touch its memory or files, because it is not
dumpable. If it was killed or stopped, or if a limit or its scheduling has changed since its start, it is
replaced before the next fork.
"""
import _socket
import errno
import os
import resource
import struct
import time

from . import gate, linux, reap, restrictions, spawn

# All forks share the fork server's address layout and hash seed, so the server is replaced after an hour or a
# thousand forks.
AGE_MAX_S = 3600
FORKS_MAX = 1000
# Files of a process in /proc that their owner may write. Root owns those of a non-dumpable process, but a
# user namespace may map root to our uid.
_FILES = ("oom_score_adj", "coredump_filter", "autogroup")
_LIMITS = [getattr(resource, name) for name in sorted(dir(resource)) if name.startswith("RLIMIT_")]


class ForkServer:
    def __init__(self, options, split, cwd):
        self.options = options
        self.split = split
        self.forks = 0
        self.born = time.monotonic()
        self.mark = None
        self.rules = restrictions.create_rules() if options.scope else -1
        self.channel, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
        env = gate.environment_of("python", options.env, options.preload)
        argv = gate.argv_of("python", "main.py", options)
        self.child = spawn.spawn(argv, env, cwd, options, split, True, True, theirs.detach())
        self.pid = self.child.pid

    def begin(self):
        """Called when the fork server is ready, before a program runs."""
        self.mark = fingerprint(self.pid)

    def is_fit(self):
        if self.forks >= FORKS_MAX or time.monotonic() - self.born > AGE_MAX_S:
            return False
        return self.split or is_intact(self.pid, self.mark)

    def fork(self):
        """Forks a waiting interpreter. Its ready line, with its pid, comes on its control pipe."""
        self.forks += 1
        child, theirs = spawn.pipes(True)
        uid, gid = (self.options.uid, self.options.gid) if self.split else (-1, -1)
        sent = list(theirs) + ([self.rules] if self.rules >= 0 else [])
        request = b"%d %d %d" % (uid, gid, restrictions.RESTRICT if self.rules >= 0 else -1)
        try:
            fds = struct.pack("%di" % len(sent), *sent)
            self.channel.sendmsg([request], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, fds)])
        except OSError:
            pass  # It died. Nobody else has the pipes, so they end at once.
        finally:
            for fd in theirs:
                os.close(fd)
        return child

    def end(self):
        """Kills the fork server. The agent's loop reaps it."""
        reap.kill(self.pid)
        self.close()

    def close(self):
        self.child.close()
        self.channel.close()
        if self.rules >= 0:
            os.close(self.rules)
            self.rules = -1


def fingerprint(pid, mark=None):
    """Settings that another process with the same uid could change and a fork would inherit.

    A value that could not be read for `mark` is not read again: a program with our uid and filter cannot
    change it.
    """
    asked = [(os.getpriority, os.PRIO_PROCESS, pid), (os.sched_getscheduler, pid), (_sched_priority, pid)]
    asked += [(os.sched_getaffinity, pid), (linux.scheduling, pid)]
    asked += [(_text, "/proc/%d/%s" % (pid, name)) for name in _FILES]
    asked += [(resource.prlimit, pid, limit) for limit in _LIMITS]
    before = [None] * len(asked) if mark is None else mark
    return [known if type(known) is _Refused else _ask(*ask) for ask, known in zip(asked, before)]


def _sched_priority(pid):
    return os.sched_getparam(pid).sched_priority


def _text(path):
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, 4096)
    finally:
        os.close(fd)


class _Refused(int):
    """The errno of a call that this sandbox refuses to every process inside."""


def _ask(call, *args):
    try:
        return call(*args)
    except OSError as error:
        return _Refused(error.errno) if error.errno in (errno.EPERM, errno.EACCES, errno.ENOSYS) else ("errno", error.errno)


def is_intact(pid, mark):
    try:
        if os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            return False
    except ChildProcessError:
        return False
    return fingerprint(pid, mark) == mark
