"""The client."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import Any, Self
from urllib.parse import quote

from ._http import Connection
from ._session import SessionContext
from .errors import BerthError
from .models import SessionNew, Ticket

VERSION = version("berth-sdk")
# How long requests are repeated by default: longer than a restart of the server takes.
RETRY_FOR = 45.0
LEASE = 60


class Berth:
    """A client of one Berth server. The defaults are BERTH_SERVER, BERTH_TOKEN and BERTH_ORG.

    Requests are repeated for `retry_for` seconds if the server is unreachable or overloaded.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        organization: str | None = None,
        retry_for: float = RETRY_FOR,
    ) -> None:
        url = url or os.environ.get("BERTH_SERVER")
        token = token or os.environ.get("BERTH_TOKEN")
        if not url:
            raise BerthError("no server: pass its URL, or set BERTH_SERVER")
        if not token:
            raise BerthError("no API token: pass one, or set BERTH_TOKEN")
        self._organization = organization or os.environ.get("BERTH_ORG")
        self._connection = Connection(url, token, f"berth-sdk-python/{VERSION}", retry_for)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Closes the connections to the server."""
        await self._connection.client.aclose()

    async def organization(self) -> str:
        """Returns the slug of the organization: the given one, or that of the token."""
        if self._organization is None:
            organizations = (await self._connection.call("GET", "/api/v1/organizations"))["data"]
            if not organizations:
                raise BerthError("the token belongs to no organization")
            self._organization = organizations[0]["slug"]
        return self._organization

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        json: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """Calls any operation, and returns the body of the response. `berth.models` has its type.

        The path is relative to the organization, such as `/pipelines`, unless it starts with `/api/`.
        """
        if not path.startswith("/api/"):
            path = f"/api/v1/organizations/{quote(await self.organization(), safe='')}{path}"
        return await self._connection.call(method, path, params=params, json=json, headers=headers)

    def session(
        self,
        environment: str,
        *,
        commit: str | None = None,
        why: str | None = None,
        contact: str | None = None,
        queue: bool = False,
        queue_timeout: int | None = None,
        on_queue: Callable[[Ticket], object] | None = None,
        ttl: int | None = None,
        lease: int | None = LEASE,
    ) -> SessionContext:
        """Claims an environment, written `pipeline/environment`, for the body of an `async with` statement.

        commit: deployed as soon as the environment is yours.
        why: reason, visible to all members.
        contact: whom to ask about the session; shown next to the holder.
        queue: wait in the queue if the environment is held, instead of raising EnvironmentLocked.
        queue_timeout: how long to stay in the queue, in seconds; one hour by default.
        on_queue: called when the ticket changes, for example its position.
        ttl: when the session expires, in seconds; by default after the `ttl` of the environment.
        lease: the session ends if this process sends no heartbeat for this many seconds (15 to 600), for example after
            a crash. Heartbeats are sent in the background. With None, the session needs no heartbeats.
        """
        body: SessionNew = {
            "commitId": commit,
            "context": why,
            "contact": contact,
            "queue": queue,
            "waitSeconds": queue_timeout,
            "ttlSeconds": ttl,
            "leaseSeconds": lease,
        }
        return SessionContext(self._connection, self.organization, environment, body, on_queue)
