"""Sessions: sandboxes that executions share, and the files in them."""
from __future__ import annotations

from typing import Any, Callable, Iterator, Optional, TypedDict
from urllib.parse import quote

from .errors import CofferdamError
from .transport import Answer, Transport


class SessionFile(TypedDict):
    path: str
    size: int


class SessionFork(TypedDict):
    key: str
    session_id: str


class Session:
    """One session, named by its backend and key. Each call except ``info`` waits until the executions before
    it have ended."""

    def __init__(
        self, transport: Transport, wait: Callable[..., Any], backend: str, key: str, tenant_id: Optional[str]
    ) -> None:
        self._transport = transport
        self._wait = wait
        self._path = f"/backends/{quote(backend, safe='')}/sessions/{quote(key, safe='')}"
        self._query = {"tenant_id": tenant_id}

    def info(self) -> dict[str, Any]:
        """Its scope, state and times. Raises ``session_not_found``."""
        info: dict[str, Any] = self._transport.ask("GET", self._path, query=self._query).json()
        return info

    def files(self, folder: Optional[str] = None) -> list[SessionFile]:
        """The files of its work directory, or of a folder of it: at most 1,000. Raises for more."""
        answer = self._call("GET", "/files", query={"folder": folder}).json()
        if answer["truncated"]:
            raise CofferdamError("payload_too_large", "One list does not hold all files: name a folder.")
        files: list[SessionFile] = answer["files"]
        return files

    def read(self, path: str) -> bytes:
        """The content of a file."""
        return self._call("GET", f"/files/{quote(path)}").content

    def write(self, path: str, content: bytes) -> None:
        """Writes a file of at most 8 MiB, and the folders that it needs."""
        self._call("PUT", f"/files/{quote(path)}", content=content)

    def remove(self, path: str) -> None:
        self._call("DELETE", f"/files/{quote(path)}")

    def end(self) -> None:
        """Destroys its sandbox."""
        self._call("DELETE", "")

    def pause(self) -> None:
        """Saves the session to disk. Its next execution resumes it, on any worker of the same host group."""
        self._call("POST", "/pause")

    def resume(self) -> None:
        """Resumes the paused session now, so that its next execution need not wait for that."""
        self._call("POST", "/resume")

    def fork(self, keys: list[str]) -> list[SessionFork]:
        """Copies the session to 1 to 16 new keys: each gets a paused session with the same files. This
        session goes on.
        """
        body = {"keys": keys}
        answer = self._transport.ask("POST", f"{self._path}/fork", query=self._query, body=body, repeatable=False)
        said = answer.json()
        made = self._ended(said["execution_id"])["value"] if answer.status == 202 else said
        sessions: list[SessionFork] = made["sessions"]
        return sessions

    def _ended(self, execution_id: str) -> dict[str, Any]:
        """Waits for the result of a call that had to wait for its turn. Raises if the call failed."""
        result: Optional[dict[str, Any]] = self._wait(execution_id)
        if result is None or not result["ok"]:
            code = "wait_timeout" if result is None else result.get("reason", "internal")
            message = "The session did not carry out the call."
            raise CofferdamError(code, message, details={"result": result})
        return result

    def _call(
        self, method: str, path: str, query: Optional[dict[str, Any]] = None, content: Optional[bytes] = None
    ) -> Answer:
        given = {**self._query, **(query or {})}
        while True:
            answer = self._transport.ask(method, self._path + path, query=given, content=content)
            if answer.status != 202:
                return answer
            # 202 means that the call still waits for its turn. Once it has ended, a GET is sent again,
            # because only then does the answer have the content.
            self._ended(answer.json()["execution_id"])
            if method != "GET":
                return answer


class Sessions:
    """The sessions of a fleet. ``tenant_id`` is for admin keys, which have no tenant."""

    def __init__(self, transport: Transport, wait: Callable[..., Any]) -> None:
        self._transport = transport
        self._wait = wait

    def __call__(self, backend: str, key: str, *, tenant_id: Optional[str] = None) -> Session:
        """The session with this key at this backend. It begins with the first execution that names it."""
        return Session(self._transport, self._wait, backend, key, tenant_id)

    def list(self, *, tenant_id: Optional[str] = None) -> Iterator[dict[str, Any]]:
        """Sessions that have a sandbox now, newest first."""
        return self._pages("/sessions", "sessions", {"tenant_id": tenant_id})

    def outputs(self, run_id: str, *, tenant_id: Optional[str] = None) -> Iterator[dict[str, Any]]:
        """The newest version of each file that was collected from a session. Needs no sandbox."""
        return self._pages(f"/sessions/{quote(run_id, safe='')}/outputs", "outputs", {"tenant_id": tenant_id})

    def output(self, run_id: str, path: str, *, tenant_id: Optional[str] = None) -> bytes:
        """The content of one of the files that ``outputs`` lists."""
        route = f"/sessions/{quote(run_id, safe='')}/outputs/{quote(path)}"
        return self._transport.ask("GET", route, query={"tenant_id": tenant_id}).content

    def _pages(self, path: str, name: str, query: dict[str, Any]) -> Iterator[dict[str, Any]]:
        cursor: Optional[str] = None
        while True:
            page = self._transport.ask("GET", path, query={**query, "cursor": cursor}).json()
            yield from page[name]
            cursor = page["next_cursor"]
            if cursor is None:
                return
