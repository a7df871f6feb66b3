"""Notebook syntax that a Python file lacks: `await` at the top level, and `!command` on its own line."""
import _ast
import os
import sys

# This flag exists since Python 3.8. It changes nothing for a source without a top-level await.
AWAITS = getattr(_ast, "PyCF_ALLOW_TOP_LEVEL_AWAIT", 0)
CO_COROUTINE = 0x80
SHELL = "__shell__"

# One event loop for all runs, so that objects bound to it stay usable. Created on first use.
_loops = []


def parse(text, name, space):
    """The tree of a source; `!command` lines call a shell. Raises what `compile` does."""
    while True:
        try:
            return compile(text, name, "exec", _ast.PyCF_ONLY_AST | AWAITS, True)
        except SyntaxError as error:
            # Only for a line that Python itself rejects: inside a string such a line is text.
            with_shell = _with_shell(text, error.lineno)
            if with_shell is None:
                raise
            text = with_shell
            space[SHELL] = lambda command: _shell(command, space)


def _with_shell(text, number):
    lines = text.splitlines(True)
    if number is None or not 0 < number <= len(lines):
        return None
    line = lines[number - 1]
    command = line.strip()
    if command[:1] != b"!":
        return None
    indent = line[: len(line) - len(line.lstrip())]
    call = "%s(%r)\n" % (SHELL, command[1:].decode("utf-8", "replace"))
    lines[number - 1] = indent + call.encode("utf-8")
    return b"".join(lines)


def _shell(command, space):
    """Runs a shell command with the program's input and output. Sets `_exit_code`, as in IPython, and raises
    nothing."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    shell = "/bin/bash" if os.access("/bin/bash", os.X_OK) else "/bin/sh"
    space["_exit_code"] = os.spawnve(os.P_WAIT, shell, [shell, "-c", command], os.environ)


def compiled(tree, name, mode):
    return compile(tree, name, mode, AWAITS, True)


def evaluate(code, space):
    """The result of the code, awaited if it awaits at the top level."""
    told = eval(code, space)
    return _awaited(told) if code.co_flags & CO_COROUTINE else told


def _awaited(coroutine):
    import asyncio

    if not _loops or _loops[0].is_closed():
        _loops[:] = [asyncio.new_event_loop()]
        asyncio.set_event_loop(_loops[0])
    task = _loops[0].create_task(coroutine)
    try:
        return _loops[0].run_until_complete(task)
    except BaseException:
        task.cancel()  # Of an interrupt: it must not go on in the next run.
        raise


def is_ours(filename):
    """True for this file, and for asyncio once it has run our loop: their frames precede the program's in a
    traceback.
    """
    home = getattr(sys.modules.get("asyncio"), "__file__", None)
    return filename == __file__ or home is not None and bool(_loops) and filename.startswith(os.path.dirname(home) + os.sep)
