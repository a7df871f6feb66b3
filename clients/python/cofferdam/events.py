"""Live events of an execution over SSE, resumed after the last one when the connection breaks."""
from __future__ import annotations

import http.client
import json
from typing import Any, Iterator, NamedTuple, Optional

from .errors import CofferdamError
from .transport import Transport, is_transient
from .types import ExecutionEvent

#: Pause before a reconnect. It doubles from the first to the last value while nothing arrives.
FIRST_PAUSE, LAST_PAUSE = 0.1, 2.0
#: Consecutive failures after which the API counts as down. With the pauses above, about 15 s.
MAX_FAILURES = 12
#: The API sends a comment every 15 s, so a longer silence means a dead connection.
SILENCE = 45.0
#: The longest line. An event has up to 16 KiB of output, up to six times that as JSON.
LINE_BYTES = 256 * 1024


class StoredEvent(NamedTuple):
    """An event, and the ID after which a stream can continue."""

    id: str
    event: ExecutionEvent


def follow(transport: Transport, execution_id: str, after: Optional[str]) -> Iterator[StoredEvent]:
    """Yields events until the execution has ended, or the API answers that there are no more."""
    last = after
    failures = 0
    while True:
        try:
            for stored in _connect(transport, execution_id, last):
                failures = 0
                last = stored.id
                yield stored
                if stored.event["type"] == "ended":
                    return
            return
        except CofferdamError as error:
            failures += 1
            if not is_transient(error) or failures >= MAX_FAILURES:
                raise
        transport.pause(min(LAST_PAUSE, FIRST_PAUSE * 2 ** (failures - 1)))


def _connect(transport: Transport, execution_id: str, last: Optional[str]) -> Iterator[StoredEvent]:
    """The events of one connection. Returns if the API answers that there are no more (204). Raises if the
    connection breaks or the stream ends early."""
    headers = {"accept": "text/event-stream"}
    if last is not None:
        headers["last-event-id"] = last
    connection, response = transport.open(f"/executions/{execution_id}/events", headers, SILENCE)
    try:
        if response.status == 204:
            return
        try:
            for event_id, data in _messages(response):
                yield StoredEvent(event_id, json.loads(data))
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise transport.unreachable(error) from error
        raise transport.unreachable(EOFError("the event stream ended before the execution did"))
    finally:
        connection.close()


def _messages(lines: Any) -> Iterator[tuple[str, str]]:
    """Server-sent events (HTML Standard 9.2), for a server that ends lines with LF or CRLF, as ours does."""
    event_id = ""
    data: list[str] = []
    while True:
        raw = lines.readline(LINE_BYTES + 1)
        if not raw:
            return
        if len(raw) > LINE_BYTES:
            raise ValueError("the event stream sent an endless line")
        line = raw.decode("utf-8", "replace").rstrip("\r\n")
        if line == "":
            if data:
                yield event_id, "\n".join(data)
            data = []
            continue
        field, _, value = line.partition(":")
        value = value[1:] if value.startswith(" ") else value
        if field == "data":
            data.append(value)
        elif field == "id" and "\0" not in value:
            event_id = value
