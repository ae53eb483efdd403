"""Claims an environment, and waits in its queue."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, cast
from urllib.parse import quote

from ._http import Connection
from .errors import QueueEnded
from .models import Session, SessionNew, Ticket

logger = logging.getLogger("berth")

# How long an interrupted task waits until its session is released.
UNDO_TIMEOUT = 10.0


def environment_path(organization: str, environment: str) -> str:
    """Returns the API path of an environment, written `pipeline/environment`."""
    parts = environment.split("/")
    if len(parts) != 2 or not all(parts):
        raise ValueError(
            f'"{environment}" is not an environment: write pipeline/environment, such as shop/qa-1'
        )
    pipeline, name = (quote(part, safe="") for part in parts)
    return f"/api/v1/organizations/{quote(organization, safe='')}/pipelines/{pipeline}/ephemeral-environments/{name}"


async def claim_environment(
    connection: Connection, path: str, body: SessionNew, on_queue: Callable[[Ticket], object] | None
) -> Session:
    """Returns the new session. If it is cancelled, leaves the queue or releases the session."""
    # The claim may succeed although this task is cancelled, and then has to be undone.
    claim = asyncio.create_task(connection.call("POST", f"{path}/sessions", json=body))
    try:
        data = (await asyncio.shield(claim))["data"]
    except asyncio.CancelledError:
        await _undo_logged(path, _undo_pending(connection, path, claim))
        raise
    if "ticketId" not in data:
        return cast(Session, data)
    try:
        ticket = await _wait_in_queue(connection, path, data["ticketId"], on_queue)
        return cast(Session, (await connection.call("GET", f"{path}/sessions/{ticket['sessionId']}"))["data"])
    except BaseException:
        await _undo_logged(path, _undo(connection, path, data))
        raise


async def finish(work: Coroutine[Any, Any, None]) -> bool:
    """Completes the work even if this task is cancelled. Returns whether it was."""
    task = asyncio.create_task(asyncio.wait_for(work, UNDO_TIMEOUT))
    was_cancelled = False
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            was_cancelled = True
        except Exception:
            break
    task.result()
    return was_cancelled


async def _wait_in_queue(
    connection: Connection, path: str, ticket_id: str, on_queue: Callable[[Ticket], object] | None
) -> Ticket:
    def report(ticket: Ticket) -> None:
        if on_queue and ticket["status"] == "waiting":
            on_queue(ticket)

    url = f"{path}/queue/{ticket_id}"
    ticket = cast(Ticket, await connection.poll(url, lambda it: it["status"] != "waiting", report))
    if not ticket["sessionId"]:
        raise QueueEnded(ticket)
    return ticket


async def _undo_logged(path: str, undo: Coroutine[Any, Any, None]) -> None:
    """Completes the undo. A failure does not hide why the claim is undone."""
    try:
        await finish(undo)
    except Exception as error:
        logger.warning("claim not undone: environment=%s error=%r", path, error)


async def _undo_pending(connection: Connection, path: str, claim: asyncio.Task[Any]) -> None:
    await asyncio.wait([claim])
    if claim.exception() is None:
        await _undo(connection, path, claim.result()["data"])


async def _undo(connection: Connection, path: str, data: Any) -> None:
    """Leaves the queue, and releases the session if there is one by now."""
    session_id = data["sessionId"]
    if "ticketId" in data:
        url = f"{path}/queue/{data['ticketId']}"
        await connection.send("DELETE", url)
        session_id = (await connection.call("GET", url))["data"]["sessionId"]
    if session_id:
        await connection.call("DELETE", f"{path}/sessions/{session_id}")
