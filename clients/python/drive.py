"""Claims an environment, deploys, watches, and releases, with a client generated from openapi.json.

`cargo xtask clients` generates the package berth_client, checks the types and runs this against a real server.
"""

import os

import httpx

from berth_client import AuthenticatedClient
from berth_client.api.deployments import get_deployment
from berth_client.api.environments import (
    claim_session,
    deploy_commit,
    get_session,
    release_session,
)
from berth_client.models import (
    DeploymentResponse,
    DeploymentStatus,
    DeployNew,
    LockStatus,
    SessionNew,
    SessionResponse,
)

WAIT_SECONDS = 10
POLLS_MAX = 6


def drive(client: AuthenticatedClient, org: str, pipeline: str, env: str) -> None:
    claimed = claim_session.sync(
        org, pipeline, env, client=client, body=SessionNew(context="generated client")
    )
    assert isinstance(claimed, SessionResponse), claimed
    session = claimed.data.session_id

    commit = DeployNew(commit_id="9fceb02")
    started = deploy_commit.sync(org, pipeline, env, session, client=client, body=commit)
    assert isinstance(started, DeploymentResponse), started
    deployment, status = started.data.deployment_id, started.data.status

    for _ in range(POLLS_MAX):
        if status == DeploymentStatus.SUCCEEDED:
            break
        assert status in (DeploymentStatus.QUEUED, DeploymentStatus.RUNNING), status
        seen = get_deployment.sync(org, deployment, client=client, wait=WAIT_SECONDS)
        assert isinstance(seen, DeploymentResponse), seen
        status = seen.data.status
    assert status == DeploymentStatus.SUCCEEDED, status

    held = get_session.sync(org, pipeline, env, session, client=client)
    assert isinstance(held, SessionResponse), held
    assert held.data.lock_status == LockStatus.LOCKED
    assert held.data.deployment_history[0].deployment_id == deployment

    released = release_session.sync(org, pipeline, env, session, client=client)
    assert isinstance(released, SessionResponse), released
    assert released.data.lock_status == LockStatus.UNLOCKED

    late = deploy_commit.sync_detailed(org, pipeline, env, session, client=client, body=commit)
    assert late.status_code == 409, late


if __name__ == "__main__":
    drive(
        AuthenticatedClient(
            base_url=os.environ["BERTH_URL"],
            token=os.environ["BERTH_TOKEN"],
            timeout=httpx.Timeout(WAIT_SECONDS + 10),
        ),
        os.environ["BERTH_ORGANIZATION"],
        os.environ["BERTH_PIPELINE"],
        os.environ["BERTH_ENVIRONMENT"],
    )
