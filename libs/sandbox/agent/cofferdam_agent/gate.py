"""What the agent and the gates (python-gate, node-gate, bash-gate) agree on. A gate is the code in which an
interpreter waits for its program. Here are the command and environment of its start, the messages on its
control pipe, and the variables that it reads only at its start.
"""
import os


def folder_of(name):
    return os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), name)


def argv_of(language, entry, options):
    """The command of an interpreter that waits in its gate and then runs `entry` as if started without a
    gate.
    """
    if language == "python":
        return [options.python, entry]
    return [options.node, "--require", os.path.join(folder_of("node-gate"), "gate.cjs"), entry]


# Set to 1 during a preload: these libraries start threads at import, which do not survive a fork.
ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")


def environment_of(language, env, preload=()):
    if language != "python":
        return env
    path = folder_of("python-gate")
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
_FIXED_AT_IMPORT = ("OPENBLAS_", "OMP_", "GOTO_", "MKL_", "NUMEXPR_", "BLIS_", "KMP_", "GOMP_", "NPY_", "PANDAS_")


def fits_waiting(language, env, base, preload=()):
    """False if `env` changes a variable that the interpreter or a preloaded library reads only at start."""
    prefixes = _FIXED_AT_START[language]
    if preload and language == "python":
        prefixes += _FIXED_AT_IMPORT
        base = dict({name: "1" for name in ONE_THREAD}, **base)
    return all(base.get(name) == value for name, value in env.items() if name.startswith(prefixes))


def bind_message(run, env):
    """What a waiting interpreter needs to begin. NUL-separated, so that it imports nothing to parse it."""
    has_input = "1" if run.stdin_size is not None else "0"
    fields = [has_input + ("r" if run.report else ""), run.entry, str(len(run.argv))] + run.argv
    return _with_length(fields + ["%s=%s" % item for item in env.items()])


def session_message(env):
    """Tells an interpreter in its gate to wait for the runs of a session."""
    return _with_length(["s", "", "0"] + ["%s=%s" % item for item in env.items()])


def run_message(run, stdin, work):
    """A run of a session: input file (or empty), entry, arguments, and added variables."""
    fields = [stdin, run.entry, str(len(run.argv))] + run.argv + ["%s=%s" % item for item in run.env.items()]
    if run.language != "bash":
        return _with_length(fields)
    fields[1] = os.path.join(work, run.entry)
    return b"".join(text.encode("utf-8", "surrogateescape") + b"\0" for text in [str(len(fields))] + fields)


def _with_length(fields):
    body = "\0".join(fields).encode("utf-8", "surrogateescape")
    return len(body).to_bytes(4, "little") + body


def with_commands(env, run):
    """For programs in a language without a progress module: adds the command for progress reports at the end
    of PATH."""
    if run.language in ("python", "javascript", "typescript") or "PATH" not in env:
        return env
    return dict(env, PATH=env["PATH"] + ":" + folder_of("bin"))


def with_packages(env, work):
    """Adds what an install of the same session left: `.packages` (pip --target) and `node_modules`."""
    python = os.path.join(work, ".packages")
    if os.path.isdir(python):
        env.setdefault("PYTHONPATH", python)
    commands = [os.path.join(python, "bin"), os.path.join(work, "node_modules", ".bin")]
    found = [folder for folder in commands if os.path.isdir(folder)]
    return dict(env, PATH=":".join(found + [env["PATH"]])) if found and "PATH" in env else env
