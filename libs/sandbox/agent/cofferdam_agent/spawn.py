"""Starts the program's process: its own session, the runner's uid, limits, no inherited file but the ones named."""
import _signal as signal
import os
import resource
import sys

from . import linux

# High numbers, so that a program that opens files gets 3, 4, … as in a bare run.
CONTROL_IN = 198
CONTROL_OUT = 199
# With one uid for all, RLIMIT_NPROC counts what waits: the fork server, the process between two forks, the waiting one.
CELL_PROCESSES = 3
# In the work directory, while a kept interpreter runs a program that has input.
STDIN_NAME = ".cofferdam-stdin"


class Child:
    """A process with our ends of its pipes. `control_*` are None for programs that no gate waits in."""

    def __init__(self, pid, stdin, stdout, stderr, control_in, control_out):
        self.pid = pid
        self.stdin = stdin
        self.stdout = stdout
        self.stderr = stderr
        self.control_in = control_in
        self.control_out = control_out

    def tell(self, message):
        view = memoryview(message)
        try:
            while view:
                view = view[os.write(self.control_in, view) :]
        except OSError:
            pass  # It died: its exit status says how.

    def close(self):
        for name in ("stdin", "stdout", "stderr", "control_in", "control_out"):
            fd = getattr(self, name)
            if fd is not None:
                os.close(fd)
                setattr(self, name, None)


def pipes(gated, has_input=True, control=None, reports=False):
    """A child of the given kind without its pid, and the five ends that the process itself must have."""
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
    """Without input a program gets /dev/null; a gate only learns at bind whether there is any, and opens it itself.

    `control` is the socket of a fork server: that one keeps the agent's uid and no Landlock scope is set, because it is
    its forks that become programs.
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
    # The agent is not dumpable, and a process that is not cannot write its own /proc files.
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
        # Only root may change groups; the agent's effective uid is another one where setfsuid is missing.
        os.seteuid(0)
        os.setgroups([])
        os.setresgid(options.gid, options.gid, options.gid)
        os.setresuid(options.uid, options.uid, options.uid)
    linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
    if options.cell:
        from . import queues

        queues.forbid()
    linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    _prefer_for_oom()
    if options.seccomp is not None:
        with open(options.seccomp, "rb") as source:
            linux.load_filter(source.read())
    if options.scope and not serves_forks:
        from . import scope

        scope.confine_signals()
    os.umask(0o022)
    os.chdir(cwd)
    _exec(argv, env)


def _prefer_for_oom():
    """The kernel's OOM killer takes the program before the agent."""
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
    """Like the shell: a name with a slash is relative to the work directory, else PATH of the program is searched."""
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


def gate_dir(name):
    return os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), name)


def interpreter_argv(language, entry, options):
    """Command of an interpreter that waits in its gate for `bind`, then runs `entry` as a bare start would."""
    if language == "python":
        return [options.python, entry]
    return [options.node, "--require", os.path.join(gate_dir("node-gate"), "gate.cjs"), entry]


# Libraries make their threads when they are imported, and threads do not survive a fork: one thread in a preload.
ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")


def gate_env(language, env, preload=()):
    if language != "python":
        return env
    path = gate_dir("python-gate")
    env = dict(env, PYTHONPATH=path + ":" + env["PYTHONPATH"] if env.get("PYTHONPATH") else path)
    if preload:
        for name in ONE_THREAD:
            env.setdefault(name, "1")
        env["COFFERDAM_PRELOAD"] = ",".join(preload)
    return env


_FIXED_AT_START = {
    "python": ("PYTHON", "LD_", "LC_", "LANG", "TZ", "MALLOC_", "GLIBC_"),
    "javascript": ("NODE_", "UV_", "LD_", "LC_", "LANG", "TZ", "MALLOC_", "GLIBC_", "SSL_", "OPENSSL_", "FORCE_COLOR", "NO_COLOR"),
}
_FIXED_AT_START["typescript"] = _FIXED_AT_START["javascript"]


# What libraries of a preload read only once, while they are imported.
_FIXED_AT_IMPORT = ("OPENBLAS_", "OMP_", "GOTO_", "MKL_", "NUMEXPR_", "BLIS_", "KMP_", "GOMP_", "NPY_", "PANDAS_")


def fits_waiting(language, env, base, preload=()):
    """False when `env` has a variable that an interpreter reads only once, while it starts, with another value."""
    prefixes = _FIXED_AT_START[language]
    if preload and language == "python":
        prefixes += _FIXED_AT_IMPORT
        base = dict({name: "1" for name in ONE_THREAD}, **base)
    return all(base.get(name) == value for name, value in env.items() if name.startswith(prefixes))


def bind_message(run, env):
    """What the gate needs, NUL-separated so that it imports nothing to read it; u32 LE length in front."""
    has_input = "1" if run.stdin_size is not None else "0"
    fields = [has_input + ("r" if run.report else ""), run.entry, str(len(run.argv))] + run.argv
    return _lengthened(fields + ["%s=%s" % item for item in env.items()])


def session_message(env):
    """Tells a gate that it waits for the runs of a session."""
    return _lengthened(["s", "", "0"] + ["%s=%s" % item for item in env.items()])


def run_message(run, stdin, work):
    """One run of a session: a file with its input or nothing, entry, arguments, and variables that it adds."""
    fields = [stdin, run.entry, str(len(run.argv))] + run.argv + ["%s=%s" % item for item in run.env.items()]
    if run.language != "bash":
        return _lengthened(fields)
    fields[1] = os.path.join(work, run.entry)
    return b"".join(text.encode("utf-8", "surrogateescape") + b"\0" for text in [str(len(fields))] + fields)


def _lengthened(fields):
    body = "\0".join(fields).encode("utf-8", "surrogateescape")
    return len(body).to_bytes(4, "little") + body


def with_commands(env, run):
    """A shell has no module to import: its program finds our command on the last place of its PATH."""
    if run.language in ("python", "javascript", "typescript") or "PATH" not in env:
        return env
    return dict(env, PATH=env["PATH"] + ":" + gate_dir("bin"))


def with_packages(env, work):
    """What an install of the same session left (`.packages` by pip --target, `node_modules`) is found without being asked for."""
    python = os.path.join(work, ".packages")
    if os.path.isdir(python):
        env.setdefault("PYTHONPATH", python)
    commands = [os.path.join(python, "bin"), os.path.join(work, "node_modules", ".bin")]
    found = [folder for folder in commands if os.path.isdir(folder)]
    return dict(env, PATH=":".join(found + [env["PATH"]])) if found and "PATH" in env else env


def version():
    return "%d.%d.%d" % sys.version_info[:3]
