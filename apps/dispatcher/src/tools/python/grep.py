"""Searches files for a regular expression: with ripgrep if the sandbox has it, otherwise line by line here."""

import codecs
import signal
import time

CHUNK = 64 * 1024
LINE_END = re.compile("\r\n|[\n\r\u2028\u2029]")


class OutOfTime(Exception):
    pass


class Full(Exception):
    pass


class Hits:
    """Lines of the answer, at most `most` UTF-16 units, which is how JavaScript counts."""

    def __init__(self, most):
        self.most, self.left, self.lines = most, most, []

    def add(self, line):
        self.left -= units(line) + 1
        if self.left < 0:
            self.lines.append("[output truncated at %d bytes]" % self.most)
            raise Full
        self.lines.append(line)


def units(text):
    return len(text) + sum(c > "\uffff" for c in text) if not text.isascii() else len(text)


def grep(call):
    path = to_bytes(call["workdir"])
    if call["path"]:
        path = confine(call, call["path"])
    rg = find_rg(call)
    return with_rg(rg, call, path) if rg else line_by_line(call, path)


# ---- ripgrep


def find_rg(call):
    """The first `rg` on PATH that is not inside a folder into which the agent writes."""
    roots = [call["workdir"]] + call["allowed"]
    for folder in os.environb.get(b"PATH", b"").split(b":"):
        candidate = os.path.join(folder, b"rg")
        try:
            if folder.startswith(b"/") and os.access(candidate, os.X_OK) and os.path.isfile(candidate):
                real = realpath(candidate)
                if containing(roots, real) is None:
                    return real
        except OSError:
            continue
    return None


def with_rg(rg, call, path):
    import subprocess  # takes longer than most searches, so only here

    command = [b"rg", b"--no-config", b"-n", b"--no-heading", b"-e", to_bytes(call["pattern"]), b"--", path]
    process = subprocess.Popen(
        command, executable=rg, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    # A UTF-16 unit has at most 3 bytes in UTF-8.
    out, errors, is_over = collect(process, 3 * call["most"] + 4, call["timeout_ms"])
    text, most = out.decode("utf-8", "replace"), call["most"]
    if is_over == "time":
        if not text:
            raise ToolError("grep: timed out after %gs" % (call["timeout_ms"] / 1000))
        return text + "[the search was cut short after %d ms]" % call["timeout_ms"]
    if units(text) > most:
        return first_units(text, most) + "\n[output truncated at %d bytes]" % most
    if process.returncode == 0:
        return text
    if process.returncode == 1:
        return "no matches"
    reason = errors.decode("utf-8", "replace") or "exit %d" % process.returncode
    raise ToolError("grep: rg failed: " + reason)


def first_units(text, most):
    return text.encode("utf-16-le")[: 2 * most].decode("utf-16-le", "replace")


def collect(process, most, timeout_ms):
    """Reads both outputs until they end, `most` bytes have come, or the time is over. Ends the process."""
    import selectors

    kept, is_over = {process.stdout: bytearray(), process.stderr: bytearray()}, None
    until = time.monotonic() + timeout_ms / 1000
    with selectors.DefaultSelector() as selector:
        for pipe in kept:
            selector.register(pipe, selectors.EVENT_READ)
        while selector.get_map() and is_over is None:
            left = until - time.monotonic()
            if left <= 0:
                is_over = "time"
                break
            for key, _ in selector.select(left):
                data = os.read(key.fd, CHUNK)
                if not data:
                    selector.unregister(key.fileobj)
                kept[key.fileobj] += data[: most - len(kept[key.fileobj])]
            if len(kept[process.stdout]) >= most:
                is_over = "size"
    if is_over is not None:
        process.kill()
    process.wait()
    return bytes(kept[process.stdout]), bytes(kept[process.stderr][:CHUNK]), is_over


# ---- Line by line


def line_by_line(call, path):
    if call["invalid"]:
        raise ToolError("grep: invalid regex: " + call["invalid"])
    signal.signal(signal.SIGALRM, out_of_time)
    signal.setitimer(signal.ITIMER_REAL, call["timeout_ms"] / 1000)
    hits = Hits(call["most"])
    try:
        search(call, compiled(call["pattern"]), path, hits)
    except OutOfTime:
        if not hits.lines:
            raise ToolError("grep: timed out after %gs" % (call["timeout_ms"] / 1000))
        hits.lines.append("[the search was cut short after %d ms]" % call["timeout_ms"])
    except Full:
        pass
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return "\n".join(hits.lines) or "no matches"


def out_of_time(*_):
    raise OutOfTime


def compiled(pattern):
    try:
        return re.compile(translate(pattern), re.ASCII)
    except (re.error, OverflowError, RecursionError) as error:
        raise ToolError(
            "grep: invalid regex: %s (this search runs in Python, which cannot run some patterns, such as a "
            "lookbehind of variable length)" % error
        )


def search(call, regex, path, hits):
    try:
        is_file = stat.S_ISREG(os.stat(path).st_mode)
    except OSError:
        return
    if is_file:
        search_file(call, regex, path, hits)
    else:
        left = [call["most_entries"]]
        walk(call, regex, path, hits, 0, left)


def walk(call, regex, folder, hits, depth, left):
    """False when enough entries were seen. Links, devices and FIFOs are not followed or opened."""
    if depth > call["most_depth"]:
        return True
    try:
        with os.scandir(folder) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return True
    for entry in found:
        if entry.name.decode("utf-8", "replace") in call["skipped"]:
            continue
        if left[0] <= 0:
            return False
        left[0] -= 1
        if entry.is_dir(follow_symlinks=False):
            if not walk(call, regex, entry.path, hits, depth + 1, left):
                return False
        elif entry.is_file(follow_symlinks=False):
            search_file(call, regex, entry.path, hits)
    return True


def search_file(call, regex, path, hits):
    name = path.decode("utf-8", "replace")
    if to_bytes(name) != path:
        return
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return
    with open(fd, "rb", buffering=0) as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return
        for number, line in lines_of(file, call["most_line"]):
            if regex.search(line):
                hits.add("%s:%d:%s" % (name, number, line))


def lines_of(file, most):
    """Numbered lines of at most `most` units. Ends with the first chunk that has a NUL: the file is binary."""
    number = 1
    for line in complete_lines(file, 4 * most):
        if line is not None and (len(line) <= most // 2 or units(line) <= most):
            yield number, line
        number += 1


def complete_lines(file, most):
    """Lines without their ends. None for one of more than `most` characters, which is never held whole."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    rest, is_long = "", False
    while True:
        try:
            data = file.read(CHUNK)
        except OSError:
            data = b""
        text = rest + decoder.decode(data, final=not data)
        # A carriage return at the end may be the first half of a line end.
        held = "\r" if data and text.endswith("\r") else ""
        *lines, rest = LINE_END.split(text[: len(text) - len(held)])
        for line in lines:
            yield None if is_long or len(line) > most else line
            is_long = False
        if b"\0" in data:
            return
        if len(rest) > most:
            rest, is_long = "", True
        rest += held
        if not data:
            if rest or is_long:
                yield None if is_long else rest
            return


answer(grep)
