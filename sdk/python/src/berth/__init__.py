"""Client of Berth: claim shared environments, deploy, and follow deployments."""

from . import models
from ._client import VERSION, Berth
from ._session import Session, SessionContext
from .errors import (
    ApiError,
    BerthError,
    ConnectionFailed,
    DeploymentFailed,
    EnvironmentLocked,
    Interrupted,
    QueueEnded,
    SessionEnded,
    SessionOverridden,
)

__all__ = [
    "VERSION",
    "ApiError",
    "Berth",
    "BerthError",
    "ConnectionFailed",
    "DeploymentFailed",
    "EnvironmentLocked",
    "Interrupted",
    "QueueEnded",
    "Session",
    "SessionContext",
    "SessionEnded",
    "SessionOverridden",
    "models",
]
