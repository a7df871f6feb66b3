"""A call that another thread may end."""
from __future__ import annotations

import contextvars
import http.client
import socket
import threading
from typing import Optional


class Call:
    """A call that another thread may end. ``abort`` breaks its connection, and also the connection of any
    later try.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connection: Optional[http.client.HTTPConnection] = None
        self.stopped = threading.Event()

    def use(self, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            self._connection = connection
        if self.stopped.is_set():
            _break(connection)

    def abort(self) -> None:
        self.stopped.set()
        with self._lock:
            connection = self._connection
        if connection is not None:
            _break(connection)


#: The call that runs in this context, if somebody may abort it.
current_call: contextvars.ContextVar[Optional[Call]] = contextvars.ContextVar("cofferdam_call", default=None)


def _break(connection: http.client.HTTPConnection) -> None:
    sock = connection.sock
    if sock is None:
        return
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # It is closed already.
