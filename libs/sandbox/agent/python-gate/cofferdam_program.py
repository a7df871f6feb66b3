"""Makes a program report its value: that of its last top-level statement, if it is an expression.

main.py is compiled with that expression assigned to a hook. CPython finds the byte code under the name
main.py, and its first statement restores the source. In unusual cases (syntax errors, warnings while
compiling, a full disk) the source runs unchanged and has no value.
"""
# Its first import takes 0.7 ms, so import it before a program waits.
import _ast
import builtins
import marshal
import os
import sys
from _operator import is_
from itertools import repeat, starmap

from cofferdam_value import message_of

HOOK = "__cofferdam__"
# The program's last statement. It does not call the hook if a trace or profile function would see that.
END = compile("if -{0}: {0}(True)\nelse: del {0}.value".format(HOOK), HOOK, "exec", _ast.PyCF_ONLY_AST).body[0]
# Larger sources run without a value: the syntax tree takes about 100 times the memory of its source.
SOURCE_MAX = 128 * 1024
# Bound now, because the program may replace the functions in `os`.
getpid, rename, fstat, write = os.getpid, os.rename, os.fstat, os.write


def prepare(entry, control):
    """Replaces the entry by byte code that reports the last expression. True if there may be a value."""
    text = read_source(entry)
    if len(text) > SOURCE_MAX:
        return False
    here = os.getcwd()
    filename = os.path.join(here, entry) if sys.version_info >= (3, 9) else entry
    tree = compile(text, filename, "exec", _ast.PyCF_ONLY_AST, True)
    if not has_value(tree.body):
        return False
    add_hook(tree.body)
    code = compile(tree, filename, "exec", 0, True)

    hidden, pyc = "%s.%d.src" % (entry, os.getpid()), "%s.%d.pyc" % (entry, os.getpid())
    if not write_code(pyc, code):
        return False
    setattr(builtins, HOOK, Hook(filename, os.path.join(here, entry), os.path.join(here, hidden), control))
    os.rename(entry, hidden)
    os.rename(pyc, entry)
    # CPython asks all importers whether the entry is an archive. This cached None tells it that the byte code
    # is not one.
    sys.path_importer_cache[filename] = None
    return True


def has_value(body):
    if not body or not isinstance(body[-1], _ast.Expr):
        return False
    last = body[-1].value
    is_docstring = len(body) == 1 and is_text(last)
    return not is_docstring and not is_valueless(last)


def read_source(entry):
    source = os.open(entry, os.O_RDONLY)
    try:
        # Not simply SOURCE_MAX, because buffers above 128 KiB are mapped and unmapped each time.
        return os.read(source, min(os.fstat(source).st_size, SOURCE_MAX) + 1)
    finally:
        os.close(source)


def add_hook(body):
    """Inserts a call of the hook after a docstring and `__future__` imports, assigns the last expression to
    `hook.value`, and appends `END`.
    """
    last = body[-1].value
    place = place_of(last)
    name = _ast.Name(id=HOOK, ctx=_ast.Load(), **place)
    target = _ast.Attribute(value=name, attr="value", ctx=_ast.Store(), **place)
    body[-1] = _ast.Assign(targets=[target], value=last, **place)
    move(END, place)
    body.append(END)
    start = 0
    if is_text(getattr(body[0], "value", None)):
        start = 1
    while isinstance(body[start], _ast.ImportFrom) and body[start].module == "__future__":
        start += 1
    place = place_of(body[start])
    name = _ast.Name(id=HOOK, ctx=_ast.Load(), **place)
    call = _ast.Call(func=name, args=[], keywords=[], **place)
    body.insert(start, _ast.Expr(value=call, **place))


def move(node, place):
    for name in node._attributes:
        setattr(node, name, place[name])
    for name in node._fields:
        part = getattr(node, name, None)
        for below in part if isinstance(part, list) else [part]:
            if isinstance(below, _ast.AST):
                move(below, place)


def place_of(node):
    return {name: getattr(node, name) for name in ("lineno", "col_offset", "end_lineno", "end_col_offset")}


def write_code(pyc, code):
    """Returns False if the file cannot be written, mostly for lack of space."""
    try:
        out = os.open(pyc, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        try:
            data = sys.modules["_frozen_importlib_external"].MAGIC_NUMBER + bytes(12) + marshal.dumps(code)
            if os.write(out, data) != len(data):
                raise OSError("no space")
        finally:
            os.close(out)
    except OSError:
        if os.path.exists(pyc):
            os.unlink(pyc)
        return False
    return True


def is_text(node):
    return isinstance(getattr(node, "value", None), str) and type(node).__name__ in ("Constant", "Str")


def is_valueless(node):
    """`print(…)` and similar calls always give None, and are the most common last line."""
    return isinstance(node, _ast.Call) and isinstance(node.func, _ast.Name) and node.func.id in ("print", "exit", "quit")


def unwatched():
    """An iterator whose every item is True if nothing watches the program: no trace or profile function and
    no tool of `sys.monitoring`. It is made only of C functions, because a watcher would see a Python call.
    Compares by identity, because a watcher may have its own `__eq__`.
    """
    watchers = [sys.gettrace, sys.getprofile]
    if hasattr(sys, "monitoring"):
        from _functools import partial

        watchers += [partial(sys.monitoring.get_tool, tool) for tool in range(6)]
    return map(all, zip(*(map(is_, starmap(watcher, repeat(())), repeat(None)) for watcher in watchers)))


class Hook:
    """The byte code calls it without an argument at the start. At the end it calls it with True, unless a
    trace or profile function or a monitoring tool watches the program.
    """

    # `-hook` returns whether nobody watches. It is an operator because no profile function sees one.
    __neg__ = unwatched().__next__

    def __init__(self, filename, entry, hidden, control):
        self.filename = filename
        self.entry = entry
        self.hidden = hidden
        self.pid = getpid()
        self.value = None
        # The control pipe and its identity: the program may close it and open something else there.
        self.control = control
        self.pipe = fstat(control).st_ino

    def __call__(self, is_end=False):
        if not is_end:
            rename(self.hidden, self.entry)
            loader = sys.modules["_frozen_importlib_external"].SourceFileLoader
            sys.modules["__main__"].__loader__ = loader("__main__", self.filename)
            return
        builtins.__dict__.pop(HOOK, None)
        if getpid() == self.pid and self.value is not None:
            self.tell(self.value)

    def __deepcopy__(self, _memo):
        """Lets a program deep-copy the builtins, which contain this hook while the program runs."""
        return self

    def tell(self, value):
        try:
            message = message_of(value)
            if message and fstat(self.control).st_ino == self.pipe:
                write(self.control, message)
        except Exception:
            pass


class WarningsAreErrors:
    """Turns warnings of the compilation into errors. Such a source then runs unchanged, so that its warning
    comes once, from CPython itself.

    Uses the interpreter's own list of filters, because importing `warnings` would leave a trace.
    """

    def __enter__(self):
        self.change(lambda filters: filters.insert(0, ("error", None, Warning, None, 0)))

    def __exit__(self, *_):
        self.change(lambda filters: filters.pop(0))

    def change(self, how):
        import _warnings

        if hasattr(_warnings, "_filters_mutated"):
            how(_warnings.filters)
            _warnings._filters_mutated()
            return
        _warnings._acquire_lock()
        try:
            how(_warnings.filters)
            _warnings._filters_mutated_lock_held()
        finally:
            _warnings._release_lock()
