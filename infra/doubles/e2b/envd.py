"""What envd is inside of an E2B sandbox, as far as SDKs and backends use it: Connect-JSON `process.Process` and
`filesystem.Filesystem`, `/files`, `/health`. Start: `python3 -I envd.py SOCKET [SOCKET OF THE CODE INTERPRETER]`; ENVD_TOKEN is the access token.

It runs inside the sandbox: pids, paths and users are the sandbox's own. Not spoken: pty, watching, signed URLs (unimplemented).
"""
import base64
import email.parser
import email.policy
import json
import os
import pwd
import sys
from urllib.parse import parse_qs, urlsplit

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from envd_files import FILE_CALLS, Refused, expand  # noqa: E402
from envd_processes import PROCESS_CALLS, PROCESS_STREAMS, given  # noqa: E402
from unix_http import JsonHandler, Server  # noqa: E402

TOKEN = os.environ.pop("ENVD_TOKEN", "")
# What every process of the sandbox gets.
GIVEN = json.loads(os.environ.pop("ENVD_ENVIRONMENT", "{}"))
GIVEN.update({name: value for name, value in os.environ.items() if name.startswith("E2B_")})
given.update(GIVEN)
HTTP_OF = {"not_found": 404, "already_exists": 409, "invalid_argument": 400, "unauthenticated": 401, "unimplemented": 501}
CALLS = {**PROCESS_CALLS, **FILE_CALLS}


class Handler(JsonHandler):
    def refuse(self, code, message):
        self.answer_json(HTTP_OF.get(code, 500), {"code": code, "message": message})

    def allowed(self):
        if not TOKEN or self.headers.get("X-Access-Token") == TOKEN:
            return True
        self.read_body()
        self.refuse("unauthenticated", "missing or wrong access token")
        return False

    def has_user(self, query):
        """Whom the caller names; nobody means the default user. As whom else would need rights that a jail has not."""
        scheme, _, said = self.headers.get("Authorization", "").partition(" ")
        named = base64.b64decode(said).decode().partition(":")[0] if scheme == "Basic" else ""
        name = named or query.get("username", [""])[0]
        if name in ("", pwd.getpwuid(os.getuid()).pw_name):
            return True
        known = any(name == one.pw_name for one in pwd.getpwall())
        words = "this double runs nothing as %s" % name if known else "error looking up user '%s': user: unknown user %s" % (name, name)
        code = "unimplemented" if known else "unauthenticated"
        if urlsplit(self.path).path == "/files":
            self.answer_json(HTTP_OF[code], {"code": HTTP_OF[code], "message": words})
        else:
            self.refuse(code, words)
        return False

    def do_GET(self):
        url = urlsplit(self.path)
        if url.path == "/health":
            return self.answer(204)
        if not self.allowed():
            return None
        if url.path == "/envs":
            return self.answer_json(200, GIVEN)
        if url.path != "/files":
            return self.answer(404, b'{"code":404,"message":"no such path"}')
        if not self.has_user(parse_qs(url.query)):
            return None
        path = expand(parse_qs(url.query).get("path", [""])[0])
        if os.path.isdir(path):
            return self.answer(400, b'{"code":400,"message":"path is a directory"}')
        try:
            with open(path, "rb") as source:
                self.answer(200, source.read(), "application/octet-stream")
        except FileNotFoundError:
            self.answer(404, b'{"code":404,"message":"path does not exist"}')

    def do_POST(self):
        url = urlsplit(self.path)
        if not self.allowed():
            return None
        body = self.read_body()
        if not self.has_user(parse_qs(url.query)):
            return None
        if url.path == "/files":
            return self.upload(body, parse_qs(url.query).get("path", [None])[0])
        try:
            if url.path in PROCESS_STREAMS:
                # One message in an envelope of five bytes.
                return self.stream(PROCESS_STREAMS[url.path](json.loads(body[5:])))
            if url.path in CALLS:
                return self.answer(200, json.dumps(CALLS[url.path](json.loads(body or b"{}"))).encode())
            return self.refuse("unimplemented", "%s is not spoken by this double" % url.path)
        except Refused as error:
            return self.refuse(error.code, error.message)
        except (KeyError, TypeError, ValueError) as error:
            return self.refuse("invalid_argument", "malformed message: %r" % error)

    def upload(self, body, wanted):
        kind = self.headers.get("Content-Type", "")
        if kind.startswith("multipart/"):
            parser = email.parser.BytesParser(policy=email.policy.HTTP)
            parts = parser.parsebytes(b"Content-Type: " + kind.encode() + b"\r\n\r\n" + body).iter_parts()
            files = [(wanted or part.get_filename(), part.get_payload(decode=True)) for part in parts]
        else:
            files = [(wanted, body)]
        written = []
        for name, content in files:
            path = expand(name or "")
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as target:
                target.write(content or b"")
            written.append({"name": os.path.basename(path), "path": path, "type": "file"})
        return self.answer(200, json.dumps(written).encode())

    def stream(self, messages):
        # What is refused before the first message is a message too: a stream's errors stand in its last one.
        self.begin_stream("application/connect+json")
        last = {}
        try:
            for message in messages:
                self.envelope(0, message)
        except Refused as error:
            last = {"error": {"code": error.code, "message": error.message}}
        except (BrokenPipeError, ConnectionResetError):
            # Whoever read is gone; the program runs on.
            self.close_connection = True
            return
        finally:
            messages.close()
        self.envelope(2, last)
        self.end_stream()

    def envelope(self, flags, message):
        payload = json.dumps(message).encode()
        self.chunk(bytes([flags]) + len(payload).to_bytes(4, "big") + payload)


if len(sys.argv) > 2:
    import interpreter

    interpreter.listen(sys.argv[2], TOKEN, GIVEN)
Server(sys.argv[1], Handler).serve_forever()
