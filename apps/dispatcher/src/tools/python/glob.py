"""Finds files by a glob pattern, as Node's fs.glob walks: one step of the pattern for one step of the path."""

import signal


class Walk:
    """`found` are the entries that match, at most `most`, in Node's order: (path, is a regular file)."""

    def __init__(self, root, skipped, most):
        self.root, self.skipped, self.most = root, skipped, most
        self.found = {}
        self.seen = set()
        self.names = {}

    def run(self, patterns):
        queue = [(b"", [(pattern, frozenset([0])) for pattern in patterns])]
        while queue:
            path, tasks = queue.pop()
            deeper = {}
            for pattern, indexes in tasks:
                self.visit(path, pattern, indexes, deeper)
                if len(self.found) >= self.most:
                    return
            queue += deeper.items()

    def full(self, path):
        return os.path.join(self.root, path) if path else self.root

    def mode(self, path):
        try:
            return os.lstat(self.full(path)).st_mode
        except OSError:
            return None

    def add(self, path, mode):
        self.found.setdefault(path, stat.S_ISREG(mode))

    def children(self, path):
        if path not in self.names:
            try:
                with os.scandir(self.full(path)) as entries:
                    self.names[path] = sorted(entry.name for entry in entries)
            except OSError:
                self.names[path] = []
        return self.names[path]

    def visit(self, path, pattern, indexes, deeper):
        if (path, id(pattern), indexes) in self.seen:
            return
        self.seen.add((path, id(pattern), indexes))
        if 0 in indexes and pattern[0] == ".":
            # A leading `.` names the folder itself, so the next part is used.
            return self.visit(path, pattern, frozenset([1]), deeper)
        mode, last = self.mode(path), len(pattern) - 1
        if mode is None:
            return
        final = pattern[-1]
        if last in indexes and isinstance(final, str):
            name = to_bytes(final)
            found = self.mode(os.path.join(path, name)) if name else None
            if found is not None:
                self.add(os.path.join(path, name), found)
            if indexes == {last}:
                return
        elif last in indexes and final is GLOBSTAR and (path or pattern[0] == "."):
            self.add(path, mode)
        # Symbolic links to folders are followed only where the pattern names them without wildcards.
        if not stat.S_ISDIR(mode) and not stat.S_ISLNK(mode):
            return
        only = pattern[min(indexes)] if len(indexes) == 1 and min(indexes) <= last else None
        names = [to_bytes(only)] if isinstance(only, str) else self.children(path)
        for name in names:
            self.step(os.path.join(path, name), name, pattern, indexes, deeper)

    def step(self, path, name, pattern, indexes, deeper):
        mode = self.mode(path)
        text = name.decode("utf-8", "replace")
        if mode is None or to_bytes(text) != name:
            return
        is_folder, last, following = stat.S_ISDIR(mode), len(pattern) - 1, set()
        for index in indexes:
            part = pattern[index] if index <= last else None
            if part is GLOBSTAR:
                if name in self.skipped or (text[0] == "." and not matches(pattern, index + 1, text)):
                    continue
                next_matches = matches(pattern, index + 1, text)
                if is_folder:
                    following.add(index)
                elif index == last:
                    self.add(path, mode)
                if next_matches and index + 1 == last and last not in indexes:
                    self.add(path, mode)
                elif next_matches and is_folder:
                    following.add(index + 2)
                if (next_matches or pattern[0] == ".") and is_folder:
                    following.add(index + 1)
            elif isinstance(part, str):
                if part == text and index != last:
                    following.add(index + 1)
            elif part is not None and part.match(text):
                if index == last:
                    self.add(path, mode)
                elif is_folder:
                    following.add(index + 1)
        if following and not (is_folder and name in self.skipped):
            deeper.setdefault(path, []).append((pattern, frozenset(following)))


def matches(pattern, index, text):
    if index >= len(pattern):
        return False
    part = pattern[index]
    return part is GLOBSTAR or (part == text if isinstance(part, str) else part.match(text) is not None)


def out_of_time(*_):
    raise TimeoutError


def glob(call):
    pattern = call["pattern"]
    if pattern.startswith("/"):
        raise ToolError("glob: absolute pattern not permitted; pass a relative pattern (and optionally path)")
    if ".." in re.split(r"[\\/{},]", pattern):
        raise ToolError('glob: ".." is not permitted in the pattern')
    if call["path"]:
        root = real_root = confine(call, call["path"])
    else:
        root = to_bytes(call["workdir"])
        real_root = canonical(root)
    signal.signal(signal.SIGALRM, out_of_time)
    signal.setitimer(signal.ITIMER_REAL, call["timeout_ms"] / 1000)
    try:
        walk = Walk(root, {to_bytes(name) for name in call["skipped"]}, call["most_entries"])
        walk.run(parse_glob(pattern))
        found = [(path, time) for path, time in map(dated, files(walk)) if is_inside(real_root, path)]
    except TimeoutError:
        raise ToolError("glob: timed out after %gs" % (call["timeout_ms"] / 1000))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    found.sort(key=lambda one: -one[1])
    return b"\n".join(path for path, time in found[: call["most"]]) or "no matches"


def files(walk):
    return [walk.full(path) for path, is_file in walk.found.items() if is_file]


def is_inside(root, path):
    try:
        return is_within(root, realpath(path))
    except OSError:
        return False


def dated(path):
    """Returns the path with its modification time in milliseconds, or 0 if the time cannot be read."""
    try:
        time = os.stat(path).st_mtime_ns
    except OSError:
        return path, 0
    return path, time // 10**9 * 1000 + time % 10**9 / 1e6


answer(glob)
