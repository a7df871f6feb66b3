"""The client of the HTTP API."""
from __future__ import annotations

import os
import time
import uuid
from typing import Any, Iterator, Literal, Optional, cast
from urllib.parse import quote

from .errors import CofferdamError
from .events import StoredEvent, follow
from .routines import Routines
from .sessions import Sessions
from .transport import Transport, is_transient
from .types import (
    Accepted,
    Artifact,
    Comparison,
    ExecutionRequest,
    ExecutionResult,
    ExecutionState,
    QueueTenants,
    Rerun,
    RerunRequestEdit,
    Stats,
)

DEFAULT_URL = "http://127.0.0.1:7070"
#: Seconds that the server may hold a request until the execution ends. Load balancers commonly close idle
# connections after 60 s.
SERVER_WAIT = 30.0
#: The client waits this many seconds longer than the server for the answer.
SLACK = 15.0
#: Polling period in seconds. It grows to the last value, so a long wait costs one request per second.
FIRST_POLL, LAST_POLL = 0.05, 1.0

Language = Literal["python", "javascript", "typescript", "bash"]
CancelStatus = Literal["cancelled", "cancelling", "ended"]


class Client:
    """Runs programs in a Cofferdam fleet. Threads may share it.

    ``base_url`` defaults to COFFERDAM_URL, else to the fleet that ``cofferdam up`` starts. ``api_key``
    defaults to COFFERDAM_API_KEY. ``timeout`` is how long the answer to a call may take, in seconds.

    Every method raises CofferdamError: compare its ``code``. All calls but the creation of a routine and
    the fork of a session are safe to repeat. If the API is unreachable, they are tried five times, within
    about 1.5 s.
    """

    def __init__(
        self, base_url: Optional[str] = None, api_key: Optional[str] = None, *, timeout: float = 30.0
    ) -> None:
        self._transport = Transport(
            base_url or os.environ.get("COFFERDAM_URL") or DEFAULT_URL,
            api_key or os.environ.get("COFFERDAM_API_KEY", ""),
            timeout,
        )
        self.sessions = Sessions(self._transport, self.wait)
        self.routines = Routines(self._transport)

    def enqueue(self, request: ExecutionRequest) -> Accepted:
        """Accepts an execution and returns its ID at once."""
        _, accepted = self._post(request, 0)
        return accepted

    def run(self, request: ExecutionRequest, *, timeout: float = 300.0) -> ExecutionResult:
        """Enqueues and waits. A failure of the program is part of the result, never an exception.

        Raises ``wait_timeout`` (details: execution_id) when it did not end within ``timeout`` seconds.
        """
        deadline = time.monotonic() + timeout
        result, accepted = self._post(request, min(timeout, SERVER_WAIT))
        if result is None:
            result = self.wait(accepted["execution_id"], timeout=deadline - time.monotonic())
        if result is None:
            details = {"execution_id": accepted["execution_id"]}
            message = f"{accepted['execution_id']} did not end within {timeout:g} s."
            raise CofferdamError("wait_timeout", message, retry="later", details=details)
        return result

    def run_code(
        self,
        source: str,
        language: Language = "python",
        *,
        tenant_id: str,
        agent_id: str,
        timeout: float = 300.0,
        **fields: Any,
    ) -> ExecutionResult:
        """Runs a script. ``fields`` are other fields of the request, such as ``limits`` or ``files``."""
        program = {"type": "script", "language": language, "source": source}
        request = {**fields, "tenant_id": tenant_id, "agent_id": agent_id, "program": program}
        return self.run(cast(ExecutionRequest, request), timeout=timeout)

    def wait(self, execution_id: str, *, timeout: float = 300.0) -> Optional[ExecutionResult]:
        """The result, or None if it did not end within ``timeout`` seconds. Raises ``not_found``."""
        deadline = time.monotonic() + timeout
        period = FIRST_POLL
        while True:
            try:
                state = self._state(execution_id)
                if state["result"] is not None:
                    return state["result"]
                if state["status"] == "ended":
                    raise CofferdamError("not_found", f"The result of {execution_id} is gone.")
            except CofferdamError as error:
                # While the API is away, the polling goes on until the deadline.
                if not is_transient(error) or time.monotonic() >= deadline:
                    raise
            left = deadline - time.monotonic()
            if left <= 0:
                return None
            self._transport.pause(min(period, left))
            period = min(LAST_POLL, period * 1.5)

    def get(self, execution_id: str) -> Optional[ExecutionState]:
        """The current state, or None if the execution is unknown."""
        try:
            return self._state(execution_id)
        except CofferdamError as error:
            if error.code == "not_found":
                return None
            raise

    def stream(self, execution_id: str, *, after: Optional[str] = None) -> Iterator[StoredEvent]:
        """Live events until the execution has ended. Survives reconnects.

        ``after`` is the ID of the last event that was seen. Close the iterator to stop earlier.
        """
        return follow(self._transport, _id(execution_id), after)

    def cancel(self, execution_id: str, reason: Optional[str] = None) -> CancelStatus:
        """``cancelled``: it will not run. ``cancelling``: its worker was told. ``ended``: too late."""
        body = {} if reason is None else {"reason": reason}
        answer = self._transport.ask("POST", f"{_path(execution_id)}/cancel", body=body)
        return cast(CancelStatus, answer.json()["status"])

    def rerun(
        self, execution_id: str, edit: Optional[RerunRequestEdit] = None, *, idempotency_key: Optional[str] = None
    ) -> Rerun:
        """Runs an ended execution again, as it was or with ``edit``, and returns at once.

        Raises ``not_found`` when its program was not kept: see ``keep_program`` of the tenant's policy.
        """
        # With a key the call can be repeated when its answer was lost.
        body: dict[str, Any] = {"idempotency_key": idempotency_key or str(uuid.uuid4())}
        if edit is not None:
            body["edit"] = edit
        return cast(Rerun, self._transport.ask("POST", f"{_path(execution_id)}/rerun", body=body).json())

    def compare(self, execution_id: str, other: Optional[str] = None) -> Comparison:
        """Two ended executions side by side. ``other`` defaults to the one that ``execution_id`` reruns."""
        query = None if other is None else {"with": other}
        return cast(
            Comparison, self._transport.ask("GET", f"{_path(execution_id)}/compare", query=query).json()
        )

    def stats(
        self,
        *,
        since: Optional[str] = None,
        until: Optional[str] = None,
        step: Optional[Literal["1m", "5m", "15m", "1h"]] = None,
        group_by: Optional[Literal["ending", "backend", "tenant"]] = None,
        tenant_id: Optional[str] = None,
    ) -> Stats:
        """Counts of ended attempts, per minute or per ``step``. ``since`` and ``until`` are ISO 8601 times.
        """
        query = {"from": since, "to": until, "step": step, "group_by": group_by, "tenant_id": tenant_id}
        return cast(Stats, self._transport.ask("GET", "/stats", query=query).json())

    def queue_tenants(
        self, sort: Literal["next", "waiting", "share", "lag"] = "next", limit: int = 100
    ) -> QueueTenants:
        """For each tenant: waiting and running executions, its actual and its fair share. Needs an admin key.
        """
        query = {"sort": sort, "limit": str(limit)}
        return cast(QueueTenants, self._transport.ask("GET", "/queue/tenants", query=query).json())

    def executions(
        self,
        *,
        tenant_id: Optional[str] = None,
        agent_id: Optional[str] = None,
        status: Optional[Literal["live", "ended"]] = None,
        exit_status: Optional[str] = None,
        program_kind: Optional[str] = None,
        session_id: Optional[str] = None,
        min_duration_ms: Optional[int] = None,
        max_duration_ms: Optional[int] = None,
    ) -> Iterator[ExecutionState]:
        """Executions, newest first, page by page while you iterate."""
        query = {
            "tenant_id": tenant_id,
            "agent_id": agent_id,
            "status": status,
            "exit_status": exit_status,
            "program_kind": program_kind,
            "session_id": session_id,
            "min_duration_ms": min_duration_ms,
            "max_duration_ms": max_duration_ms,
        }
        cursor: Optional[str] = None
        while True:
            page = self._transport.ask("GET", "/executions", query={**query, "cursor": cursor}).json()
            yield from page["executions"]
            cursor = page["next_cursor"]
            if cursor is None:
                return

    def output(self, execution_id: str, stream: Literal["stdout", "stderr"] = "stdout") -> bytes:
        """The whole output of an execution that has ended, also where its result shows only a part."""
        return self._transport.ask("GET", f"{_path(execution_id)}/output/{stream}").content

    def artifacts(self, execution_id: str) -> list[Artifact]:
        """Lists the artifacts of an execution."""
        answer = self._transport.ask("GET", f"{_path(execution_id)}/artifacts").json()
        return cast("list[Artifact]", answer["artifacts"])

    def artifact(self, execution_id: str, path: str) -> bytes:
        """The content of one artifact."""
        return self._transport.ask("GET", f"{_path(execution_id)}/artifacts/{quote(path)}").content

    def close(self) -> None:
        """Closes idle connections. A call in another thread fails before its next request. Executions go on.
        """
        self._transport.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _state(self, execution_id: str) -> ExecutionState:
        return cast(ExecutionState, self._transport.ask("GET", _path(execution_id)).json())

    def _post(
        self, request: ExecutionRequest, wait: float
    ) -> tuple[Optional[ExecutionResult], Accepted]:
        # With a key the call can be repeated when its answer was lost.
        body = {"idempotency_key": str(uuid.uuid4()), **request}
        query = {"wait": f"{int(wait * 1000)}ms"} if wait > 0 else None
        answer = self._transport.ask("POST", "/executions", query=query, body=body, timeout=wait + SLACK)
        if answer.status == 202:
            return None, cast(Accepted, answer.json())
        result = cast(ExecutionResult, answer.json())
        return result, cast(Accepted, {"execution_id": result["execution_id"], "status": "ended"})


def _id(execution_id: str) -> str:
    if not execution_id:
        raise CofferdamError("invalid_request", "The ID of the execution is empty.")
    return quote(execution_id, safe="")


def _path(execution_id: str) -> str:
    return f"/executions/{_id(execution_id)}"
