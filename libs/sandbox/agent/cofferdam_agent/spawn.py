"""Starts a program: fork, then the steps of the child before exec, in the order of `_become`.

The child gets its own session, its pipes as descriptors 0 to 2, the control pipes, default signals, limits,
the program's uid, no new privileges, and the filters of the options. It dies with the agent. processes.py
decides whether a program gets a new process at all. A waiting interpreter got all this at its own start.
"""
import _signal as signal
import os
import resource
import sys

from . import linux

# The control pipes. High numbers, so that a program that opens files gets 3, 4, … as in a bare run.
CONTROL_IN = 198
CONTROL_OUT = 199
# Bytes of what a waiting process may say before it becomes a program.
CONTROL_MAX = 64 * 1024
# With one uid, RLIMIT_NPROC also counts the fork server, its middle process, and the waiting interpreter.
CELL_PROCESSES = 3


class Child:
    """A process with our ends of its pipes. Without a gate `control_in` is None, and also `control_out`
    unless the program reports progress. `control_in` is None for a fork server too."""

    def __init__(self, pid, stdin, stdout, stderr, control_in, control_out):
        self.pid = pid
        self.stdin = stdin
        self.stdout = stdout
        self.stderr = stderr
        self.control_in = control_in
        self.control_out = control_out
        # What a waiting process has sent on its control pipe so far.
        self.unread = b""

    def send(self, message):
        view = memoryview(message)
        try:
            while view:
                view = view[os.write(self.control_in, view) :]
        except OSError:
            pass  # It died. Its exit status says how.

    def read_control(self):
        """Adds to `unread` what the process sent. False if the process died or sent too much."""
        try:
            data = os.read(self.control_out, CONTROL_MAX)
        except BlockingIOError:
            return True
        except OSError:
            data = b""
        self.unread += data
        return data != b"" and len(self.unread) <= CONTROL_MAX

    def error(self):
        """The last part of what the process wrote to stderr."""
        try:
            return os.read(self.stderr, CONTROL_MAX).decode("utf-8", "replace")[-2000:]
        except OSError:
            return ""

    def close(self):
        for name in ("stdin", "stdout", "stderr", "control_in", "control_out"):
            fd = getattr(self, name)
            if fd is not None:
                os.close(fd)
                setattr(self, name, None)


def pipes(gated, has_input=True, control=None, reports=False):
    """Returns a Child that has no pid yet, and the five pipe ends that the process itself gets."""
    in_read, in_write = os.pipe() if has_input else (os.open(os.devnull, os.O_RDONLY), None)
    out_read, out_write = os.pipe()
    err_read, err_write = os.pipe()
    bind_read, bind_write = os.pipe() if gated and control is None else (control, None)
    told_read, told_write = os.pipe() if gated or reports else (None, None)
    for fd in (in_write, out_read, err_read, told_read):
        if fd is not None:
            os.set_blocking(fd, False)
    child = Child(None, in_write, out_read, err_read, bind_write, told_read)
    return child, (in_read, out_write, err_write, bind_read, told_write)


def spawn(argv, env, cwd, options, split, gated, has_input=True, control=None, reports=False):
    """Without input a program gets /dev/null. A gate learns from its first message whether there is input.

    `control`: the socket of a fork server, which keeps the agent's uid and gets no Landlock scope, because
    only its forks become programs.
    """
    child, theirs = pipes(gated, has_input, control, reports)
    parent = os.getpid()
    child.pid = os.fork()
    if child.pid == 0:
        try:
            _become(argv, env, cwd, options, split, parent, theirs, control is not None)
        except BaseException as error:
            number = getattr(error, "errno", None)
            text = {2: "command not found", 13: "permission denied"}.get(number, str(error))
            try:
                os.write(2, ("%s: %s\n" % (argv[0], text)).encode("utf-8", "replace"))
            finally:
                # The shell's codes: found but not executable, or not found.
                os._exit(126 if number in (7, 8, 13) else 127)
    for fd in theirs:
        if fd is not None:
            os.close(fd)
    return child


def _become(argv, env, cwd, options, split, parent, fds, serves_forks):
    os.setsid()
    # A non-dumpable process, like the agent, cannot write its own /proc files.
    linux.prctl(linux.PR_SET_DUMPABLE, 1)
    for number, fd in zip((0, 1, 2, CONTROL_IN, CONTROL_OUT), fds):
        if fd is not None:
            os.dup2(fd, number, inheritable=True)
    signal.set_wakeup_fd(-1)
    for number in range(1, signal.NSIG):
        try:
            signal.signal(number, signal.SIG_DFL)
        except (OSError, ValueError):
            pass
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    limits = dict(options.rlimits)
    limits.setdefault("core", 0)
    if options.cell and not split and "nproc" in limits:
        limits["nproc"] += CELL_PROCESSES
    for name, value in limits.items():
        _limit(getattr(resource, "RLIMIT_" + name.upper()), value)
    if split and serves_forks:
        os.seteuid(0)
    elif split:
        # Only root may change groups. On a system without setfsuid, the agent's effective uid may be the
        # program's.
        os.seteuid(0)
        os.setgroups([])
        os.setresgid(options.gid, options.gid, options.gid)
        os.setresuid(options.uid, options.uid, options.uid)
    linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
    if options.cell:
        from . import restrictions

        restrictions.forbid_queues()
    linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    _prefer_for_oom()
    if options.seccomp is not None:
        with open(options.seccomp, "rb") as source:
            linux.load_filter(source.read())
    if options.scope and not serves_forks:
        from . import restrictions

        restrictions.confine_signals()
    os.umask(0o022)
    os.chdir(cwd)
    _exec(argv, env)


def _prefer_for_oom():
    """Makes the kernel's OOM killer choose the program before the agent."""
    try:
        with open("/proc/self/oom_score_adj", "w") as out:
            out.write("500")
    except OSError:
        pass


def _limit(which, value):
    hard = resource.getrlimit(which)[1]
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.setrlimit(which, (value, value))


def _exec(argv, env):
    """As in a shell: a name with a slash is relative to the work directory, others are searched in PATH."""
    if "/" in argv[0]:
        os.execve(argv[0], argv, env)
    refused = FileNotFoundError(2, "command not found")
    for folder in env.get("PATH", "/usr/bin:/bin").split(":"):
        try:
            os.execve(os.path.join(folder or ".", argv[0]), argv, env)
        except PermissionError as error:
            refused = error
        except (FileNotFoundError, NotADirectoryError):
            pass
    raise refused


def version():
    return "%d.%d.%d" % sys.version_info[:3]
