"""Tests of the installed package against a real server."""

from __future__ import annotations

import asyncio
import os
import signal
from datetime import UTC, datetime
from importlib.metadata import version
from unittest import IsolatedAsyncioTestCase

import support

from berth import (
    VERSION,
    ApiError,
    Berth,
    ConnectionFailed,
    DeploymentFailed,
    EnvironmentLocked,
    QueueEnded,
    Session,
    SessionEnded,
    SessionOverridden,
    models,
)


class SdkTest(IsolatedAsyncioTestCase):
    ci_token = ""

    async def asyncSetUp(self) -> None:
        self.ada = await self.enterAsyncContext(Berth())
        if not SdkTest.ci_token:
            await support.define_pipeline(self.ada)
            SdkTest.ci_token = await support.create_account(self.ada, "sdk-ci")
        self.ci = await self.enterAsyncContext(Berth(token=SdkTest.ci_token))

    async def is_locked(self, environment: str) -> bool:
        return bool((await support.read_environment(self.ada, environment))["lockStatus"] == "locked")

    async def test_session_deploys_reads_logs_and_releases(self) -> None:
        progress: list[str] = []
        async with self.ada.session("shop/qa-1", why="checkout tests", ttl=60) as session:
            seen = await support.read_environment(self.ada, "qa-1")
            self.assertEqual((seen["fence"], seen["lock"]["context"]), (session.fence, "checkout tests"))
            await session.deploy("v1")
            followed = asyncio.create_task(read_all(session, follow=True))
            deployment = await session.wait(on_progress=lambda it: progress.append(it["status"]))
            self.assertEqual(deployment["status"], "succeeded")
            expected = ["deploying v1 to qa-1", "host 1 updated", "host 2 updated", "host 3 updated"]
            self.assertEqual(await followed, expected)
            self.assertEqual([line async for line in session.logs("deploy")], expected)
            self.assertEqual([line async for line in session.logs(tail=1)], ["host 3 updated"])
            before = session.record["expiresAt"] or ""
            self.assertGreater((await session.extend(600))["expiresAt"] or "", before)
        self.assertEqual(progress[-1], "succeeded")
        self.assertFalse(await self.is_locked("qa-1"))

    async def test_claimed_commit_is_deployed_and_failure_is_raised(self) -> None:
        with self.assertRaises(DeploymentFailed) as raised:
            async with self.ada.session("shop/qa-1", commit="broken") as session:
                await session.wait()
        self.assertEqual(raised.exception.deployment["commitId"], "broken")
        self.assertFalse(await self.is_locked("qa-1"))

    async def test_locked_environment_is_reported_with_holder_reason_and_expiry(self) -> None:
        async with self.ci.session("shop/qa-1", why="load test", contact="grace", ttl=600) as held:
            with self.assertRaises(EnvironmentLocked) as raised:
                async with self.ada.session("shop/qa-1"):
                    self.fail("claimed twice")
        error = raised.exception
        assert error.holder and error.until
        self.assertEqual(error.holder["name"], "sdk-ci")
        self.assertEqual((error.reason, error.contact, error.is_own), ("load test", "grace", False))
        until = error.until.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        self.assertEqual(until, held.record["expiresAt"])

    async def test_queued_claim_reports_progress_and_gets_the_environment(self) -> None:
        waiting: asyncio.Future[models.Ticket] = asyncio.get_running_loop().create_future()

        async def wait_for_it() -> int:
            async with self.ada.session("shop/qa-1", queue=True, on_queue=waiting.set_result) as session:
                return session.fence

        async with self.ci.session("shop/qa-1") as holder:
            queued = asyncio.create_task(wait_for_it())
            self.assertEqual((await waiting)["position"], 1)
        self.assertGreater(await queued, holder.fence)

    async def test_queue_timeout_is_an_error(self) -> None:
        async with self.ci.session("shop/qa-1"):
            with self.assertRaises(QueueEnded) as raised:
                async with self.ada.session("shop/qa-1", queue=True, queue_timeout=1):
                    self.fail("claimed twice")
        self.assertEqual(raised.exception.ticket["status"], "expired")

    async def test_cancelled_queue_wait_leaves_the_queue(self) -> None:
        waiting = asyncio.Event()

        async def wait_for_it() -> None:
            async with self.ada.session("shop/qa-1", queue=True, on_queue=lambda _: waiting.set()):
                self.fail("claimed twice")

        async with self.ci.session("shop/qa-1"):
            queued = asyncio.create_task(wait_for_it())
            await waiting.wait()
            queued.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await queued
            self.assertEqual(await support.list_queue(self.ada, "qa-1"), [])

    async def test_takeover_aborts_the_body(self) -> None:
        was_cancelled = False
        with self.assertRaises(SessionOverridden) as raised:
            async with self.ada.session("shop/qa-2", commit="slow") as session:
                async for line in session.logs(follow=True):
                    if line == "waiting":
                        break
                takeover = asyncio.create_task(support.take_over(self.ci, "qa-2", "hotfix"))
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    was_cancelled = True
                    raise
        self.assertTrue(was_cancelled)
        self.assertEqual((raised.exception.by, raised.exception.reason), ("sdk-ci", "hotfix"))
        self.assertIs(session.ended, raised.exception)
        successor = await takeover
        lock = (await support.read_environment(self.ada, "qa-2"))["lock"]
        self.assertEqual(lock["sessionId"], successor)
        await support.release(self.ada, "qa-2", successor)

    async def test_session_released_by_another_member_aborts_the_body(self) -> None:
        with self.assertRaises(SessionEnded):
            async with self.ada.session("shop/qa-2") as session:
                await support.release(self.ci, "qa-2", session.id)
                await asyncio.Event().wait()

    async def test_cancelled_body_releases_the_session(self) -> None:
        with self.assertRaises(TimeoutError):
            async with asyncio.timeout(0.1), self.ada.session("shop/qa-2"):
                await asyncio.Event().wait()
        self.assertFalse(await self.is_locked("qa-2"))

    async def test_sigterm_releases_the_session(self) -> None:
        process, line = await support.start_program("hold.py", "shop/qa-3")
        self.assertTrue(line.startswith("fence"), line)
        self.assertTrue(await self.is_locked("qa-3"))
        process.send_signal(signal.SIGTERM)
        self.assertEqual(await process.wait(), 128 + signal.SIGTERM)
        self.assertFalse(await self.is_locked("qa-3"))

    async def test_sigint_while_queued_leaves_the_queue(self) -> None:
        async with self.ci.session("shop/qa-3"):
            process, line = await support.start_program("hold.py", "shop/qa-3")
            self.assertEqual(line, "queued")
            process.send_signal(signal.SIGINT)
            self.assertEqual(await process.wait(), 128 + signal.SIGINT)
            self.assertEqual(await support.list_queue(self.ada, "qa-3"), [])

    async def test_lost_response_does_not_claim_twice(self) -> None:
        before = await support.count_sessions(self.ada, "qa-3")
        async with support.start_lossy_proxy(os.environ["BERTH_SERVER"], loses_claim=True) as proxy:
            async with Berth(proxy.url) as client, client.session("shop/qa-3") as session:
                lock = (await support.read_environment(self.ada, "qa-3"))["lock"]
                self.assertEqual(lock["sessionId"], session.id)
        self.assertEqual(proxy.claims, 2)
        self.assertEqual(await support.count_sessions(self.ada, "qa-3"), before + 1)

    async def test_lease_is_renewed_and_the_body_is_aborted_before_it_can_expire(self) -> None:
        async with support.start_lossy_proxy(os.environ["BERTH_SERVER"], loses_claim=False) as proxy:
            client = await self.enterAsyncContext(Berth(proxy.url, retry_for=0.2))
            with self.assertRaisesRegex(SessionEnded, "unreachable"):
                async with client.session("shop/qa-4", lease=15) as session:
                    renewed = first = session.record["leaseExpiresAt"]
                    while renewed <= first:
                        await asyncio.sleep(0.1)
                        renewed = (await support.read_environment(self.ada, "qa-4"))["lock"]["leaseExpiresAt"]
                    proxy.blocked.set()
                    await asyncio.Event().wait()
        self.assertLess(datetime.now(UTC), datetime.fromisoformat(renewed))

    async def test_unreachable_server_and_unknown_environment_are_errors(self) -> None:
        nowhere = Berth("http://127.0.0.1:9", "berth_api_x", organization="acme", retry_for=0.3)
        with self.assertRaises(ConnectionFailed):
            await nowhere.request("GET", "/pipelines")
        with self.assertRaises(ApiError) as raised:
            async with self.ada.session("shop/qa-9"):
                self.fail("claimed an unknown environment")
        self.assertEqual(raised.exception.code, "not_found")
        with self.assertRaisesRegex(ValueError, "write pipeline/environment"):
            async with self.ada.session("qa-1"):
                self.fail("claimed without a pipeline")

    async def test_version_is_the_version_of_the_api(self) -> None:
        document = await self.ada.request("GET", "/api/v1/openapi.json")
        self.assertEqual(VERSION, document["info"]["version"])
        self.assertEqual(VERSION, version("berth-sdk"))


async def read_all(session: Session, *, follow: bool) -> list[str]:
    return [line async for line in session.logs(follow=follow)]
