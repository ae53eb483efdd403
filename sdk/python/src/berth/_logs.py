"""Reads and follows the log of a step."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

from ._http import Connection
from .errors import BerthError
from .models import Deployment


async def read_log(
    connection: Connection,
    deployment_url: str,
    step: str | None,
    params: dict[str, Any],
    tail: int | None,
    follow: bool,
) -> AsyncIterator[str]:
    step_id = step or await _choose_step(connection, deployment_url, follow)
    url = f"{deployment_url}/steps/{quote(step_id, safe='')}/logs"
    if follow:
        async for line in _follow_log(connection, url, params):
            yield line
        return
    page: dict[str, Any] = {"tail": tail}
    while True:
        log = (await connection.call("GET", url, params={**params, **page}))["data"]
        for entry in log["entries"]:
            yield entry["text"]
        if not log.get("nextLine"):
            return
        page = {"fromLine": log["nextLine"]}


async def _choose_step(connection: Connection, deployment_url: str, waits: bool) -> str:
    """Returns the failed step, otherwise the last one that started. With `waits`, waits until a step has started."""

    def is_known(deployment: Deployment) -> bool:
        is_over = deployment["finishedAt"] is not None
        return not waits or is_over or _find_step(deployment) is not None

    deployment = await connection.poll(deployment_url, is_known, None)
    found = _find_step(deployment)
    if found is None:
        raise BerthError(f"no step of deployment {deployment['deploymentId']} has started")
    return found


def _find_step(deployment: Deployment) -> str | None:
    steps = [step for stage in deployment["stages"] for step in stage.get("steps", []) if step["startedAt"]]
    failed = [step for step in steps if step["status"] == "failed"]
    chosen = failed[:1] or steps[-1:]
    return chosen[0]["id"] if chosen else None


async def _follow_log(connection: Connection, url: str, params: dict[str, Any]) -> AsyncIterator[str]:
    rest = ""
    async for event in connection.stream(url, params, "0"):
        if event.event == "end":
            if rest:
                yield rest
            return
        if event.event == "lines":
            *lines, rest = (rest + json.loads(event.data)["text"]).split("\n")
            for line in lines:
                yield line
