"""Runs a Python program in the template's own code interpreter, in place of the agent's interpreter.

Input is JSON: {"source", "argv", "env", "token"}. Output passes through, results become files in `results/`,
the value is the last expression. An interrupt goes to the kernel over a socket. If the program closed that
socket, an interrupt closes the connection to the interpreter instead, and this process ends when the kernel
is free. The program may forge the kernel's messages, but it can only make its own run fail.
"""
import base64
import http.client
import json
import os
import re
import signal
import socket
import sys

# A frame holds a result in all its forms. A larger one ends the run.
FRAME_MAX = 32 * 1024 * 1024
# No report has more figures. Further results are only counted, on stderr.
RESULTS_MAX = 100
FOLDER = "results"
# Forms of a result, with the endings of their files. BYTES are forms in base64, OBJECTS are JSON values.
TEXTS = {"html": "html", "markdown": "md", "svg": "svg", "latex": "tex", "javascript": "js", "text": "txt"}
BYTES = {"png": "png", "jpeg": "jpg", "pdf": "pdf"}
OBJECTS = {"json": "json", "data": "data.json", "chart": "chart.json"}

# Runs in the kernel, in its own namespace: removes the previous program's environment and the service's own,
# and sets this program's. A kernel's streams take only text, so they get a `buffer` that decodes bytes as
# UTF-8.
SET_UP = """
import builtins, codecs, io, json, os, signal, socket, sys, threading
class Bytes(io.RawIOBase):
    def __init__(self, stream):
        self.stream, self.decoder = stream, codecs.getincrementaldecoder("utf-8")("replace")
    def writable(self):
        return True
    def write(self, data):
        data = bytes(data)
        self.stream.write(self.decoder.decode(data))
        return len(data)
    def flush(self):
        self.stream.flush()
for stream in (sys.stdout, sys.stderr):
    if not hasattr(stream, "buffer"):
        stream.buffer = Bytes(stream)
for name in [name for name in os.environ if name.startswith("E2B_")]:
    del os.environ[name]
for name, value in getattr(builtins, "__cofferdam_env__", {}).items():
    os.environ.pop(name, None) if value is None else os.environ.update({name: value})
given = json.loads(%r)
builtins.__cofferdam_env__ = {name: os.environ.get(name) for name in given["env"]}
os.environ.update(given["env"])
os.chdir(given["cwd"])
sys.argv[:] = given["argv"]
def obey(interrupts):
    with interrupts:
        while interrupts.recv(1):
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
interrupts = socket.socket(socket.AF_UNIX)
interrupts.connect(given["interrupts"])
threading.Thread(target=obey, args=(interrupts,), daemon=True).start()
"""
# Prints the exact value of the last program as JSON, or its repr where JSON has no form. The text of a result
# is not exact: it lacks quotes.
TELL = """
import json
try:
    text = json.dumps(given)
except (TypeError, ValueError, RecursionError):
    text = json.dumps(repr(given))
print(text if len(text) <= 65536 else "null")
"""
# Variables that name the proxy, which listens on loopback while this process runs.
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


class Broken(Exception):
    pass


headers = {"Content-Type": "application/json"}


def frames(code):
    """Frames of the kernel until the last one."""
    connection = http.client.HTTPConnection("127.0.0.1", 49999)
    try:
        connection.request("POST", "/execute", json.dumps({"code": code}), headers)
        response = connection.getresponse()
        if response.status != 200:
            raise Broken("the code interpreter answered %d" % response.status)
        while True:
            line = response.readline(FRAME_MAX)
            if not line:
                raise Broken("the code interpreter broke off")
            if not line.strip():
                continue
            frame = json.loads(line)
            # Accept the last line without a newline: if it had been cut, it would not parse.
            if frame["type"] == "end_of_execution":
                return
            if not line.endswith(b"\n"):
                raise Broken("the code interpreter broke off")
            if frame["type"] == "unexpected_end_of_execution":
                raise Broken("the kernel ended")
            yield frame
    except (OSError, ValueError, KeyError, TypeError, http.client.HTTPException) as error:
        raise Broken("the code interpreter broke off: %r" % error)
    finally:
        connection.close()


def quietly(code, names="{}"):
    """Runs one of our expressions, which leaves the program's variables unchanged."""
    printed = ""
    for frame in frames("exec(%r, %s)" % (code, names)):
        if frame["type"] == "error":
            raise Broken("the code interpreter refused: %s" % frame.get("value"))
        printed += frame["text"] if frame["type"] == "stdout" else ""
    return printed


def clear():
    """Removes the results of the session's previous run, so that they are not reported twice."""
    for name in os.listdir(FOLDER) if os.path.isdir(FOLDER) else []:
        if re.match(r"\d+\.(data\.|chart\.)?[a-z]+$", name):
            os.unlink(os.path.join(FOLDER, name))


def keep(number, result):
    os.makedirs(FOLDER, exist_ok=True)
    for forms, encode in ((TEXTS, str.encode), (BYTES, base64.b64decode), (OBJECTS, lambda value: json.dumps(value).encode())):
        for form, ending in forms.items():
            if result.get(form) is not None:
                with open(os.path.join(FOLDER, "%d.%s" % (number, ending)), "wb") as out:
                    out.write(encode(result[form]))


def exit_code(name, value):
    if name == "SystemExit":
        return int(value) & 255 if value.lstrip("-").isdigit() else int(value not in ("", "None"))
    return 130 if name == "KeyboardInterrupt" else 1


def run(given):
    """Returns (exit code, value or None)."""
    code, cell, count, has_value = 0, 0, 0, False
    for frame in frames(given["source"]):
        kind = frame["type"]
        if kind in ("stdout", "stderr"):
            stream = sys.stdout.buffer if kind == "stdout" else sys.stderr.buffer
            stream.write(frame["text"].encode("utf-8", "replace"))
            stream.flush()
        elif kind == "result":
            count, has_value = count + 1, has_value or frame.get("is_main_result") is True
            if count <= RESULTS_MAX:
                keep(count, frame)
        elif kind == "number_of_executions":
            cell = int(frame["execution_count"])
        elif kind == "error":
            # Each field is optional.
            name, value, traceback = (str(frame.get(part) or "") for part in ("name", "value", "traceback"))
            code = exit_code(name, value)
            if name != "SystemExit":
                sys.stderr.write("%s\n" % (traceback.rstrip("\n") or "%s: %s" % (name, value)))
    if count > RESULTS_MAX:
        sys.stderr.write("%d results are not shown\n" % (count - RESULTS_MAX))
    # `_` may be the program's own variable, but the kernel's list of cell results is not.
    return code, json.loads(quietly(TELL, '{"given": _oh[%d]}' % cell)) if has_value and code == 0 and cell else None


def to_kernel(listener):
    """Handles an interrupt: passes it to the kernel, or closes the connection if the kernel has no socket."""
    try:
        kernel = listener.accept()[0]
    except BlockingIOError:
        return signal.default_int_handler

    def pass_on(number, frame):
        try:
            kernel.send(b"!")
        except OSError:
            signal.default_int_handler(number, frame)

    return pass_on


def main():
    given = json.loads(sys.stdin.buffer.read())
    env = dict(given["env"], **{name: value for name, value in os.environ.items() if name.lower() in PROXIES})
    if given.get("token"):
        headers["X-Access-Token"] = given["token"]
    clear()
    # An abstract name, since the kernel may run as another user.
    name, listener = "\0cofferdam-%s" % os.urandom(16).hex(), socket.socket(socket.AF_UNIX)
    listener.bind(name)
    listener.listen(1)
    listener.setblocking(False)
    try:
        quietly(SET_UP % json.dumps({"env": env, "cwd": os.getcwd(), "argv": ["", *given["argv"]], "interrupts": name}))
        signal.signal(signal.SIGINT, to_kernel(listener))
        try:
            return run(given)
        except KeyboardInterrupt:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            # Cells take turns, so when this one has ended, the program's has too.
            quietly("")
            return 130, None
    except KeyboardInterrupt:
        return 130, None
    except (Broken, LookupError, TypeError, ValueError) as error:
        sys.stderr.write("%s\n" % (error if isinstance(error, Broken) else "the code interpreter broke off: %r" % error))
        sys.stderr.flush()
        # It is unknown whether the kernel still has the session's variables. This signal tells the worker not
        # to reuse the sandbox.
        os.kill(os.getpid(), signal.SIGKILL)


cofferdam_code, cofferdam_value = main()
if cofferdam_code:
    raise SystemExit(cofferdam_code)
cofferdam_value
