"""The HTTP layer: retries with idempotency keys, timeouts, and errors."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import httpx
import httpx_sse

from .errors import ConnectionFailed, to_error

# Longest long poll that the server allows.
WAIT_SECONDS = 50
# Timeout for a response; above the longest long poll. The server sends something on a stream every 15 seconds.
RESPONSE_TIMEOUT = 90.0
STREAM_TIMEOUT = 60.0
CONNECT_TIMEOUT = 10.0
BACKOFF_MIN = 0.2
BACKOFF_MAX = 5.0
RETRIED_STATUSES = frozenset({408, 429, 502, 503, 504})
# Requests of many sessions may run at the same time, each with a long poll.
NO_LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=20)


class Connection:
    """Sends requests to one server, and repeats them for up to `retry_for` seconds."""

    def __init__(self, url: str, token: str, user_agent: str, retry_for: float) -> None:
        self.retry_for = retry_for
        self.client = httpx.AsyncClient(
            base_url=url,
            headers={"Authorization": f"Bearer {token}", "User-Agent": user_agent},
            limits=NO_LIMITS,
        )

    async def send(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        json: Any = None,
        headers: Mapping[str, str] | None = None,
        is_stream: bool = False,
    ) -> httpx.Response:
        """Returns any response. Every POST has an idempotency key, so that a repetition has no second effect."""
        sent = dict(headers or {})
        if method == "POST":
            sent.setdefault("Idempotency-Key", str(uuid.uuid4()))
        query = {name: value for name, value in (params or {}).items() if value is not None}
        timeout = httpx.Timeout(STREAM_TIMEOUT if is_stream else RESPONSE_TIMEOUT, connect=CONNECT_TIMEOUT)
        clock = asyncio.get_running_loop().time
        deadline = clock() + self.retry_for
        attempt = 0
        while True:
            request = self.client.build_request(
                method, path, params=query, json=json, headers=sent, timeout=timeout
            )
            response: httpx.Response | None = None
            try:
                response = await self.client.send(request, stream=is_stream)
                if is_stream and not response.is_success:
                    await response.aread()
                wait = _retry_delay(response)
                if wait is None:
                    return response
            except httpx.TransportError as error:
                failure, wait = error, 0.0
            pause = max(backoff(attempt), wait)
            attempt += 1
            if clock() + pause > deadline:
                if response is not None:
                    return response
                reason = str(failure) or type(failure).__name__
                raise ConnectionFailed(f"cannot reach {self.client.base_url}: {reason}") from failure
            await asyncio.sleep(pause)

    async def call(self, method: str, path: str, *, environment: str = "", **options: Any) -> Any:
        """Returns the body of a response, or raises the error that it describes."""
        response = await self.send(method, path, **options)
        return _read_body(response, environment)

    async def poll(
        self, path: str, is_done: Callable[[Any], bool], on_change: Callable[[Any], object] | None
    ) -> Any:
        """Long-polls a record until `is_done`, and calls `on_change` with every version of it."""
        etag: str | None = None
        while True:
            options: dict[str, Any] = {}
            if etag:
                options = {"params": {"wait": WAIT_SECONDS}, "headers": {"If-None-Match": etag}}
            response = await self.send("GET", path, **options)
            if response.status_code == httpx.codes.NOT_MODIFIED:
                continue
            record = _read_body(response)["data"]
            etag = response.headers.get("ETag")
            if on_change:
                on_change(record)
            if is_done(record):
                return record

    async def stream(
        self, path: str, params: Mapping[str, Any], last_id: str
    ) -> AsyncIterator[httpx_sse.ServerSentEvent]:
        """Yields the events after `last_id`, and reconnects where the stream was interrupted."""
        attempt = 0
        while True:
            headers = {"Accept": "text/event-stream", "Last-Event-ID": last_id}
            response = await self.send("GET", path, params=params, headers=headers, is_stream=True)
            try:
                if not response.is_success:
                    _read_body(response)
                async for event in httpx_sse.EventSource(response).aiter_sse():
                    last_id, attempt = event.id or last_id, 0
                    yield event
            except httpx.TransportError:
                # Reconnect. `send` raises an error if the server stays unreachable.
                pass
            finally:
                await response.aclose()
            await asyncio.sleep(backoff(attempt))
            attempt += 1


def backoff(attempt: int) -> float:
    """Exponential backoff with jitter."""
    return min(BACKOFF_MIN * 2.0 ** min(attempt, 10), BACKOFF_MAX) * random.uniform(0.5, 1.0)


def _read_body(response: httpx.Response, environment: str = "") -> Any:
    try:
        body = response.json()
    except ValueError:
        body = None
    if not response.is_success or body is None:
        raise to_error(response.status_code, body, environment)
    return body


def _retry_delay(response: httpx.Response) -> float | None:
    """Returns the time to wait before a retry; None if a retry is pointless."""
    if response.status_code in RETRIED_STATUSES:
        after = response.headers.get("Retry-After", "")
        return float(after) if after.isdecimal() else 0.0
    if response.status_code == httpx.codes.CONFLICT and b'"idempotency_in_progress"' in response.content:
        return 0.0
    return None
