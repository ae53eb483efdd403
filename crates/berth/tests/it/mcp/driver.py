"""Drives an MCP server: reads a JSON request per line from standard input, and writes a JSON response per line."""

import asyncio
import json
import sys

import httpx2
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client


def connection(target):
    if "url" not in target:
        return StdioServerParameters(command=target["command"], args=target["args"], env=target["env"])
    headers = {"Authorization": f"Bearer {target['token']}"}
    return streamable_http_client(target["url"], http_client=httpx2.AsyncClient(headers=headers, timeout=120))


def as_json(result):
    return result.model_dump(mode="json", by_alias=True, exclude_none=True)


async def call_tool(client, request):
    progress = []
    seen = asyncio.Event()

    async def on_progress(value, total, message):
        progress.append({"progress": value, "message": message})
        seen.set()

    callback = on_progress if request.get("progress") or request.get("cancel") else None
    call = asyncio.create_task(client.call_tool(request["name"], request.get("arguments", {}), progress_callback=callback))
    if request.get("cancel"):
        # Cancels the call as soon as the server has reported progress.
        await asyncio.wait([call, asyncio.create_task(seen.wait())], return_when=asyncio.FIRST_COMPLETED)
        was_running = call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        return {"cancelled": was_running}
    return {**as_json(await call), "progress": progress}


async def respond(client, request):
    method = request["method"]
    try:
        if method == "tools/call":
            return await call_tool(client, request)
        if method == "resources/read":
            return as_json(await client.read_resource(request["uri"]))
        lists = {
            "tools/list": client.list_tools,
            "resources/list": client.list_resources,
            "resources/templates/list": client.list_resource_templates,
        }
        return as_json(await lists[method]())
    except MCPError as error:
        return {"error": {"code": error.code, "message": error.message}}


async def main():
    target = json.loads(sys.argv[1])
    async with Client(connection(target), mode=target["mode"]) as client:
        print(json.dumps({"version": client.protocol_version, "instructions": client.instructions}), flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            print(json.dumps(await respond(client, json.loads(line))), flush=True)


asyncio.run(main())
