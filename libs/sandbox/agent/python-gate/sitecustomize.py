"""The gate of Python: an interpreter waits inside its own start, before CPython opens the program.

`python3 main.py` imports `site`, which imports this file (its folder is on PYTHONPATH). This file reports
that it is ready, waits for the program, removes every trace of itself and returns. CPython then opens and
runs main.py itself. So traceback, SyntaxError, sys.argv, __main__, threads, atexit and finalisation are those
of a bare run. It imports only what a bare start imports, so provided files shadow modules as in a bare run.

It loads everything that it needs before it reports ready, because a caller waits for all work after the
program has come. Only cofferdam_session.py is loaded later, for a session.
"""
import os
import sys

modules = set(sys.modules)
HERE = os.path.dirname(os.path.abspath(__file__))
# False in a subinterpreter of this process, which inherits the path with this folder. PYTHONPATH no longer
# names it then, there is nothing to wait for, and our descriptors are closed or used by others.
IS_START = os.path.abspath(os.environ.get("PYTHONPATH", "").partition(":")[0]) == HERE

if IS_START:
    # Import only names from our modules: a module that this file refers to would be an object that the
    # program can find.
    from cofferdam_given import WithoutInput, add_arguments, drop_own_variables, program_of, set_environment
    from cofferdam_host import Host
    from cofferdam_preload import freeze, preload
    from cofferdam_program import WarningsAreErrors, prepare

    # For cofferdam_session.py, which uses these names through this module.
    from cofferdam_given import new_stdin  # noqa: F401
    from cofferdam_program import SOURCE_MAX, is_valueless  # noqa: F401
    from cofferdam_value import message_of  # noqa: F401

CONTROL_IN, CONTROL_OUT = 198, 199
# Descriptor of the Landlock rules by which a fork restricts itself, if the agent uses a scope.
RULES = 197
# Folder of the module `cofferdam`, for a program that contains that word.
LIBRARY = os.path.join(os.path.dirname(HERE), "python-lib")
# The agent reads at most 64 KiB of a ready line. With longer names, `*` is sent, and the agent starts a fresh
# interpreter instead.
NAMES_MAX = 48 * 1024


def ready_line(preloaded):
    names = ",".join(preloaded)
    if len(names) > NAMES_MAX:
        names = "*"
    return ("R%d.%d.%d %d %s\n" % (sys.version_info[:3] + (os.getpid(), names))).encode("utf-8", "replace")


def wait(preloaded, serve):
    without_input = WithoutInput()
    env_of_start = [name + b"=" + value for name, value in os.environb.items()]
    become = None
    if serve is not None:
        become = serve(sys.modules["sitecustomize"], ready_line(preloaded), without_input)
    os.set_inheritable(CONTROL_OUT, False)
    os.write(CONTROL_OUT, ready_line(preloaded))
    size = int.from_bytes(read(4), "little")
    while size == 0:
        os.write(CONTROL_OUT, b"\n")  # The agent asks whether it is well, see waiting.py.
        size = int.from_bytes(read(4), "little")
    flags, entry, count, *rest = read(size).split(b"\0")
    if become is not None:
        become()
    without_input.settle(flags[:1] == b"0")
    argv, env = program_of(count, rest)
    if env != env_of_start:
        set_environment(env)
    if flags == b"s":
        return None
    if b"r" in flags:
        offer_reports()
    os.close(CONTROL_IN)
    add_arguments(argv)
    return os.fsdecode(entry)


def offer_reports():
    """Appends the folder of the module `cofferdam` to the path. It comes last, so that a program's own module
    of that name is found first."""
    if LIBRARY not in sys.path:
        sys.path.append(LIBRARY)


def serve_session():
    """Runs every program of a session in one `__main__`, see cofferdam_session.py."""
    sys.path.insert(0, HERE)
    import cofferdam_session

    sys.path.remove(HERE)
    sys.path_importer_cache.pop(HERE, None)
    del sys.modules["cofferdam_session"], sys.modules["cofferdam_notebook"]
    gate = sys.modules["sitecustomize"]
    gate.WORK = os.getcwd()
    cofferdam_session.serve(gate, CONTROL_IN, CONTROL_OUT)


def read(size):
    data = b""
    while len(data) < size:
        part = os.read(CONTROL_IN, size - len(data))
        if not part:
            os._exit(0)
        data += part
    return data


def load_forks():
    """None unless the agent gave this interpreter the socket of a cell's fork server."""
    if os.fstat(CONTROL_IN).st_mode & 0o170000 != 0o140000:
        return None
    from cofferdam_forks import serve

    return serve


def load_start():
    """None unless this process becomes the agent too (PID 1). Others are children of the agent."""
    if os.getpid() != 1:
        return None
    from cofferdam_start import begin

    return begin


def forget_imports():
    """Removes from sys.modules what was imported since the start, so that the program does not see it. Code
    that refers to these modules can still use them.
    """
    for name in set(sys.modules) - modules:
        del sys.modules[name]
    sys.path[:] = [path for path in sys.path if path != HERE]
    sys.path_importer_cache.pop(HERE, None)


def main():
    begin = load_start()
    serve = load_forks() if begin is None else None
    forget_imports()
    try:
        host = Host()
    except Exception:
        host = None
    if begin is not None:
        begin((CONTROL_IN, CONTROL_OUT))
    try:
        preloaded = preload()
    except Exception as error:
        os.write(2, ("preload: %s: %s" % (type(error).__name__, error)).encode("utf-8", "replace")[-2000:])
        os._exit(1)
    drop_own_variables(HERE)
    started = os.getpid()
    try:
        entry = wait(preloaded, serve)
    except OSError:
        if os.getpid() != started:
            os._exit(1)  # A fork that got no program still has the agent's uid.
        return host
    if entry is None:
        serve_session()
    may_have_value = False
    try:
        with WarningsAreErrors():
            may_have_value = prepare(entry, CONTROL_OUT)
    except Exception:
        pass
    if not may_have_value and LIBRARY not in sys.path:
        os.close(CONTROL_OUT)
    return host


if IS_START:
    host = main()
else:
    host = None
    forget_imports()
# Loads the host's own sitecustomize, which this one shadowed. If there is none, the import fails as in a
# bare run.
del sys.modules["sitecustomize"]
if host is None or not host.take_place():
    import sitecustomize  # noqa: F401
