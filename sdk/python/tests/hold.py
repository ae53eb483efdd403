"""Claims an environment with the queue, prints when it waits and when it holds it, and never releases it by itself."""

import asyncio
import signal
import sys

from berth import Berth


async def hold(environment: str) -> None:
    def report(ticket: object) -> None:
        print("queued")

    async with Berth() as berth, berth.session(environment, queue=True, on_queue=report) as session:
        print(f"fence {session.fence}")
        await asyncio.Event().wait()


# Processes in the background of a shell ignore SIGINT, and Python keeps that.
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    asyncio.run(hold(sys.argv[1]))
except KeyboardInterrupt:
    sys.exit(130)
