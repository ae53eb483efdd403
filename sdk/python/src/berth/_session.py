"""A session in an environment, as an asynchronous context manager."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import Any, cast

from . import _logs
from ._claim import claim_environment, environment_path, finish
from ._heartbeat import renew_lease
from ._http import Connection
from ._signals import add_handler
from .errors import ApiError, BerthError, DeploymentFailed, Interrupted, SessionEnded
from .models import Deployment, DeployNew, Extend, SessionNew, Ticket
from .models import Session as SessionRecord

DEPLOYMENT_ENDED = frozenset({"succeeded", "failed", "cancelled", "superseded"})
# Pause after the session could not be read for a while.
RETRY_PAUSE = 1.0


class Session:
    """Exclusive use of an environment."""

    def __init__(self, connection: Connection, path: str, deployments: str, record: SessionRecord) -> None:
        self.id = record["sessionId"]
        # Name of the environment.
        self.environment = record["envName"]
        # The fencing token. Targets use it to refuse work of earlier sessions.
        self.fence = record["fence"]
        # The session as it was last read.
        self.record = record
        started = [it["deploymentId"] for it in record["deploymentHistory"]]
        # The last deployment that this session started.
        self.deployment_id: str | None = record.get("deploymentId") or next(iter(started), None)
        # Why the session ended early; None while it is active. For a takeover, a SessionOverridden.
        self.ended: SessionEnded | None = None
        self._connection = connection
        self._path = f"{path}/sessions/{self.id}"
        self._deployments = deployments

    async def deploy(self, commit: str, *, why: str | None = None) -> Deployment:
        """Deploys a commit. Returns at once; `wait` waits for the result."""
        body: DeployNew = {"commitId": commit, "context": why}
        deployment = cast(Deployment, await self._post("deploy", body))
        self.deployment_id = deployment["deploymentId"]
        return deployment

    async def wait(
        self,
        deployment_id: str | None = None,
        *,
        on_progress: Callable[[Deployment], object] | None = None,
    ) -> Deployment:
        """Waits until the deployment has succeeded, by default the last one of this session.

        Calls `on_progress` with every change. Raises DeploymentFailed if it ends in another way.
        """
        url = self._deployment_url(deployment_id)
        ended = cast(
            Deployment,
            await self._connection.poll(url, lambda it: it["status"] in DEPLOYMENT_ENDED, on_progress),
        )
        if ended["status"] == "succeeded":
            return ended
        # A takeover cancels the deployment; report the takeover.
        session = (await self._connection.call("GET", self._path))["data"]
        raise DeploymentFailed(ended) if session["status"] == "active" else SessionEnded.of(session)

    def logs(
        self,
        step: str | None = None,
        *,
        stage: str | None = None,
        attempt: int | None = None,
        tail: int | None = None,
        follow: bool = False,
        deployment_id: str | None = None,
    ) -> AsyncIterator[str]:
        """Yields the lines of a step's log, without line endings.

        Without `step`, the failed step, otherwise the last one that started. `follow` continues until the log is complete.
        """
        url = self._deployment_url(deployment_id)
        return _logs.read_log(self._connection, url, step, {"stage": stage, "attempt": attempt}, tail, follow)

    async def extend(self, ttl: int | None = None) -> SessionRecord:
        """Postpones the expiry, by default to the `ttl` of the environment from now."""
        body: Extend = {"ttlSeconds": ttl}
        self.record = cast(SessionRecord, await self._post("extend", body))
        return self.record

    async def release(self) -> None:
        """Releases the environment. Releasing it again has no effect."""
        self.record = (await self._connection.call("DELETE", self._path))["data"]

    async def _post(self, action: str, body: Any) -> Any:
        url = f"{self._path}/{action}"
        return (await self._connection.call("POST", url, json=body, environment=self.environment))["data"]

    def _deployment_url(self, deployment_id: str | None) -> str:
        wanted = deployment_id or self.deployment_id
        if wanted is None:
            raise ValueError(
                "this session has not deployed anything: call deploy first, or claim with a commit"
            )
        return f"{self._deployments}/{wanted}"

    async def _renew_lease(self, on_end: Callable[[SessionEnded], None]) -> None:
        lease = self.record.get("leaseSeconds")
        if lease:
            on_end(await renew_lease(lambda: self._post("heartbeat", {}), lease))

    async def _watch(self, on_end: Callable[[SessionEnded], None]) -> None:
        """Follows the session until it ends."""
        while True:
            try:
                self.record = await self._connection.poll(
                    self._path, lambda it: it["status"] != "active", lambda it: setattr(self, "record", it)
                )
                return on_end(SessionEnded.of(self.record))
            except ApiError as error:
                if error.status < 500:
                    return on_end(SessionEnded(f"the session cannot be read any more: {error}"))
            except BerthError:
                # The server is unreachable: the session stays valid. Requests of the caller report the error.
                pass
            await asyncio.sleep(RETRY_PAUSE)


class SessionContext:
    """Claims the environment on entry, releases it on exit, and cancels the body if the session ends early."""

    def __init__(
        self,
        connection: Connection,
        organization: Callable[[], Awaitable[str]],
        environment: str,
        body: SessionNew,
        on_queue: Callable[[Ticket], object] | None,
    ) -> None:
        self._connection = connection
        self._organization = organization
        self._environment = environment
        self._body = body
        self._on_queue = on_queue
        self._ended: SessionEnded | None = None
        self._is_leaving = False

    async def __aenter__(self) -> Session:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._cancelling = task.cancelling()
        self._remove_handler = add_handler(self._abort)
        try:
            organization = await self._organization()
            path = environment_path(organization, self._environment)
            record = await claim_environment(self._connection, path, self._body, self._on_queue)
        except BaseException as error:
            self._remove_handler()
            self._raise_end(error)
            raise
        deployments = path[: path.index("/pipelines/")] + "/deployments"
        self._session = Session(self._connection, path, deployments, record)
        session = self._session
        work = (session._watch(self._abort), session._renew_lease(self._abort))
        self._background = [asyncio.create_task(it) for it in work]
        return self._session

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_leaving = True
        for task in self._background:
            task.cancel()
        try:
            was_cancelled = await finish(self._session.release())
        except Exception as failure:
            # Do not hide the error of the body.
            if error is None and self._ended is None:
                raise
            if error is not None:
                error.add_note(f"the session was not released: {failure}")
            was_cancelled = False
        finally:
            self._remove_handler()
        self._raise_end(error)
        if was_cancelled and error is None:
            raise asyncio.CancelledError

    def _abort(self, ended: SessionEnded) -> None:
        """Cancels the body."""
        if self._ended is None and not self._is_leaving:
            self._ended = ended
            if hasattr(self, "_session"):
                self._session.ended = ended
            self._task.cancel()

    def _raise_end(self, error: BaseException | None) -> None:
        """Replaces the cancellation of the body with its reason."""
        if self._ended is None:
            return
        is_ours = self._task.uncancel() <= self._cancelling
        if isinstance(self._ended, Interrupted):
            raise SystemExit(128 + self._ended.signal) from error
        if error is None or (isinstance(error, asyncio.CancelledError) and is_ours):
            raise self._ended from error
