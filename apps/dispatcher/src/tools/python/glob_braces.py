"""The alternatives that the braces of a glob pattern stand for, like the package brace-expansion."""

MAX_EXPANSIONS = 10_000
SEQUENCE = re.compile(r"-?[0-9]+\.\.-?[0-9]+(?:\.\.-?[0-9]+)?|[a-zA-Z]\.\.[a-zA-Z](?:\.\.-?[0-9]+)?")
OPEN, CLOSE = "\x00o", "\x00c"  # braces that are text. A path has no NUL.


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
