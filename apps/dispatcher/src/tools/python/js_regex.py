"""JavaScript's regular expressions in Python's notation, for a pattern that JavaScript accepts (without flags)."""

SPACES = r"\t-\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
CLASSES = {"d": "0-9", "w": "A-Za-z0-9_", "s": SPACES}
QUANTIFIER = re.compile(r"\{\d+(?:,\d*)?\}")
NAMED = re.compile(r"\(\?<([^=!>][^>]*)>")
CONTROLS = {"n": "\n", "r": "\r", "t": "\t", "f": "\f", "v": "\v"}


def translate(pattern):
    """The pattern for `re`. `re.compile` may still refuse it, for example a lookbehind of no fixed length."""
    return Translation(pattern).run()


class Translation:
    def __init__(self, pattern):
        self.text = pattern
        self.at = 0
        self.out = []
        self.groups = len(re.findall(r"\((?!\?)|\(\?<(?![=!])", unclassed(pattern)))
        # Python allows fewer group names than JavaScript, so groups are renamed.
        self.names = {name: "n%d" % number for number, name in enumerate(NAMED.findall(pattern))}
        self.numbers = {}
        self.opened = []
        self.closed = set()
        self.count = 0

    def run(self):
        while self.at < len(self.text):
            self.next()
        return "".join(self.out)

    def next(self):
        c = self.text[self.at]
        self.at += 1
        if c == "\\":
            self.out.append(self.escape())
        elif c == "[":
            self.out.append(self.klass())
        elif c == "(":
            self.open()
        elif c == ")":
            if self.opened:
                self.closed.add(self.opened.pop())
            self.out.append(")")
        elif c == ".":
            self.out.append(r"[^\n\r\u2028\u2029]")
        elif c == "$":
            self.out.append(r"\Z")
        elif c == "{":
            found = QUANTIFIER.match(self.text, self.at - 1)
            self.out.append(found[0] if found and self.at > 1 else r"\{")
            self.at += len(found[0]) - 1 if found and self.at > 1 else 0
        elif c in "^|*+?":
            self.out.append(c)
        else:
            self.out.append(re.escape(c))

    def open(self):
        rest = self.text[self.at :]
        if not rest.startswith("?"):
            self.begin_group("(")
            return
        found = NAMED.match(self.text, self.at - 1)
        if found:
            self.at += len(found[0]) - 1
            self.begin_group("(?P<%s>" % self.names[found[1]])
            self.numbers[found[1]] = self.count
            return
        found = re.match(r"\?(?:<?[=!]|[a-z-]*:)", rest)
        head = found[0] if found else "?"
        self.at += len(head)
        self.out.append("(" + head)
        self.opened.append(None)

    def begin_group(self, head):
        self.count += 1
        self.opened.append(self.count)
        self.out.append(head)

    def reference(self, number):
        """A group that has matched nothing yet matches the empty string in JavaScript."""
        return r"(?(%d)(?:\%d))" % (number, number) if number in self.closed else "(?:)"

    def escape(self):
        c = self.take()
        if c in CLASSES:
            return "[%s]" % CLASSES[c]
        if c.lower() in CLASSES and c != "":
            return "[^%s]" % CLASSES[c.lower()]
        if c in "bB":
            return "\\" + c
        if c in "123456789":
            digits = re.match(r"\d+", self.text[self.at - 1 :])[0]
            if int(digits[:9]) <= self.groups:
                self.at += len(digits) - 1
                return self.reference(int(digits))
        if c == "k" and self.names:
            name = self.text[self.at + 1 : self.text.find(">", self.at)]
            self.at += len(name) + 2
            return self.reference(self.numbers.get(name, 0))
        return re.escape(self.character(c))

    def character(self, c):
        """The character that an escape stands for, inside and outside of a class."""
        if c in CONTROLS:
            return CONTROLS[c]
        rest = self.text[self.at :]
        if c in "01234567":
            digits = re.match("[0-3][0-7]{0,2}|[4-7][0-7]?", c + rest)[0]
            self.at += len(digits) - 1
            return chr(int(digits, 8))
        if c == "x" and re.match("[0-9a-fA-F]{2}", rest):
            self.at += 2
            return chr(int(rest[:2], 16))
        if c == "u" and re.match("[0-9a-fA-F]{4}", rest):
            self.at += 4
            low = re.match(r"\\u([dD][c-fC-F][0-9a-fA-F]{2})", rest[4:])
            high = int(rest[:4], 16)
            if low and 0xD800 <= high < 0xDC00:
                self.at += 6
                return chr(0x10000 + ((high - 0xD800) << 10) + int(low[1], 16) - 0xDC00)
            return chr(high)
        if c == "c" and re.match("[A-Za-z]", rest):
            self.at += 1
            return chr(ord(rest[0]) % 32)
        if c == "c":
            self.at -= 1
            return "\\"
        return c

    def klass(self):
        negates = self.text.startswith("^", self.at)
        self.at += negates
        items = []
        while not self.text.startswith("]", self.at):
            items.append(self.item())
        self.at += 1
        body, at = "", 0
        while at < len(items):
            item = items[at]
            # A range needs a character on both sides. Otherwise the hyphen is one of the characters.
            if at + 2 < len(items) and items[at + 1] == r"\-raw":
                first, last = item, items[at + 2]
                if first[0] == "c" and last[0] == "c":
                    body += "%s-%s" % (re.escape(first[1]), re.escape(last[1]))
                    at += 3
                    continue
            body += r"\-" if item == r"\-raw" else item[1] if item[0] == "s" else re.escape(item[1])
            at += 1
        if body == "":
            return r"[\s\S]" if negates else "(?!)"
        return "[%s%s]" % ("^" if negates else "", body)

    def item(self):
        """One member of a class: ("c", character), ("s", set), or the mark of a hyphen."""
        c = self.take()
        if c == "-":
            return r"\-raw"
        if c != "\\":
            return "c", c
        c = self.take()
        if c in CLASSES:
            return "s", CLASSES[c]
        if c != "" and c in "DWS":
            return "s", "\\" + c
        return "c", "\b" if c == "b" else self.character(c)

    def take(self):
        c = self.text[self.at : self.at + 1]
        self.at += 1
        return c


def unclassed(pattern):
    """The pattern without escapes and classes, in which groups can be counted."""
    return re.sub(r"\[(?:\\.|[^\]\\])*\]", "", re.sub(r"\\[^\[\]]|\\[\[\]]", "", pattern))
