"""The failure of a call."""
from __future__ import annotations

from typing import Any, Mapping, Optional, cast


class CofferdamError(Exception):
    """The API refused a call, or did not answer.

    A program that fails is no such error: its result says how it ended.

    ``code`` names the failure, for example ``invalid_request``, ``queue_full`` or ``not_found``.
    ``retry`` is ``never``, ``later`` (the same call may succeed in a moment) or ``elsewhere`` (it may succeed
    on another backend). ``status`` is the HTTP status. It is None when there was no answer.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        hint: str = "",
        retry: str = "never",
        details: Optional[Mapping[str, Any]] = None,
        trace_id: Optional[str] = None,
        status: Optional[int] = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint
        self.retry = retry
        self.details = dict(details or {})
        self.trace_id = trace_id
        self.status = status

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


def error_of(status: int, body: Any) -> CofferdamError:
    """The error that the API sent. If a proxy answered, its status gives the code."""
    error = _fields(_fields(body).get("error"))
    code = error.get("code")
    if isinstance(code, str):
        return CofferdamError(
            code,
            str(error.get("message", "")),
            hint=str(error.get("hint", "")),
            retry=str(error.get("retry", "never")),
            details=_fields(error.get("details")),
            trace_id=error.get("trace_id"),
            status=status,
        )
    known = _CODES.get(status, "invalid_request" if status < 500 else "internal")
    retry = "later" if status in (429, 502, 503, 504) else "never"
    return CofferdamError(known, f"The API answered {status}.", retry=retry, status=status)


def _fields(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


_CODES = {
    401: "unauthenticated",
    403: "forbidden",
    404: "not_found",
    413: "payload_too_large",
    429: "queue_full",
    502: "queue_unavailable",
    503: "queue_unavailable",
    504: "queue_unavailable",
}
