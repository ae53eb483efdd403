"""Errors that this package raises. Each is a BerthError."""

from __future__ import annotations

import signal
from datetime import datetime
from typing import Any, cast

from .models import Deployment, Holder, Problem, Session, Ticket


class BerthError(Exception):
    """Base class of all errors."""


class ConnectionFailed(BerthError):
    """The server could not be reached, or its response was lost, for longer than `retry_for`."""


class ApiError(BerthError):
    """The server refused a request. `code` is stable; see docs/errors.md for all codes."""

    def __init__(self, status: int, problem: Problem) -> None:
        super().__init__(problem.get("detail") or f"the server returned HTTP {status}; is it a Berth server?")
        self.status = status
        self.problem = problem
        self.code: str = problem.get("code", "")
        self.request_id: str | None = problem.get("requestId")


class EnvironmentLocked(ApiError):
    """The environment is held, and the claim did not ask to queue."""

    @property
    def holder(self) -> Holder | None:
        """Who holds the environment."""
        return self.problem.get("holder")

    @property
    def reason(self) -> str | None:
        """Why it is held."""
        return self.problem.get("context")

    @property
    def since(self) -> datetime | None:
        return _to_datetime(self.problem.get("since"))

    @property
    def until(self) -> datetime | None:
        """When the session of the holder expires; None if it does not."""
        return _to_datetime(self.problem.get("expiresAt"))

    @property
    def contact(self) -> str | None:
        """Whom to ask about the session."""
        return self.problem.get("contact")

    @property
    def queue_length(self) -> int:
        return self.problem.get("queueLength", 0)

    @property
    def is_own(self) -> bool:
        """Whether the holder is the account of this token."""
        return self.problem.get("self", False)


class QueueEnded(BerthError):
    """The queue ticket ended without a session: `queue_timeout` has passed, or it was cancelled."""

    def __init__(self, ticket: Ticket) -> None:
        if ticket["status"] == "expired":
            text = f"timed out waiting in the queue for {ticket['envName']}; wait longer with queue_timeout"
        else:
            cause = f": {ticket['cause']}" if ticket["cause"] else ""
            text = f"the queue ticket for {ticket['envName']} was cancelled{cause}"
        super().__init__(text)
        self.ticket = ticket


class SessionEnded(BerthError):
    """The session ended while it was in use. `session` is its record, if the server reported it."""

    def __init__(self, message: str, session: Session | None = None) -> None:
        super().__init__(message)
        self.session = session

    @staticmethod
    def of(session: Session) -> SessionEnded:
        if session["status"] == "overridden":
            by = session["overriddenBy"]
            return SessionOverridden(
                session["envName"], by["name"] if by else None, session["overrideReason"], session
            )
        ended_by = session["endedBy"]
        by_name = f" by {ended_by['name']}" if ended_by else ""
        reason = session["endReason"] or session["status"]
        return SessionEnded(f"the session in {session['envName']} has ended: {reason}{by_name}", session)


class SessionOverridden(SessionEnded):
    """Another member took over the environment. `by` is their name."""

    def __init__(
        self, environment: str, by: str | None, reason: str | None, session: Session | None = None
    ) -> None:
        suffix = f": {reason}" if reason else ""
        super().__init__(f"{by or 'another member'} took over {environment}{suffix}", session)
        self.by = by
        self.reason = reason


class Interrupted(SessionEnded):
    """The process received SIGTERM."""

    def __init__(self, received: signal.Signals) -> None:
        super().__init__(f"received {received.name}")
        self.signal = received


class DeploymentFailed(BerthError):
    """The deployment failed, or was cancelled or superseded."""

    def __init__(self, deployment: Deployment) -> None:
        why = ": ".join(part for part in (deployment["cause"], deployment["detail"]) if part)
        suffix = f" ({why})" if why else ""
        super().__init__(f"deployment {deployment['deploymentId']} {deployment['status']}{suffix}")
        self.deployment = deployment


def to_error(status: int, body: Any, environment: str = "") -> BerthError:
    """Converts an error response. `environment` is the environment that the request was for, if there is one."""
    problem = cast(Problem, body if isinstance(body, dict) else {})
    match problem.get("code"):
        case "environment_locked":
            return EnvironmentLocked(status, problem)
        case "session_not_active" if problem.get("sessionStatus") == "overridden":
            by = problem.get("overriddenBy")
            return SessionOverridden(environment, by["name"] if by else None, problem.get("overrideReason"))
        case "session_not_active":
            return SessionEnded(problem.get("detail", "the session has ended"))
        case _:
            return ApiError(status, problem)


def _to_datetime(time: str | None) -> datetime | None:
    return datetime.fromisoformat(time) if time else None
