"""The client for asyncio. Each call runs in a thread, and is aborted if the task that awaits it is cancelled.
"""
from __future__ import annotations

import asyncio
import contextvars
from typing import Any, AsyncIterator, Callable, Iterator, Literal, Optional, TypeVar

from .calls import Call, current_call
from .client import CancelStatus, Client, Language
from .events import StoredEvent
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

T = TypeVar("T")


class AsyncClient:
    """See Client. If a task is cancelled, it stops waiting, but its execution goes on. Stop the execution
    with ``cancel``.
    """

    def __init__(
        self, base_url: Optional[str] = None, api_key: Optional[str] = None, *, timeout: float = 30.0
    ) -> None:
        #: The underlying Client, for calls that have no method here:
        #: ``await client.call(client.sync.routines.get, id)``.
        self.sync = Client(base_url, api_key, timeout=timeout)

    async def call(self, function: Callable[..., T], *args: Any, **named: Any) -> T:
        """Runs a method of the underlying Client in a thread."""
        running = Call()

        def within() -> T:
            current_call.set(running)
            return function(*args, **named)

        loop = asyncio.get_running_loop()
        future = loop.run_in_executor(None, contextvars.copy_context().run, within)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            running.abort()
            future.add_done_callback(_retrieve)
            raise

    async def enqueue(self, request: ExecutionRequest) -> Accepted:
        return await self.call(self.sync.enqueue, request)

    async def run(self, request: ExecutionRequest, *, timeout: float = 300.0) -> ExecutionResult:
        return await self.call(self.sync.run, request, timeout=timeout)

    async def run_code(
        self, source: str, language: Language = "python", *, tenant_id: str, agent_id: str, **fields: Any
    ) -> ExecutionResult:
        return await self.call(
            self.sync.run_code, source, language, tenant_id=tenant_id, agent_id=agent_id, **fields
        )

    async def wait(self, execution_id: str, *, timeout: float = 300.0) -> Optional[ExecutionResult]:
        return await self.call(self.sync.wait, execution_id, timeout=timeout)

    async def get(self, execution_id: str) -> Optional[ExecutionState]:
        return await self.call(self.sync.get, execution_id)

    async def cancel(self, execution_id: str, reason: Optional[str] = None) -> CancelStatus:
        return await self.call(self.sync.cancel, execution_id, reason)

    async def output(self, execution_id: str, stream: Literal["stdout", "stderr"] = "stdout") -> bytes:
        return await self.call(self.sync.output, execution_id, stream)

    async def artifacts(self, execution_id: str) -> list[Artifact]:
        return await self.call(self.sync.artifacts, execution_id)

    async def artifact(self, execution_id: str, path: str) -> bytes:
        return await self.call(self.sync.artifact, execution_id, path)

    async def rerun(
        self, execution_id: str, edit: Optional[RerunRequestEdit] = None, *, idempotency_key: Optional[str] = None
    ) -> Rerun:
        return await self.call(self.sync.rerun, execution_id, edit, idempotency_key=idempotency_key)

    async def compare(self, execution_id: str, other: Optional[str] = None) -> Comparison:
        return await self.call(self.sync.compare, execution_id, other)

    def stream(self, execution_id: str, *, after: Optional[str] = None) -> AsyncIterator[StoredEvent]:
        return self.each(self.sync.stream(execution_id, after=after))

    async def stats(self, **query: Any) -> Stats:
        return await self.call(self.sync.stats, **query)

    async def queue_tenants(self, **query: Any) -> QueueTenants:
        return await self.call(self.sync.queue_tenants, **query)

    def executions(self, **filters: Any) -> AsyncIterator[ExecutionState]:
        return self.each(self.sync.executions(**filters))

    async def each(self, items: Iterator[T]) -> AsyncIterator[T]:
        """Yields the items of an iterator of the underlying Client. Each item is read in a thread."""
        end = object()
        try:
            while True:
                item = await self.call(next, items, end)
                if item is end:
                    return
                yield item  # type: ignore[misc]
        finally:
            try:
                items.close()  # type: ignore[attr-defined]
            except ValueError:
                pass  # Its thread still runs, and ends because its call was aborted.

    async def aclose(self) -> None:
        self.sync.close()

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def _retrieve(future: "asyncio.Future[Any]") -> None:
    """Marks the failure of an aborted call as handled, because nobody awaits it."""
    if not future.cancelled():
        future.exception()
