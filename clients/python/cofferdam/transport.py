"""HTTP calls of the API over keep-alive connections. Calls that are safe to repeat are retried."""
from __future__ import annotations

import http.client
import json
import socket
import threading
import time
import urllib.parse
from typing import Any, Mapping, Optional

from .calls import current_call
from .errors import CofferdamError, error_of

#: Tries of a repeatable call. Pauses double from 0.1 s, which bridges a restart of the API (about 1 s).
TRIES = 5
FIRST_PAUSE = 0.1
#: Idle connections that are kept for later calls, at most.
IDLE_CONNECTIONS = 8
#: The longest answer that is read into memory. An artifact has at most 64 MiB.
ANSWER_BYTES = 256 * 1024 * 1024


class Answer:
    """A whole answer of the API."""

    def __init__(self, status: int, content: bytes) -> None:
        self.status = status
        self.content = content

    def json(self) -> Any:
        return json.loads(self.content) if self.content else None


class Transport:
    """Safe for use by several threads. Every failure is a CofferdamError."""

    def __init__(self, base_url: str, api_key: str, timeout: float) -> None:
        url = urllib.parse.urlsplit(base_url)
        if url.scheme not in ("http", "https") or not url.hostname:
            raise ValueError(f"base_url must be like http://127.0.0.1:7070, got {base_url!r}")
        if not api_key or not api_key.isascii() or not api_key.isprintable():
            raise ValueError("api_key must be a key such as cfd_0123…")
        self._secure = url.scheme == "https"
        self._address = (url.hostname, url.port or (443 if self._secure else 80))
        self._prefix = url.path.rstrip("/") + "/v1"
        self._origin = f"{url.scheme}://{url.netloc.rpartition('@')[2]}"
        self._headers = {"authorization": f"Bearer {api_key}", "user-agent": "cofferdam-python"}
        self._timeout = timeout
        self._idle: list[http.client.HTTPConnection] = []
        self._lock = threading.Lock()
        self._closed = False

    def ask(
        self,
        method: str,
        path: str,
        *,
        query: Optional[Mapping[str, Any]] = None,
        body: Any = None,
        content: Optional[bytes] = None,
        timeout: Optional[float] = None,
        repeatable: bool = True,
    ) -> Answer:
        """Sends JSON (`body`) or bytes (`content`). A repeatable call is sent again while the API is away."""
        tries = TRIES if repeatable else 1
        for turn in range(1, tries + 1):
            try:
                return self._send(method, path, query, body, content, timeout, repeatable)
            except CofferdamError as error:
                if turn == tries or not is_transient(error):
                    raise
            self.pause(FIRST_PAUSE * 2 ** (turn - 1))
        raise AssertionError("unreachable")

    def open(
        self, path: str, headers: Mapping[str, str], timeout: float
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        """A GET whose answer is read bit by bit. The caller closes the connection."""
        connection = self._connect(timeout)
        try:
            response = self._exchange(connection, "GET", path, {**self._headers, **headers}, None)
            if response.status >= 300:
                raise error_of(response.status, _json(response.read(ANSWER_BYTES)))
            return connection, response
        except BaseException:
            connection.close()
            raise

    def pause(self, seconds: float) -> None:
        """Waits, unless the call is aborted or the client is closed meanwhile."""
        call = current_call.get()
        if call is None:
            time.sleep(seconds)
        else:
            call.stopped.wait(seconds)
        self._check_open()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def unreachable(self, cause: BaseException) -> CofferdamError:
        """The error that a caller gets when a connection breaks."""
        call = current_call.get()
        if self._closed or (call is not None and call.stopped.is_set()):
            return CofferdamError("shutting_down", "The client is closed, or the call was aborted.")
        what = str(cause) or type(cause).__name__
        message = f"The API at {self._origin} does not answer ({what})."
        return CofferdamError("queue_unavailable", message, retry="later")

    def _send(
        self,
        method: str,
        path: str,
        query: Optional[Mapping[str, Any]],
        body: Any,
        content: Optional[bytes],
        timeout: Optional[float],
        repeatable: bool,
    ) -> Answer:
        given = {name: value for name, value in (query or {}).items() if value is not None}
        target = path + ("?" + urllib.parse.urlencode(given) if given else "")
        headers = dict(self._headers)
        if content is not None:
            headers["content-type"] = "application/octet-stream"
        elif body is not None:
            headers["content-type"] = "application/json"
            content = json.dumps(body).encode()
        # The API may just have closed an idle connection, so only repeatable calls use one.
        connection = self._take() if repeatable else None
        if connection is None:
            connection = self._connect(timeout)
        elif connection.sock is not None:
            connection.sock.settimeout(timeout or self._timeout)
        kept = False
        try:
            response = self._exchange(connection, method, target, headers, content)
            answer = Answer(response.status, self._read(response))
            kept = not response.will_close
        finally:
            if not kept or not self._give_back(connection):
                connection.close()
        if answer.status >= 300:
            raise error_of(answer.status, _json(answer.content))
        return answer

    def _exchange(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        target: str,
        headers: Mapping[str, str],
        content: Optional[bytes],
    ) -> http.client.HTTPResponse:
        try:
            connection.request(method, self._prefix + target, body=content, headers=dict(headers))
            return connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            raise self.unreachable(error) from error

    def _read(self, response: http.client.HTTPResponse) -> bytes:
        try:
            content = response.read(ANSWER_BYTES)
            rest = response.read(1)
        except (OSError, http.client.HTTPException) as error:
            raise self.unreachable(error) from error
        if rest:
            raise CofferdamError("payload_too_large", f"The answer has more than {ANSWER_BYTES} bytes.")
        return content

    def _connect(self, timeout: Optional[float]) -> http.client.HTTPConnection:
        self._check_open()
        kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
        connection = kind(*self._address, timeout=timeout or self._timeout)
        try:
            connection.connect()
        except OSError as error:
            raise self.unreachable(error) from error
        if connection.sock.family in (socket.AF_INET, socket.AF_INET6):
            # Headers and body are two writes. Without this the second would wait for an acknowledgement.
            connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._announce(connection)
        return connection

    def _take(self) -> Optional[http.client.HTTPConnection]:
        self._check_open()
        with self._lock:
            connection = self._idle.pop() if self._idle else None
        if connection is not None:
            self._announce(connection)
        return connection

    def _give_back(self, connection: http.client.HTTPConnection) -> bool:
        with self._lock:
            if self._closed or len(self._idle) >= IDLE_CONNECTIONS:
                return False
            self._idle.append(connection)
            return True

    def _check_open(self) -> None:
        call = current_call.get()
        if self._closed or (call is not None and call.stopped.is_set()):
            raise CofferdamError("shutting_down", "The client is closed, or the call was aborted.")

    @staticmethod
    def _announce(connection: http.client.HTTPConnection) -> None:
        call = current_call.get()
        if call is not None:
            call.use(connection)


def is_transient(error: CofferdamError) -> bool:
    """Whether the same call may succeed in a moment. False for a full queue, because the caller decides about
    that.
    """
    if error.retry != "later" or error.code in ("wait_timeout", "queue_full"):
        return False
    return error.status is None or error.status >= 500


def _json(content: bytes) -> Any:
    try:
        return json.loads(content)
    except ValueError:
        return None
