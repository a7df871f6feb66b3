"""The parts of E2B's envd that SDKs and backends use: Connect-JSON `process.Process` and
`filesystem.Filesystem`, `/files`, `/envs`, `/health`. Start: `python3 -I envd.py SOCKET [SOCKET OF THE CODE
INTERPRETER]`; ENVD_TOKEN is the access token.

It runs in the sandbox, whose pids, paths and users it uses. Not supported: pty, metadata of files.
"""
import base64
import json
import os
import pwd
import sys
from urllib.parse import parse_qs, urlsplit

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from envd_call import Call  # noqa: E402
from envd_files import FILE_CALLS, Refused  # noqa: E402
from envd_processes import PROCESS_CALLS, PROCESS_STREAMS, given  # noqa: E402
from envd_transfer import Failed, check_access, download, first, upload  # noqa: E402
from envd_watch import WATCH_CALLS, WATCH_STREAMS  # noqa: E402
from unix_http import JsonHandler, Server  # noqa: E402

TOKEN = os.environ.pop("ENVD_TOKEN", "")
# Environment variables of every process in the sandbox.
GIVEN = json.loads(os.environ.pop("ENVD_ENVIRONMENT", "{}"))
GIVEN.update({name: value for name, value in os.environ.items() if name.startswith("E2B_")})
given.update(GIVEN)
HTTP_OF = {
    "not_found": 404,
    "already_exists": 409,
    "invalid_argument": 400,
    "unauthenticated": 401,
    "unimplemented": 501,
    "deadline_exceeded": 504,
}
CALLS = {**PROCESS_CALLS, **FILE_CALLS, **WATCH_CALLS}
STREAMS = {**PROCESS_STREAMS, **WATCH_STREAMS}
UNAUTHORIZED = "unauthorized access, please provide a valid access token or method signing if supported"


class Handler(JsonHandler):
    def refuse(self, code, message):
        """Refuses like Connect: a stream's error is its last message."""
        if not self.headers.get("Content-Type", "").startswith("application/connect+"):
            return self.answer_json(HTTP_OF.get(code, 500), {"code": code, "message": message})
        self.begin_stream("application/connect+json")
        self.envelope(2, {"error": {"code": code, "message": message}})
        return self.end_stream()

    def fail(self, status, message):
        self.answer_json(status, {"code": status, "message": message})

    def allowed(self):
        if not TOKEN or self.headers.get("X-Access-Token") == TOKEN:
            return True
        self.fail(401, UNAUTHORIZED)
        return False

    def user(self, query):
        """The user that the caller names; empty for the default user."""
        scheme, _, said = self.headers.get("Authorization", "").partition(" ")
        named = base64.b64decode(said).decode().partition(":")[0] if scheme == "Basic" else ""
        return named or first(query, "username") or ""

    def do_GET(self):
        url = urlsplit(self.path)
        if url.path == "/health":
            return self.answer(204)
        if url.path == "/files":
            return self.files(url, "read", self.give)
        if not self.allowed():
            return None
        if url.path == "/envs":
            return self.answer_json(200, GIVEN)
        return self.fail(404, "no such path")

    def do_POST(self):
        url = urlsplit(self.path)
        body = self.read_body()
        if url.path == "/files":
            return self.files(url, "write", lambda query: self.take(query, body))
        if not self.allowed():
            return None
        why = stranger(self.user({}))
        if why is not None:
            return self.refuse(*why)
        try:
            if url.path in STREAMS:
                # The body is one message behind a head of five bytes.
                call = Call(self.headers, self.connection)
                return self.stream(STREAMS[url.path](json.loads(body[5:]), call))
            if url.path in CALLS:
                return self.answer(200, json.dumps(CALLS[url.path](json.loads(body or b"{}"))).encode())
            return self.refuse("unimplemented", "%s is not spoken by this double" % url.path)
        except Refused as error:
            return self.refuse(error.code, error.message)
        except (KeyError, TypeError, ValueError) as error:
            return self.refuse("invalid_argument", "malformed message: %r" % error)
        except OSError as error:
            return self.refuse("internal", str(error))

    def files(self, url, operation, act):
        query = parse_qs(url.query, keep_blank_values=True)
        try:
            check_access(TOKEN, self.headers.get("X-Access-Token"), query, operation)
            name = self.user(query)
            code, words = stranger(name) or (None, None)
            if code == "unauthenticated":
                raise Failed(401, "error looking up user '%s': user: unknown user %s" % (name, name))
            if code is not None:
                raise Failed(500, words)
            return act(query)
        except Failed as error:
            return self.fail(error.status, error.message)

    def take(self, query, body):
        self.answer_json(200, upload(first(query, "path"), self.headers, body))

    def give(self, query):
        content, encoding = download(first(query, "path"), self.headers.get("Accept-Encoding", ""))
        headers = {"Vary": "Accept-Encoding"}
        if encoding != "identity":
            headers["Content-Encoding"] = encoding
        self.answer(200, content, "application/octet-stream", headers)

    def stream(self, messages):
        # An error before the first message is also the last message of the stream.
        self.begin_stream("application/connect+json")
        last = {}
        try:
            for message in messages:
                self.envelope(0, message)
        except Refused as error:
            last = {"error": {"code": error.code, "message": error.message}}
        except (BrokenPipeError, ConnectionResetError):
            # The reader is gone; the program runs on.
            self.close_connection = True
            return
        finally:
            messages.close()
        self.envelope(2, last)
        self.end_stream()

    def envelope(self, flags, message):
        payload = json.dumps(message).encode()
        self.chunk(bytes([flags]) + len(payload).to_bytes(4, "big") + payload)


def stranger(name):
    """Says why this user cannot run anything. None for the sandbox's own user: a jail cannot switch to
    another one.
    """
    if name in ("", pwd.getpwuid(os.getuid()).pw_name):
        return None
    if any(name == one.pw_name for one in pwd.getpwall()):
        return "unimplemented", "this double runs nothing as %s" % name
    return "unauthenticated", "invalid username: '%s'" % name


if len(sys.argv) > 2:
    import interpreter

    interpreter.listen(sys.argv[2], TOKEN, GIVEN)
Server(sys.argv[1], Handler).serve_forever()
