"""Renews the lease of a session."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from ._http import backoff
from .errors import ApiError, BerthError, SessionEnded

# Part of the lease after which a heartbeat is due.
DUE = 1 / 3
# Part of the lease after which the session may be over, so that work has to stop.
LOST = 5 / 6


async def renew_lease(send: Callable[[], Awaitable[object]], lease: int) -> SessionEnded:
    """Sends heartbeats until the session has ended. Returns why."""
    clock = asyncio.get_running_loop().time
    renewed_at = clock()
    failures = 0
    while True:
        lost_at = renewed_at + lease * LOST
        await asyncio.sleep(lease * DUE if failures == 0 else min(backoff(failures), lost_at - clock()))
        sent_at = clock()
        left = lost_at - sent_at
        if left <= 0:
            return SessionEnded(f"the server was unreachable for most of the lease of {lease} s")
        try:
            async with asyncio.timeout(left):
                await send()
            renewed_at, failures = sent_at, 0
        except SessionEnded as ended:
            return ended
        except ApiError as error:
            if error.status < 500:
                return SessionEnded(str(error))
            failures += 1
        except (BerthError, TimeoutError):
            failures += 1
