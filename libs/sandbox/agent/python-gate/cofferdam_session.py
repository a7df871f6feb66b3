"""The Python of a session: it executes every run in the same `__main__`.

It runs inside the gate and a half-finished start, so nothing is finalised: atexit functions and finalisers of
living objects do not run. A run's source has the file name `<run N>`, and `linecache` knows its lines, so
that tracebacks of earlier runs' functions show the right ones.
"""
import _ast
import linecache
import os
import sys
import traceback

import _signal

import cofferdam_notebook as notebook


# Outputs: descriptor, its copy beside the control pipes (198, 199), and CPython's settings for a pipe.
OUTPUTS = ((1, 195, "stdout", -1, "surrogateescape"), (2, 196, "stderr", 1, "backslashreplace"))


def serve(gate, fd_in, fd_out):
    sys.modules.pop("sitecustomize", None)
    for fd, copy, *_ in OUTPUTS:
        os.dup2(fd, copy, False)
    for fd in (fd_in, fd_out):
        os.set_inheritable(fd, False)
    space = sys.modules["__main__"].__dict__
    sys.path.insert(0, os.getcwd())
    own_pid, number = os.getpid(), 0
    handler = _signal.getsignal(_signal.SIGINT)
    while True:
        # An interrupt between runs is late. It was meant for the run that has ended.
        _signal.signal(_signal.SIGINT, _signal.SIG_IGN)
        stdin, entry, count, *rest = gate.read(int.from_bytes(gate.read(4), "little")).split(b"\0")
        number += 1
        code = 1
        try:
            argv, env = gate.program_of(count, rest)
            begin(gate, stdin, entry, argv, env)
            _signal.signal(_signal.SIGINT, handler)
            try:
                code = run(gate, space, os.fsdecode(entry), number, fd_out, own_pid)
            finally:
                now = _signal.getsignal(_signal.SIGINT)
                handler = handler if now is None else now
                _signal.signal(_signal.SIGINT, _signal.SIG_IGN)
        except KeyboardInterrupt:
            code = 130
        flush()
        if os.getpid() != own_pid:
            os._exit(code)  # A fork that the program made came to the end of the source.
        try:
            restore_outputs()
            flush()  # What was written after the outputs were closed belongs to this run.
            os.write(fd_out, b"D%d\n" % code)
        except OSError:
            os._exit(code)


def restore_outputs():
    """Restores the outputs for the next run. Raises OSError if a program closed the copies."""
    for fd, copy, name, buffering, errors in OUTPUTS:
        os.dup2(copy, fd)
        unusable = [stream for stream in (name, "__%s__" % name) if is_unusable(getattr(sys, stream, None))]
        if unusable:
            fresh = open(fd, "w", buffering, "utf-8", errors, closefd=False)
            for stream in unusable:
                setattr(sys, stream, fresh)


def is_unusable(stream):
    """True for a stream that is missing, closed or detached. A program's own stream may be any object."""
    try:
        return stream is None or stream.closed is True
    except ValueError:
        return True
    except Exception:
        return False


def begin(gate, stdin, entry, argv, env):
    path = stdin or os.devnull.encode()
    fd = os.open(path, os.O_RDONLY)
    if stdin:
        os.unlink(stdin)
    if fd != 0:  # Else an earlier run closed its input.
        os.dup2(fd, 0)
        os.close(fd)
    sys.stdin = sys.__stdin__ = gate.new_stdin(sys.__stdin__)
    sys.argv[:] = [os.fsdecode(arg) for arg in [entry] + argv]
    for item in env:
        name, _, value = item.partition(b"=")
        os.environ[os.fsdecode(name)] = os.fsdecode(value)


def run(gate, space, entry, number, fd_out, own_pid):
    """Runs one source. Returns its exit code as if it were a process, but 130 for an interrupt."""
    name = "<run %d>" % number
    try:
        with open(os.path.join(gate.WORK, entry), "rb") as source:
            text = source.read()
        if b"cofferdam" in text:
            gate.offer_reports()
        space["__file__"] = os.path.join(gate.WORK, entry)
        lines = text.decode("utf-8", "replace").splitlines(True)
        linecache.cache[name] = (len(text), None, lines, name)
        tree = notebook.parse(text, name, space)
        last = tree.body[-1] if tree.body else None
        value = None
        if isinstance(last, _ast.Expr) and not gate.is_valueless(last.value) and len(text) <= gate.SOURCE_MAX:
            tree.body.pop()
            value = notebook.compiled(_ast.Expression(body=last.value), name, "eval")
        notebook.evaluate(notebook.compiled(tree, name, "exec"), space)
        if value is not None:
            report(gate, notebook.evaluate(value, space), fd_out, own_pid)
        return 0
    except SystemExit as error:
        return exit_code(error.code)
    except BaseException as error:
        show(error)
        return 130 if isinstance(error, KeyboardInterrupt) else 1


def exit_code(code):
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    try:
        sys.stderr.write("%s\n" % (code,))
    except Exception:
        pass
    return 1


def show(error):
    """Prints the traceback without the frames of this file, which come first."""
    trace = error.__traceback__
    while trace is not None and is_ours(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    try:
        if sys.excepthook is sys.__excepthook__:
            traceback.print_exception(type(error), error, trace)
        else:
            sys.excepthook(type(error), error, trace)
    except BaseException:
        pass


def is_ours(filename):
    return filename == __file__ or notebook.is_ours(filename)


def report(gate, value, fd_out, own_pid):
    if value is None or os.getpid() != own_pid:
        return
    try:
        message = gate.message_of(value)
        if message:
            os.write(fd_out, message)
    except Exception:
        pass


def flush():
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        try:
            stream.flush()
        except Exception:
            pass
