"""Where a warm Python interpreter waits: inside its own start, before CPython opens the program.

`python3 main.py` imports `site`, which imports this file (its folder is on PYTHONPATH). It says that it is ready, waits
for the program, takes every trace of itself away and returns; CPython then opens and runs main.py itself. So traceback,
SyntaxError, sys.argv, __main__, threads, atexit and finalisation are those of a bare run, because it is one.
Nothing is imported here that a bare start would not have imported, so provided files shadow modules as in a bare run.

The script's value (its last top-level statement, when that is an expression): main.py is compiled with that expression
handed to `_value` and CPython is given the byte code under the name main.py; its first statement puts the source back.
Whatever is unusual (syntax errors, warnings while compiling, no space) means: run the source as it is, without a value.
"""
import os
import sys

CONTROL_IN, CONTROL_OUT = 198, 199
HOOK = "__cofferdam__"
# Larger sources run without a value: the syntax tree costs some 100 times the source's size.
SOURCE_MAX = 128 * 1024
VALUE_MAX = 32 * 1024
DEPTH_MAX = 64


def wait():
    os.write(CONTROL_OUT, ("R%d.%d.%d\n" % sys.version_info[:3]).encode())
    size = int.from_bytes(read(4), "little")
    stdin, entry, count, *rest = read(size).split(b"\0")
    os.close(CONTROL_IN)
    os.set_inheritable(CONTROL_OUT, False)
    argv, env = rest[: int(count)], rest[int(count) :]
    if stdin == b"0":
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)
        sys.stdin = sys.__stdin__ = new_stdin(sys.stdin)
    more = [os.fsdecode(arg) for arg in argv]
    sys.argv.extend(more)
    if hasattr(sys, "orig_argv"):
        sys.orig_argv.extend(more)
    os.environ.clear()
    for item in env:
        name, _, value = item.partition(b"=")
        os.environ[os.fsdecode(name)] = os.fsdecode(value)
    if "TZ" in os.environ:
        import time

        time.tzset()
    return os.fsdecode(entry)


def read(size):
    data = b""
    while len(data) < size:
        part = os.read(CONTROL_IN, size - len(data))
        if not part:
            os._exit(0)
        data += part
    return data


def new_stdin(old):
    """The old one looked at a pipe when it was made, and remembers that it cannot seek."""
    io = sys.modules["io"]
    raw = io.FileIO(0, "rb", closefd=False)
    raw.name = "<stdin>"
    new = io.TextIOWrapper(io.BufferedReader(raw), old.encoding, old.errors, "\n", old.line_buffering)
    new.mode = "r"
    return new


def prepare_value(entry):
    """Replaces the entry by byte code that reports its last expression; leaves it alone when it has none."""
    import _ast
    import marshal

    with open(entry, "rb") as source:
        text = source.read(SOURCE_MAX + 1)
    if len(text) > SOURCE_MAX:
        return
    filename = os.path.join(os.getcwd(), entry) if sys.version_info >= (3, 9) else entry
    tree = compile(text, filename, "exec", _ast.PyCF_ONLY_AST, True)
    last = tree.body[-1] if tree.body else None
    if not isinstance(last, _ast.Expr) or is_valueless(last.value, _ast) or len(tree.body) == 1 and is_text(last.value):
        return

    def call(argument, at):
        place = {"lineno": at.lineno, "col_offset": at.col_offset}
        place.update(end_lineno=at.end_lineno, end_col_offset=at.end_col_offset)
        name = _ast.Name(id=HOOK, ctx=_ast.Load(), **place)
        return _ast.Call(func=name, args=argument, keywords=[], **place)

    last.value = call([last.value], last.value)
    start = 0
    if is_text(getattr(tree.body[0], "value", None)):
        start = 1
    while isinstance(tree.body[start], _ast.ImportFrom) and tree.body[start].module == "__future__":
        start += 1
    first = tree.body[start]
    place = {name: getattr(first, name) for name in ("lineno", "col_offset", "end_lineno", "end_col_offset")}
    tree.body.insert(start, _ast.Expr(value=call([], first), **place))
    code = compile(tree, filename, "exec", 0, True)

    external = sys.modules["_frozen_importlib_external"]
    hidden, pyc = "%s.%d.src" % (entry, os.getpid()), "%s.%d.pyc" % (entry, os.getpid())
    try:
        with open(pyc, "xb") as out:
            out.write(external.MAGIC_NUMBER + bytes(12) + marshal.dumps(code))
    except OSError:
        if os.path.exists(pyc):
            os.unlink(pyc)
        return
    hook = Hook(filename, entry, hidden)
    import builtins

    setattr(builtins, HOOK, hook)
    os.rename(entry, hidden)
    os.rename(pyc, entry)


def is_text(node):
    return isinstance(getattr(node, "value", None), str) and type(node).__name__ in ("Constant", "Str")


def is_valueless(node, _ast):
    """`print(…)` and the like: None whatever they do, and the commonest last line of all."""
    return isinstance(node, _ast.Call) and isinstance(node.func, _ast.Name) and node.func.id in ("print", "exit", "quit")


class Hook:
    """Called twice by the byte code: first without argument, at the end with the value."""

    def __init__(self, filename, entry, hidden):
        self.filename = filename
        self.entry = os.path.abspath(entry)
        self.hidden = os.path.abspath(hidden)
        self.pid = os.getpid()
        self.pipe = os.fstat(CONTROL_OUT).st_ino

    def __call__(self, *value):
        if not value:
            os.rename(self.hidden, self.entry)
            loader = sys.modules["_frozen_importlib_external"].SourceFileLoader
            sys.modules["__main__"].__loader__ = loader("__main__", self.filename)
            return
        import builtins

        builtins.__dict__.pop(HOOK, None)
        if value[0] is None or os.getpid() != self.pid:
            return
        try:
            text = encode(value[0], DEPTH_MAX) or encode_repr(value[0])
            data = text.encode("ascii") if text else b""
            if data and len(data) <= VALUE_MAX and os.fstat(CONTROL_OUT).st_ino == self.pipe:
                os.write(CONTROL_OUT, b"V" + len(data).to_bytes(4, "little") + data)
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


def encode(value, depth):
    """JSON text of plain data (exact built-in types, so no code of the program runs); None for anything else."""
    kind = type(value)
    if value is None or kind is bool:
        return {None: "null", True: "true", False: "false"}[value]
    if kind is int:
        return str(value) if value.bit_length() < 4096 else None
    if kind is float:
        return repr(value) if value - value == 0 else None
    if kind is str:
        return quote(value) if len(value) <= VALUE_MAX else None
    if depth == 0 or kind not in (list, tuple, dict) or len(value) > VALUE_MAX:
        return None
    parts, size = [], 0
    for item in value:
        part = encode(item, depth - 1)
        if kind is dict:
            below = encode(value[item], depth - 1) if type(item) is str else None
            part = None if part is None or below is None else part + ":" + below
        size += len(part) if part is not None else 0
        if part is None or size > VALUE_MAX:
            return None
        parts.append(part)
    return ("{%s}" if kind is dict else "[%s]") % ",".join(parts)


def quote(text):
    out = []
    for char in text:
        code = ord(char)
        if char in '"\\':
            out.append("\\" + char)
        elif 32 <= code < 127:
            out.append(char)
        elif code < 0x10000:
            out.append("\\u%04x" % code)
        else:
            code -= 0x10000
            out.append("\\u%04x\\u%04x" % (0xD800 + (code >> 10), 0xDC00 + (code & 0x3FF)))
    return '"' + "".join(out) + '"'


def encode_repr(value):
    """{"repr": …} for objects of libraries (arrays, frames, Decimal); never runs a __repr__ of the program itself."""
    kind = type(value)
    if kind.__module__ in ("builtins", "__main__") or kind.__repr__ is object.__repr__:
        return None
    home = getattr(sys.modules.get(kind.__module__), "__file__", None)
    if home is None or home.startswith(os.path.dirname(os.path.abspath(sys.argv[0])) + os.sep):
        return None
    return '{"repr":%s}' % quote(repr(value)[: VALUE_MAX // 8])


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [path for path in sys.path if path != here]
    sys.path_importer_cache.pop(here, None)
    try:
        entry = wait()
    except OSError:
        return
    try:
        with WarningsAreErrors():
            prepare_value(entry)
    except Exception:
        pass
    if not hasattr(sys.modules["builtins"], HOOK):
        os.close(CONTROL_OUT)


main()
# The host's own sitecustomize, which this one stood in front of; absent, as in a bare run, when there is none.
del sys.modules["sitecustomize"]
import sitecustomize  # noqa: E402, F401
