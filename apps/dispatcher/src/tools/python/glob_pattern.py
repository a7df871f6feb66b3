"""Glob patterns as Node's fs.glob reads them: braces, `**`, `*`, `?`, classes and extended patterns.

A pattern becomes lists of parts. A part is GLOBSTAR, a name (str), or a compiled regular expression. As in
Node, a backslash separates folders, and only a part that begins with a dot matches a name that does.
glob_braces.py expands the braces. Parts are read like the package minimatch reads them.
"""

GLOBSTAR = object()
MAX_PATTERN = 65536
ANY, STAR, STAR_NOT_EMPTY, NO_DOT = "[^/]", "[^/]*?", "[^/]+?", r"(?!\.)"
POSIX = {
    "alnum": r"^\W_", "alpha": r"^\W\d_", "ascii": r"\x00-\x7f", "blank": r" \t", "cntrl": r"\x00-\x1f\x7f-\x9f",
    "digit": r"\d", "graph": r"^\s\x00-\x1f\x7f-\x9f", "lower": "a-zµß-öø-ÿ", "print": r"^\x00-\x1f\x7f-\x9f",
    "punct": r"!-#%-*,-/:;?@\[-\]_{}¡§«¶·»¿", "space": r"\s", "upper": "A-ZÀ-ÖØ-Þ", "word": r"\w", "xdigit": "A-Fa-f0-9",
}  # fmt: skip


def parse_glob(pattern):
    """The alternatives of a pattern, each a list of parts."""
    if len(pattern.encode("utf-16-le", "surrogatepass")) > 2 * MAX_PATTERN:
        raise ToolError("glob: pattern is too long")
    pattern = pattern.replace("\\", "/")
    found = [pattern]
    if re.search(r"\{[^{\n]*\}", pattern):
        head = OPEN + CLOSE if pattern.startswith("{}") else ""
        found = [head + text for text in expand(pattern[2:] if head else pattern, not head)]
    found = [text.replace(OPEN, "{").replace(CLOSE, "}") for text in found]
    split = [tidy(re.split("/+", text)) for text in dict.fromkeys(found) if text]
    # Braces may expand to an absolute path or to `..`, which would leave the folder. Drops such alternatives.
    return [[part_of(part) for part in parts] for parts in split if ".." not in parts and parts[0] != ""]


def tidy(parts):
    last = len(parts) - 1
    parts = [part for at, part in enumerate(parts) if at in (0, last) or part not in (".", "")]
    if len(parts) == 2 and parts[0] == "." and parts[1] in (".", ""):
        parts.pop()
    return [part for at, part in enumerate(parts) if part != "**" or at == 0 or parts[at - 1] != "**"]


def part_of(text):
    if text == "**":
        return GLOBSTAR
    nodes = parse_nodes(text)
    source, has_magic = source_of(nodes, True, "", True)
    if not has_magic:
        return re.sub(r"\[([^/])\]", r"\1", text)
    if re.fullmatch(r"\*+", text):
        source = NO_DOT + STAR_NOT_EMPTY
    try:
        return re.compile(source + r"\Z")
    except (re.error, OverflowError):
        raise ToolError("glob: the pattern %s cannot be read" % quoted(text))


def parse_nodes(text):
    """Splits a part into texts and extended patterns. An extended pattern is (kind, alternatives)."""
    nodes, end = read_nodes(text, 0, False)
    return nodes


def read_nodes(text, at, is_inner):
    """Reads to the end, or with `is_inner` to a `|` or `)`. Brackets hide these characters."""
    nodes, plain, bracket = [], "", -1
    while at < len(text):
        c = text[at]
        if bracket >= 0:
            if c == "]" and at > bracket + 1 + (text[bracket + 1] in "!^"):
                bracket = -1
        elif c == "[":
            bracket = at
        elif is_inner and c in "|)":
            break
        elif c in "!?+*@" and text[at + 1 : at + 2] == "(":
            found = read_group(text, at)
            if found is not None:
                nodes += [plain, found[0]]
                plain, at = "", found[1]
                continue
        plain += c
        at += 1
    return nodes + [plain], at


def read_group(text, at):
    """The extended pattern that begins at `at`, and where it ends. None when it is not closed."""
    kind, alternatives, at = text[at], [], at + 1
    while at < len(text) and text[at] != ")":
        nodes, at = read_nodes(text, at + 1, True)
        alternatives.append(nodes)
    return ((kind, alternatives), at + 1) if at < len(text) else None


def source_of(nodes, is_start, rest, is_end):
    """The regular expression for `nodes`, which `rest` follows. Returns it, and whether any of it is magic."""
    sources, has_magic = [], False
    for node in reversed(nodes):
        own_start = is_start and node is first_of(nodes)
        if isinstance(node, str):
            source, magic = plain_source(node)
            if own_start and magic and node[0] in "*?[" and not source.startswith("\\"):
                source = NO_DOT + source
        else:
            source, magic = group_source(node, own_start, rest), True
        has_magic = has_magic or magic
        sources.insert(0, source)
        rest = source + rest
    return "".join(sources), has_magic


def first_of(nodes):
    return next((node for node in nodes if node != ""), None)


def group_source(node, is_start, rest):
    kind, alternatives = node
    body = "|".join(source_of(one, is_start, "", False)[0] for one in alternatives)
    no_dot = NO_DOT if is_start else ""
    if kind == "!":
        if body == "":
            return no_dot + STAR_NOT_EMPTY
        return "(?:(?!(?:%s)%s\\Z)%s%s)" % (body, rest, no_dot, STAR)
    if kind in "@?":
        return "(?:%s)%s" % (body, "?" if kind == "?" else "")
    later = "|".join(source_of(one, False, "", False)[0] for one in alternatives)
    if later == body:
        return "(?:%s)%s" % (body, kind)
    return "(?:(?:%s)(?:%s)*?)%s" % (body, later, "?" if kind == "*" else "")


def plain_source(text):
    source, has_magic, at = "", False, 0
    while at < len(text):
        c = text[at]
        if c == "[":
            found, magic, length = class_source(text[at:])
            if length:
                source, has_magic, at = source + found, has_magic or magic, at + length
                continue
        if c == "*":
            if not source.endswith(STAR) or text[at - 1] != "*":
                source += STAR
        else:
            source += ANY if c == "?" else re.escape(c)
        has_magic = has_magic or c in "*?"
        at += 1
    return source, has_magic


def class_source(text):
    """A class at the start of `text`: its source, whether it is magic, and its length. 0: it is not closed."""
    negates = text[1:2] in ("!", "^")
    at = begin = 2 if negates else 1
    parts, ranges, begun = [], [], ""
    while at < len(text) and (text[at] != "]" or at == begin):
        named = re.match(r"\[:(\w+):\]", text[at:])
        c = text[at]
        if named and named[1] in POSIX:
            if begun:
                return "(?!)", True, len(text)
            parts.append(POSIX[named[1]])
            at += len(named[0])
        elif begun:
            if c >= begun:
                ranges.append(re.escape(begun) + ("-" + re.escape(c) if c > begun else ""))
            begun, at = "", at + 1
        elif text.startswith("-]", at + 1):
            ranges.append(re.escape(c) + r"\-")
            at += 2
        elif text.startswith("-", at + 1):
            begun, at = c, at + 2
        else:
            ranges.append(re.escape(c))
            at += 1
    if at >= len(text):
        return "", False, 0
    if not ranges and not parts:
        return "(?!)", True, len(text)
    if not parts and not negates and len(ranges) == 1 and len(ranges[0].lstrip("\\")) <= 1:
        return ranges[0], False, at + 1
    options = ["[%s]" % "".join(ranges)] if ranges else []
    options += ["[%s]" % part for part in parts]
    joined = "|".join(options)
    return ("(?!%s)%s" % (joined, ANY) if negates else "(?:%s)" % joined), True, at + 1
