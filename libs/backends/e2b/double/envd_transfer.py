"""envd's `/files`: access (by token or signed address), encodings, and errors. Errors are `{code, message}`
with the status as code (e2b-dev/E2B spec/envd/envd.yaml).
"""
import base64
import email.parser
import email.policy
import gzip
import hashlib
import hmac
import os
import time

from envd_files import Refused, expand

SUPPORTED = "supported: [gzip]"


class Failed(Exception):
    def __init__(self, status, message):
        super().__init__(message)
        self.status, self.message = status, message


def check_access(token, sent, query, operation):
    """`sent` is the caller's token or None. Without it, the address must be signed for this operation."""
    if not token:
        return
    if sent is not None:
        if sent != token:
            raise Failed(401, "access token present in header but does not match")
        return
    signature = first(query, "signature")
    if signature is None:
        raise Failed(401, "missing signature query parameter")
    until = first(query, "signature_expiration")
    parts = [first(query, "path") or "", operation, first(query, "username") or "", token]
    if until:
        parts.append(until)
    digest = base64.b64encode(hashlib.sha256(":".join(parts).encode()).digest()).decode().rstrip("=")
    if not hmac.compare_digest("v1_" + digest, signature):
        raise Failed(401, "invalid signature")
    if until and int(until) < time.time():
        raise Failed(401, "signature is already expired")


def first(query, name):
    return query.get(name, [None])[0]


def download(wanted, accepts):
    """The bytes of a file, and their encoding."""
    path = resolved(wanted)
    if os.path.isdir(path):
        raise Failed(400, "path '%s' is a directory" % path)
    if not os.path.exists(path):
        raise Failed(404, "path '%s' does not exist" % path)
    encoding = encoding_for(accepts)
    try:
        with open(path, "rb") as source:
            content = source.read()
    except OSError as error:
        raise Failed(500, "error opening file '%s': %s" % (path, error))
    return (gzip.compress(content, 1), encoding) if encoding == "gzip" else (content, encoding)


def encoding_for(accepts):
    """The encoding for this Accept-Encoding: gzip or identity."""
    wanted = [quality(part) for part in accepts.split(",")] if accepts.strip() else []
    said = dict(wanted)
    is_plain_refused = said.get("identity", said.get("*", 1)) == 0
    for name, weight in sorted(wanted, key=lambda one: -one[1]):
        if weight == 0:
            continue
        if name == "gzip" or name == "*" and is_plain_refused:
            return "gzip"
        if name in ("identity", "*"):
            return "identity"
    if is_plain_refused:
        raise Failed(406, "error parsing Accept-Encoding: no acceptable encoding found, " + SUPPORTED)
    return "identity"


def quality(part):
    name, _, rest = part.partition(";")
    weight = rest.strip().lower().partition("q=")[2]
    try:
        return name.strip().lower(), float(weight) if weight else 1.0
    except ValueError:
        return name.strip().lower(), 1.0


def upload(wanted, headers, body):
    """Writes the uploaded files and returns what was written."""
    encoding = (headers.get("Content-Encoding") or "identity").partition(";")[0].strip().lower()
    if encoding not in ("identity", "gzip"):
        words = "error decompressing request body: unsupported Content-Encoding: %s, %s"
        raise Failed(400, words % (encoding, SUPPORTED))
    try:
        content = gzip.decompress(body) if encoding == "gzip" else body
    except (OSError, EOFError) as error:
        raise Failed(400, "error decompressing request body: %s" % error)
    kind = headers.get("Content-Type", "")
    if kind.startswith("multipart/"):
        files = parts_of(kind, content, wanted)
    elif kind.partition(";")[0].strip() == "application/octet-stream":
        if wanted is None:
            raise Failed(400, "path query parameter is required for raw body upload")
        files = [(wanted, content)]
    else:
        words = "unsupported content type: %s, expected multipart/form-data or application/octet-stream"
        raise Failed(400, words % kind)
    written = []
    for name, data in files:
        path = resolved(name)
        if any(one["path"] == path for one in written):
            words = "you cannot upload multiple files to the same path '%s' in one upload request"
            raise Failed(400, words % path)
        write(path, data)
        written.append({"name": os.path.basename(path), "path": path, "type": "file"})
    return written


def parts_of(kind, content, wanted):
    parser = email.parser.BytesParser(policy=email.policy.HTTP)
    form = parser.parsebytes(b"Content-Type: " + kind.encode() + b"\r\n\r\n" + content)
    if not form.is_multipart():
        raise Failed(500, "error parsing multipart form")
    files = []
    for part in form.iter_parts():
        if part.get_param("name", header="content-disposition") == "file":
            name = wanted if wanted is not None else part.get_filename() or ""
            files.append((name, part.get_payload(decode=True)))
    return files


def write(path, data):
    if os.path.isdir(path):
        raise Failed(400, "path is a directory: %s" % path)
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
    except OSError as error:
        raise Failed(500, "error ensuring directories: %s" % error)
    try:
        with open(path, "wb") as target:
            target.write(data or b"")
    except OSError as error:
        raise Failed(500, "error opening file: %s" % error)


def resolved(name):
    try:
        return expand(name or "")
    except Refused as error:
        raise Failed(400, "error resolving path: %s" % error.message)
