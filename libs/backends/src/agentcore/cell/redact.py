"""Keeps secrets out of what a session prints: registered values in every usual form, and tokens by their looks.

The worker redacts again, over all bytes, and decides; this is what a secret meets first, before it leaves the machine.
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
# Shorter values stand in ordinary text by chance.
SECRET_MIN = 12
LOOKS = re.compile(
    rb"(?<=Bearer )[\w.~+/=-]{16,}|\beyJ[\w-]{13,}\.[\w-]{4,}\.[\w-]{16,}|\bgh[oprsu]_\w{20,}|\bgithub_pat_\w{20,}|\bglpat-[\w-]{20,}"
    rb"|\bxox[abep]-[\w-]{10,}|\bya29\.[\w-]{20,}|\b(?:AKIA|ASIA)[0-9A-Z]{16}\b|\bAIza[\w-]{35}"
    rb"|-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,30}PRIVATE KEY-----|\Z)",
    re.S,
)


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
        if self._known is not None:
            data = self._known.sub(MARK, data)
        return LOOKS.sub(MARK, data)

    def open_end(self, data):
        """How many bytes at the end begin a registered form and do not complete it."""
        longest = 0
        for form in self._forms:
            for size in range(min(len(form) - 1, len(data)), longest, -1):
                if data.endswith(form[:size]):
                    longest = size
                    break
        return longest


class RedactingBuffer(io.RawIOBase):
    """Neither a flush nor a newline releases what may become a secret; the next bytes do."""

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
    """What else its stream can do it can too: a kernel tells its stdout which cell it prints for (ipykernel, `set_parent`)."""

    def __init__(self, redactor, stream):
        self._stream = stream
        decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        buffer = RedactingBuffer(redactor, lambda data: stream.write(decode(data)), stream.flush)
        super().__init__(buffer, encoding="utf-8", errors="replace", newline="", write_through=True)

    def __getattr__(self, name):
        return getattr(object.__getattribute__(self, "_stream"), name)


def install(redactor):
    """Puts it in front of both streams and publishes it as `sitecustomize`; asserts that it works."""
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
