"""Glob patterns as Node's fs.glob reads them: braces, `**`, `*`, `?`, classes and extended patterns.

A pattern becomes lists of parts. A part is GLOBSTAR, a name (str), or a compiled regular expression. Like there,
a backslash separates folders, and a name with a leading dot has to be asked for.
"""

GLOBSTAR = object()
MAX_PATTERN = 65536
MAX_EXPANSIONS = 10_000
ANY, STAR, STAR_NOT_EMPTY, NO_DOT = "[^/]", "[^/]*?", "[^/]+?", r"(?!\.)"
POSIX = {
    "alnum": r"^\W_", "alpha": r"^\W\d_", "ascii": r"\x00-\x7f", "blank": r" \t", "cntrl": r"\x00-\x1f\x7f-\x9f",
    "digit": r"\d", "graph": r"^\s\x00-\x1f\x7f-\x9f", "lower": "a-zµß-öø-ÿ", "print": r"^\x00-\x1f\x7f-\x9f",
    "punct": r"!-#%-*,-/:;?@\[-\]_{}¡§«¶·»¿", "space": r"\s", "upper": "A-ZÀ-ÖØ-Þ", "word": r"\w", "xdigit": "A-Fa-f0-9",
}  # fmt: skip
SEQUENCE = re.compile(r"-?[0-9]+\.\.-?[0-9]+(?:\.\.-?[0-9]+)?|[a-zA-Z]\.\.[a-zA-Z](?:\.\.-?[0-9]+)?")
OPEN, CLOSE = "\x00o", "\x00c"  # braces that are text. A path has no NUL.


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
    # What braces make of an absolute path, or of a way up, would leave the folder.
    return [[part_of(part) for part in parts] for parts in split if ".." not in parts and parts[0] != ""]


def tidy(parts):
    last = len(parts) - 1
    parts = [part for at, part in enumerate(parts) if at in (0, last) or part not in (".", "")]
    if len(parts) == 2 and parts[0] == "." and parts[1] in (".", ""):
        parts.pop()
    return [part for at, part in enumerate(parts) if part != "**" or at == 0 or parts[at - 1] != "**"]


# ---- Braces, like the package brace-expansion.


def balanced(text):
    """The first pair of braces that belong together: where it opens and where it closes, or None."""
    opening, closing = text.find("{"), text.find("}", text.find("{") + 1)
    if opening < 0 or closing < 0:
        return None
    at, begun, left, right = opening, [], len(text), None
    while at >= 0:
        if at == opening:
            begun.append(at)
            opening = text.find("{", at + 1)
        elif len(begun) == 1:
            return begun.pop(), closing
        else:
            begin = begun.pop() if begun else len(text)
            if begin < left:
                left, right = begin, closing
            closing = text.find("}", at + 1)
        at = opening if 0 <= opening < closing else closing
    return (left, right) if begun and right is not None else None


def expand(text, is_top):
    pair = balanced(text)
    if pair is None:
        return [text]
    before, body, after = text[: pair[0]], text[pair[0] + 1 : pair[1]], text[pair[1] + 1 :]
    if before.endswith("$"):
        return [before + "{" + body + "}" + rest for rest in expand(after, False)]
    is_sequence = SEQUENCE.fullmatch(body) is not None
    if is_sequence:
        values = sequence(body)
    elif "," in body:
        values = [value for part in comma_parts(body) for value in expand(part, False)]
        inner = comma_parts(body)
        if len(inner) == 1:
            values = ["{" + value + "}" for value in expand(inner[0], False)]
    elif re.search(r",(?!,).*\}", after):
        return expand(before + "{" + body + CLOSE + after, True)
    else:
        return [text]
    rests = expand(after, False) if after else [""]
    if len(values) * len(rests) > MAX_EXPANSIONS:
        raise ToolError("glob: the pattern has more than %d alternatives" % MAX_EXPANSIONS)
    made = [before + value + rest for value in values for rest in rests]
    return [one for one in made if one] if is_top and not is_sequence else made


def comma_parts(text):
    """Splits at the commas that are not inside braces."""
    pair = balanced(text) if text else None
    if pair is None:
        return text.split(",")
    parts = text[: pair[0]].split(",")
    parts[-1] += text[pair[0] : pair[1] + 1]
    after = text[pair[1] + 1 :]
    if after:
        first, *others = comma_parts(after)
        parts[-1] += first
        parts += others
    return parts


def sequence(body):
    """`1..3`, `01..10..2` or `a..e`."""
    ends = body.split("..")
    is_number = ends[0].lstrip("-").isdigit()
    first, last = (int(end) if is_number else ord(end) for end in ends[:2])
    step = max(abs(int(ends[2])), 1) if len(ends) == 3 else 1
    count = abs(last - first) // step + 1
    if count > MAX_EXPANSIONS:
        raise ToolError("glob: the pattern has more than %d alternatives" % MAX_EXPANSIONS)
    numbers = [first + at * (step if last >= first else -step) for at in range(count)]
    if not is_number:
        return ["" if chr(number) == "\\" else chr(number) for number in numbers]
    width = max(len(end) for end in ends[:2])
    is_padded = any(re.match("-?0[0-9]", end) for end in ends)
    return [str(number).zfill(width) if is_padded else str(number) for number in numbers]


# ---- One part, like the package minimatch.


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
    """Text, and extended patterns as (kind, alternatives)."""
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
