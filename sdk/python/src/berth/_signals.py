"""SIGTERM: the tasks that hold or wait for an environment are cancelled, and release it.

SIGINT needs no handler: `asyncio.run` cancels the main task.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable

from .errors import Interrupted

Handler = Callable[[Interrupted], None]

_handlers: dict[asyncio.AbstractEventLoop, list[Handler]] = {}


def add_handler(handler: Handler) -> Callable[[], None]:
    """Calls the handler on SIGTERM. Returns a function that removes it.

    Does nothing outside of the main thread, and if the program handles SIGTERM itself.
    """
    loop = asyncio.get_running_loop()
    if threading.current_thread() is not threading.main_thread():
        return lambda: None
    handlers = _handlers.get(loop)
    if handlers is None:
        if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
            return lambda: None
        handlers = _handlers[loop] = []
        loop.add_signal_handler(signal.SIGTERM, _handle, handlers)
    handlers.append(handler)

    def remove() -> None:
        if handler in handlers:
            handlers.remove(handler)
        if not handlers and _handlers.pop(loop, None) is not None:
            loop.remove_signal_handler(signal.SIGTERM)

    return remove


def _handle(handlers: list[Handler]) -> None:
    for handler in list(handlers):
        handler(Interrupted(signal.SIGTERM))
