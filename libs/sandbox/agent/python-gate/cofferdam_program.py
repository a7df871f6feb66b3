"""Makes a program report its value, and that its last statement was reached.

The value is that of the last top-level statement, when that is an expression: main.py is compiled with that expression
handed to the hook and CPython is given the byte code under the name main.py; its first statement puts the source back.
Whatever is unusual (syntax errors, warnings while compiling, no space) means: run the source as it is, without a value.
In the same way the gate learns that the last statement was reached, see cofferdam_ending.py.
"""
# 0.7 ms for its first import, so now and not when a program waits for it.
import _ast
import builtins
import marshal
import os
import sys

from cofferdam_value import message_of
from cofferdam_watchers import looks

HOOK = "__cofferdam__"
# What stands at the end. Whoever watches the program would see a call: then there is none, and no value.
END = compile("if -{0}: {0}(True)\nelse: del {0}.value".format(HOOK), HOOK, "exec", _ast.PyCF_ONLY_AST).body[0]
# Larger sources run without a value: the syntax tree costs some 100 times the source's size.
SOURCE_MAX = 128 * 1024
# By name, for what runs beside the program, which may put something else in their place.
getpid, rename, fstat, write = os.getpid, os.rename, os.fstat, os.write


def prepare(entry, ending, control):
    """Replaces the entry by byte code that reports its last expression, and that it came so far; leaves it alone when neither counts."""
    text = read_source(entry)
    if len(text) > SOURCE_MAX:
        return
    here = os.getcwd()
    filename = os.path.join(here, entry) if sys.version_info >= (3, 9) else entry
    tree = compile(text, filename, "exec", _ast.PyCF_ONLY_AST, True)
    if not tree.body:
        return
    last = tree.body[-1]
    is_expression = isinstance(last, _ast.Expr) and not (len(tree.body) == 1 and is_text(last.value))
    has_value = is_expression and not is_valueless(last.value)
    may_end = ending is not None and ending.arm(text)
    if not has_value and not may_end:
        return
    add_calls(tree.body, is_expression)
    code = compile(tree, filename, "exec", 0, True)

    hidden, pyc = "%s.%d.src" % (entry, os.getpid()), "%s.%d.pyc" % (entry, os.getpid())
    if not write_code(pyc, code):
        return
    hook = Hook(filename, os.path.join(here, entry), os.path.join(here, hidden), control if has_value else None, ending)
    setattr(builtins, HOOK, hook)
    os.rename(entry, hidden)
    os.rename(pyc, entry)
    # CPython asks all importers whether it is an archive, and remembers None for the source: it need not read the byte code.
    sys.path_importer_cache[filename] = None


def awaits_value():
    """Whether a value may come, for which the control pipe has to stay open."""
    hook = getattr(builtins, HOOK, None)
    return hook is not None and hook.pipe is not None


def read_source(entry):
    source = os.open(entry, os.O_RDONLY)
    try:
        # Not simply SOURCE_MAX: what is allocated above 128 KiB is mapped and unmapped each time.
        return os.read(source, min(os.fstat(source).st_size, SOURCE_MAX) + 1)
    finally:
        os.close(source)


def add_calls(body, is_expression):
    """One of the hook in front, behind what must stand first, and `END`; the last expression, where there is one, becomes the hook's value."""
    last = body[-1]
    place = place_of(last.value if is_expression else last)
    if is_expression:
        name = _ast.Name(id=HOOK, ctx=_ast.Load(), **place)
        target = _ast.Attribute(value=name, attr="value", ctx=_ast.Store(), **place)
        body[-1] = _ast.Assign(targets=[target], value=last.value, **place)
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
    """False when there is no space for it."""
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
    """`print(…)` and the like: None whatever they do, and the commonest last line of all."""
    return isinstance(node, _ast.Call) and isinstance(node.func, _ast.Name) and node.func.id in ("print", "exit", "quit")


class Hook:
    """Called by the byte code: first without argument, at the end with one, when `value` is that of the last expression."""

    # Whether nobody watches: an operator leads there without a call that would be seen.
    __neg__ = looks().__next__

    def __init__(self, filename, entry, hidden, control, ending):
        self.ending = ending
        self.filename = filename
        self.entry = entry
        self.hidden = hidden
        self.pid = getpid()
        self.value = None
        # Where the value goes, and which pipe that was: the program may close it and open something else there.
        self.control = control
        self.pipe = None if control is None else fstat(control).st_ino

    def __call__(self, is_end=False):
        if not is_end:
            rename(self.hidden, self.entry)
            loader = sys.modules["_frozen_importlib_external"].SourceFileLoader
            sys.modules["__main__"].__loader__ = loader("__main__", self.filename)
            return
        builtins.__dict__.pop(HOOK, None)
        if getpid() != self.pid:
            return
        if self.pipe is not None and self.value is not None:
            self.tell(self.value)
        if self.ending is not None:
            self.ending.completed = True

    def __deepcopy__(self, _memo):
        """It stands among the builtins while the program runs: whoever copies these meets it."""
        return self

    def tell(self, value):
        try:
            message = message_of(value)
            if message and fstat(self.control).st_ino == self.pipe:
                write(self.control, message)
        except Exception:
            pass


class WarningsAreErrors:
    """While compiling: what would warn is run as it is, so that the warning comes once and from CPython itself.

    Works on the interpreter's own list of filters, because importing `warnings` would be a trace.
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
