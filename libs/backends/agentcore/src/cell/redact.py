"""Keeps secrets out of a session's output: registered values in their usual encodings, and what looks like a
token.

This happens before output leaves the machine. The worker redacts all bytes again and passes on its own
result.
"""
import base64
import binascii
import codecs
import io
import re
import sys
import types
from urllib.parse import quote

MARK = b"<redacted>"
# Bytes that may begin a secret wait for more, up to this many, as in the worker's redactor.
HOLD_MAX = 8192
# Shorter values occur in ordinary text by chance.
SECRET_MIN = 12
LOOKS = re.compile(
    rb"(?<=Bearer )[\w.~+/=-]{16,}|\beyJ[\w-]{13,}\.[\w-]{4,}\.[\w-]{16,}|\bgh[oprsu]_\w{20,}|\bgithub_pat_\w{20,}|\bglpat-[\w-]{20,}"
    rb"|\bxox[abep]-[\w-]{10,}|\bya29\.[\w-]{20,}|\b(?:AKIA|ASIA)[0-9A-Z]{16}\b|\bAIza[\w-]{35}"
    rb"|-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,30}PRIVATE KEY-----|\Z)",
    re.S,
)

HEADS = [b"eyJ", *(b"gh%c_" % kind for kind in b"oprsu"), b"github_pat_", b"glpat-", *(b"xox%c-" % kind for kind in b"abep"), b"ya29."]
HEADS += [b"AKIA", b"ASIA", b"AIza"]


def begins(head):
    return b"|".join(re.escape(head[:size]) for size in range(1, len(head)))


# "Bearer" counts even directly after a letter.
BEGUN = re.compile(
    rb"(?:%s)\Z|\b(?:%s|(?:%s)\Z)" % (begins(b"Bearer "), b"|".join(map(re.escape, HEADS)), b"|".join(map(begins, HEADS)))
)  # fmt: skip
# Dashes after KEY end a PEM header or footer; they do not begin one.
KEY_BEGUN = re.compile(
    b"".join(rb"(?<!KEY%s)" % (b"-" * behind) for behind in range(5))
    + rb"-{1,5}\Z|-----B[A-Z ]{0,46}-{0,4}\Z|-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----(?:(?!-----END [A-Z ]{0,30}PRIVATE KEY-----).)*\Z",
    re.S,
)  # fmt: skip
TOKEN = bytes(range(48, 58)) + bytes(range(65, 91)) + bytes(range(97, 123)) + b"_.~+/=-"


def open_look(data):
    """Number of bytes at the end that look like an incomplete token."""
    tail = data[-HOLD_MAX:]
    run = len(tail.rstrip(TOKEN))
    starts = [found.start() for found in (BEGUN.search(tail, run), KEY_BEGUN.search(tail)) if found is not None]
    if tail[:run].endswith(b"Bearer "):
        starts.append(run - len(b"Bearer "))
    return len(tail) - min(starts, default=len(tail))


def forms(secret):
    plain, urlsafe = base64.b64encode(secret), base64.urlsafe_b64encode(secret)
    every = [secret, plain, urlsafe, plain.rstrip(b"="), urlsafe.rstrip(b"="), quote(secret, safe="").encode()]
    return every + [binascii.hexlify(secret), binascii.hexlify(secret).upper()]


class Redactor:
    def __init__(self):
        self._forms, self._known = set(), None

    def register(self, token):
        secret = token.encode() if isinstance(token, str) else bytes(token)
        if len(secret) < SECRET_MIN:
            return
        self._forms.update(forms(secret))
        longest_first = sorted(self._forms, key=len, reverse=True)
        self._known = re.compile(b"|".join(re.escape(form) for form in longest_first))

    def redact(self, data):
        return LOOKS.sub(MARK, self.without_known(data))

    def without_known(self, data):
        return data if self._known is None else self._known.sub(MARK, data)

    def open_end(self, data):
        """Number of bytes at the end that begin a registered form and do not complete it."""
        longest = 0
        for form in self._forms:
            for size in range(min(len(form) - 1, len(data), HOLD_MAX), longest, -1):
                # The first byte rules out most forms.
                if data[-size] == form[0] and data.endswith(form[:size]):
                    longest = size
                    break
        return longest

    def decided(self, data):
        """Number of leading bytes whose redaction later bytes cannot change. A complete form may be the
        beginning of a longer one."""
        cut = len(data) - self.open_end(data)
        if self._known is None or cut == len(data):
            return cut
        return next((found.start() for found in self._known.finditer(data) if found.start() < cut < found.end()), cut)


class Redaction:
    """Redacts one stream piece by piece: first registered values, then what looks like a token."""

    def __init__(self, redactor):
        self._redactor, self._raw, self._held = redactor, b"", b""

    def take(self, data):
        raw = self._raw + data
        cut = self._redactor.decided(raw)
        self._raw = raw[cut:]
        whole = self._held + self._redactor.without_known(raw[:cut])
        cut = len(whole) - open_look(whole)
        self._held = whole[cut:]
        return LOOKS.sub(MARK, whole[:cut])

    def end(self):
        rest = self._held + self._redactor.without_known(self._raw)
        self._raw = self._held = b""
        return LOOKS.sub(MARK, rest)


class RedactingBuffer(io.RawIOBase):
    """Holds back what may become a registered secret until later bytes decide, even across a flush or a
    newline.
    """

    def __init__(self, redactor, sink, flush):
        self._redactor, self._sink, self._flush, self._held = redactor, sink, flush, b""

    def writable(self):
        return True

    def write(self, data):
        given = bytes(data)
        whole = self._redactor.redact(self._held + given)
        keep = self._redactor.open_end(whole)
        self._held = whole[len(whole) - keep :]
        self._sink(whole[: len(whole) - keep])
        return len(given)

    def flush(self):
        self._flush()


class RedactingStream(io.TextIOWrapper):
    """A text stream that redacts. Has the attributes of `stream` too: ipykernel calls its `set_parent`."""

    def __init__(self, redactor, stream):
        self._stream = stream
        decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        buffer = RedactingBuffer(redactor, lambda data: stream.write(decode(data)), stream.flush)
        super().__init__(buffer, encoding="utf-8", errors="replace", newline="", write_through=True)

    def __getattr__(self, name):
        return getattr(object.__getattribute__(self, "_stream"), name)


def install(redactor):
    """Wraps both streams, publishes itself as `sitecustomize`, and asserts that it works."""
    streams = RedactingStream(redactor, sys.stdout), RedactingStream(redactor, sys.stderr)
    module = types.ModuleType("sitecustomize")
    module.installed = lambda: (sys.stdout, sys.stderr) == streams
    module.register_token = redactor.register
    sys.modules["sitecustomize"] = module
    sys.stdout, sys.stderr = streams
    prove()
    assert module.installed()


def prove():
    said, own = [], Redactor()
    own.register("a canary and no secret")
    sink = types.SimpleNamespace(write=said.append, flush=lambda: None)
    stream = RedactingStream(own, sink)
    for part in ("x a canary ", "and no", " secret\n"):
        stream.write(part)
        stream.flush()
    assert "".join(said) == "x <redacted>\n", said
