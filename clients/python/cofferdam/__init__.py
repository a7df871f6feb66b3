"""Runs agent-written code in a Cofferdam fleet."""
from .aio import AsyncClient
from .client import Client
from .errors import CofferdamError
from .events import StoredEvent
from .sessions import Session

__all__ = ["AsyncClient", "Client", "CofferdamError", "Session", "StoredEvent"]
