"""Routines: requests that run on a schedule or on demand."""
from __future__ import annotations

import uuid
from typing import Any, Iterator, Mapping, Optional, cast
from urllib.parse import quote

from .transport import Transport
from .types import Routine, RoutineRun


class Routines:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def create(self, routine: Mapping[str, Any]) -> Routine:
        """Creates a routine from ``name``, ``request`` and ``schedule``. If the answer is lost, the call is
        not repeated.
        """
        answer = self._transport.ask("POST", "/routines", body=dict(routine), repeatable=False)
        return cast(Routine, answer.json())

    def list(self, *, tenant_id: Optional[str] = None) -> Iterator[Routine]:
        """Every routine, newest first."""
        cursor: Optional[str] = None
        while True:
            query = {"tenant_id": tenant_id, "cursor": cursor}
            page = self._transport.ask("GET", "/routines", query=query).json()
            yield from page["routines"]
            cursor = page["next_cursor"]
            if cursor is None:
                return

    def get(self, routine_id: str) -> Routine:
        return cast(Routine, self._transport.ask("GET", _path(routine_id)).json())

    def change(self, routine_id: str, changes: Mapping[str, Any]) -> Routine:
        """Changes the given fields, for example ``{"enabled": False}``."""
        return cast(Routine, self._transport.ask("PATCH", _path(routine_id), body=dict(changes)).json())

    def delete(self, routine_id: str) -> None:
        self._transport.ask("DELETE", _path(routine_id))

    def run(self, routine_id: str, *, key: Optional[str] = None) -> RoutineRun:
        """Runs it now. A second call with the same ``key`` gets the same answer and runs nothing."""
        body = {"key": key or str(uuid.uuid4())}
        return cast(RoutineRun, self._transport.ask("POST", f"{_path(routine_id)}/run", body=body).json())

    def runs(self, routine_id: str, *, limit: Optional[int] = None) -> list[RoutineRun]:
        """Its last runs, newest first."""
        answer = self._transport.ask("GET", f"{_path(routine_id)}/runs", query={"limit": limit}).json()
        return cast("list[RoutineRun]", answer["runs"])


def _path(routine_id: str) -> str:
    return f"/routines/{quote(routine_id, safe='')}"
