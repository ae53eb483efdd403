"""The server under test: a demo server with the pipeline `shop`, and a second account."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from berth import Berth

ENVIRONMENTS = "/pipelines/shop/ephemeral-environments"


async def define_pipeline(ada: Berth) -> None:
    definition = Path(os.environ["BERTH_TEST_DEFINITION"]).read_text(encoding="utf-8")
    await ada.request("PUT", "/pipelines/shop/definition", json={"definition": definition})


async def create_account(ada: Berth, name: str) -> str:
    """Returns a token of a new service account."""
    body = {"email": f"{name}@acme.test", "kind": "service", "role": "deployer"}
    member = await ada.request("POST", "/members", json=body)
    token = await ada.request("POST", "/api-tokens", json={"name": name, "ownerId": member["data"]["id"]})
    return str(token["data"]["token"])


async def read_environment(ada: Berth, name: str) -> Any:
    return (await ada.request("GET", f"{ENVIRONMENTS}/{name}"))["data"]


async def list_queue(ada: Berth, name: str) -> Any:
    return (await ada.request("GET", f"{ENVIRONMENTS}/{name}/queue"))["data"]


async def count_sessions(ada: Berth, name: str) -> int:
    """Returns the number of sessions that the environment has had, including the current one."""
    return len((await ada.request("GET", f"{ENVIRONMENTS}/{name}/history"))["data"])


async def take_over(berth: Berth, name: str, reason: str) -> str:
    taken = await berth.request("POST", f"{ENVIRONMENTS}/{name}/force-claim", json={"reason": reason})
    return str(taken["data"]["sessionId"])


async def release(ada: Berth, name: str, session_id: str) -> None:
    await ada.request("DELETE", f"{ENVIRONMENTS}/{name}/sessions/{session_id}")


async def start_program(file: str, *args: str) -> tuple[asyncio.subprocess.Process, str]:
    """Starts a program of this directory, and waits for its first line of output."""
    program = str(Path(__file__).with_name(file))
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-u", program, *args, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout
    line = await process.stdout.readline()
    return process, line.decode().strip()


class LossyProxy:
    """A TCP proxy that loses the first response to a claim, or all traffic.

    `claims` counts the claims that reached the server.
    """

    def __init__(self, host: str, port: int, loses_claim: bool) -> None:
        self.host, self.port, self.loses_claim, self.claims, self.url = host, port, loses_claim, 0, ""
        self.blocked = asyncio.Event()

    async def connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.blocked.is_set():
            writer.close()
            return
        server_reader, server_writer = await asyncio.open_connection(self.host, self.port)
        is_lost = False

        async def copy_requests() -> None:
            nonlocal is_lost
            while chunk := await reader.read(65536):
                head = chunk.split(b"\r\n", 1)[0]
                if head.startswith(b"POST ") and b"/sessions " in head:
                    self.claims += 1
                    is_lost = self.loses_claim and self.claims == 1
                server_writer.write(chunk)

        async def copy_responses() -> None:
            while (chunk := await server_reader.read(65536)) and not is_lost:
                writer.write(chunk)

        work = [copy_requests(), copy_responses(), self.blocked.wait()]
        tasks = [asyncio.ensure_future(it) for it in work]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        writer.close()
        server_writer.close()


@asynccontextmanager
async def start_lossy_proxy(target: str, *, loses_claim: bool) -> AsyncIterator[LossyProxy]:
    host, port = target.removeprefix("http://").split(":")
    proxy = LossyProxy(host, int(port), loses_claim)
    server = await asyncio.start_server(proxy.connect, "127.0.0.1", 0)
    proxy.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield proxy
    finally:
        server.close()
