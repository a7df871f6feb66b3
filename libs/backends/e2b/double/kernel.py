"""The Python process of one context, like a Jupyter kernel: `kernel.py CELLS EVENTS`, two descriptors.

A cell is a line of JSON, {"code", "env"}. The first cell also has "given", the environment of all cells.
Events are lines of JSON as clients get them; the last is {"type": "end_of_execution"}. SIGINT interrupts a
cell. Variables stay; the last expression is the main result.
"""
import ast
import base64
import builtins
import codecs
import json
import linecache
import os
import signal
import sys
import threading
import time
import traceback

# Methods with which an object renders itself in other forms than its repr, and the media type of each form.
FORMS = {
    "_repr_html_": "text/html",
    "_repr_markdown_": "text/markdown",
    "_repr_svg_": "image/svg+xml",
    "_repr_png_": "image/png",
    "_repr_jpeg_": "image/jpeg",
    "_repr_pdf_": "application/pdf",
    "_repr_latex_": "text/latex",
    "_repr_json_": "application/json",
    "_repr_javascript_": "application/javascript",
}
FIELDS = {
    "text/plain": "text",
    "text/html": "html",
    "text/markdown": "markdown",
    "image/svg+xml": "svg",
    "image/png": "png",
    "image/jpeg": "jpeg",
    "application/pdf": "pdf",
    "text/latex": "latex",
    "application/json": "json",
    "application/javascript": "javascript",
    "e2b/data": "data",
    "e2b/chart": "chart",
}

events = os.fdopen(int(sys.argv[2]), "w", encoding="ascii")
telling = threading.Lock()


def tell(kind, **fields):
    with telling:
        events.write(json.dumps(dict(fields, type=kind)) + "\n")
        events.flush()


class Stream:
    """sys.stdout and sys.stderr: line by line, and the rest at the end of the cell."""

    encoding, errors = "utf-8", "strict"

    def __init__(self, name, fd):
        self.name, self.fd, self.held = name, fd, ""

    def write(self, text):
        whole, newline, rest = (self.held + text).rpartition("\n")
        self.held = rest
        if newline:
            self.say(whole + newline)
        return len(text)

    def flush(self):
        held, self.held = self.held, ""
        if held:
            self.say(held)

    def say(self, text):
        tell(self.name, text=text, timestamp=time.time_ns() // 1000)

    def isatty(self):
        return False

    def fileno(self):
        return self.fd

    def writable(self):
        return True


class Descriptor:
    """Output that bypasses sys.stdout: commands of a cell write to the descriptor itself."""

    def __init__(self, number, stream):
        self.number, self.stream, self.mark = number, stream, b""
        self.drained = threading.Event()
        mine, theirs = os.pipe()
        os.dup2(theirs, number)
        os.close(theirs)
        threading.Thread(target=self.pump, args=(mine,), daemon=True).start()

    def pump(self, pipe):
        decode, held = codecs.getincrementaldecoder("utf-8")("replace"), b""
        while True:
            held += os.read(pipe, 65536)
            before, mark, after = held.partition(self.mark) if self.mark else (held, b"", b"")
            # If the text ends with the beginning of a mark, hold that back, because the rest of the mark may
            # follow.
            keep = 0 if mark else max(n for n in range(len(self.mark) + 1) if held.endswith(self.mark[:n]))
            text = decode.decode(before[: len(before) - keep])
            held = after if mark else held[len(held) - keep :]
            if text:
                self.stream.say(text)
            if mark:
                self.drained.set()

    def drain(self):
        self.drained.clear()
        self.mark = os.urandom(16)
        os.write(self.number, self.mark)
        self.drained.wait()


def bundle_of(value):
    forms = {"text/plain": repr(value)}
    for method, kind in FORMS.items():
        found = getattr(type(value), method, None)
        made = found(value) if found is not None else None
        if made is not None:
            forms[kind] = base64.b64encode(made).decode() if isinstance(made, bytes) else made
    if hasattr(type(value), "_repr_mimebundle_"):
        made = value._repr_mimebundle_(include=None, exclude=None)
        forms.update(made[0] if isinstance(made, tuple) else made or {})
    return forms


def show(value, is_main):
    forms = bundle_of(value)
    text = forms["text/plain"]
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        forms["text/plain"] = text[1:-1]
    fields = {FIELDS[kind]: forms.pop(kind) for kind in list(forms) if kind in FIELDS}
    tell("result", is_main_result=is_main, extra=forms, **fields)


def display(*values, **_options):
    for value in values:
        show(value, False)


def run(code, names, count):
    name = "<cell %d>" % count
    linecache.cache[name] = (len(code), None, code.splitlines(True), name)
    tree = ast.parse(code, name)
    is_silent = code.rstrip().endswith(";")
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, name, "exec"), names)
    if last is not None:
        value = eval(compile(ast.Expression(last.value), name, "eval"), names)
        if value is not None and not is_silent:
            names["_"] = names["_oh"][count] = value
            show(value, True)


def main():
    cells, names, count = os.fdopen(int(sys.argv[1]), "rb"), {"__name__": "__main__", "_oh": {}}, 0
    builtins.display = display
    streams = sys.stdout, sys.stderr = Stream("stdout", 1), Stream("stderr", 2)
    below = [Descriptor(stream.fd, stream) for stream in streams]
    for line in cells:
        cell, count = json.loads(line), count + 1
        os.environ.update(cell.get("given", {}))
        before = {name: os.environ.get(name) for name in cell["env"]}
        os.environ.update(cell["env"])
        try:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            tell("number_of_executions", execution_count=count)
            run(cell["code"], names, count)
        except BaseException as error:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            said = "".join(traceback.format_exception(type(error), error, error.__traceback__))
            tell("error", name=type(error).__name__, value=str(error), traceback=said)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        for stream in streams:
            stream.flush()
        for descriptor in below:
            descriptor.drain()
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        tell("end_of_execution")


signal.signal(signal.SIGINT, signal.SIG_IGN)
main()
