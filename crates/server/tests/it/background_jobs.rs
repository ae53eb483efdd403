//! Background jobs: they process everything that is due, and deployments that start, end, are cancelled or are lost.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use berth_api::runner::{AcquireParams, RunnerLink};
use berth_core::decision::CommandRefusal;
use berth_core::deployment::environment::cancel::cancel;
use berth_core::environment::claim::{ClaimCommand, ClaimOutcome, claim};
use berth_core::environment::{
    ClaimTerms, EnvironmentCondition, EnvironmentStatus, SessionState, TicketCause, TicketState,
};
use berth_core::id::{DeploymentId, OrgId};
use berth_engine::EmbeddedLink;
use berth_engine::vault::{SecretVault, WhenMissing};
use berth_server::app::App;
use berth_server::config::AppConfig;
use berth_server::jobs;
use berth_store::Store;
use berth_store::tables::{environment, ticket};
use expect_test::{Expect, expect};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::jobs_fixture::{JobsFixture, expect_session, lock_holder};
use super::jobs_with_runner::start_runner;
use super::world::{TestWorld, call, post};

const HANGING_STEP: &str =
    "  steps:\n    - {name: Deploy, type: dummy, on_lost: fail, params: {outcome: hang}}\n";
const QUICK_STEP: &str = "  steps:\n    - {name: Deploy, type: dummy}\n";

fn claim_terms(ttl_seconds: Option<i64>) -> ClaimTerms {
    ClaimTerms { ttl_seconds, ..ClaimTerms::default() }
}

#[tokio::test]
async fn sweep_expires_a_session_and_grants_the_next_ticket() {
    let world = TestWorld::new().await;
    let mut fixture = JobsFixture::new(&world).await;
    fixture.create_pipeline(&world, "shop", QUICK_STEP).await;
    let running = fixture.start_jobs();
    let by = fixture.ada.clone();
    let first = ClaimCommand { by: by.clone(), token: None, terms: claim_terms(Some(1)), wait_seconds: None };
    let session = fixture.apply_rule("shop", move |lock, moment| claim(lock, &first, moment)).await;
    let session = expect_session(session.unwrap()).session;
    let second = ClaimCommand { by, token: None, terms: claim_terms(None), wait_seconds: Some(60) };
    fixture.apply_rule("shop", move |lock, moment| claim(lock, &second, moment)).await.unwrap();

    let ended = fixture.wait_for_event(&["session_expired"]).await;
    let late = ended.occurred_at.as_micros() - session.expires_at.unwrap().as_micros();
    assert!((0..2_000_000).contains(&late), "{late} µs late");
    fixture.wait_for_event(&["ticket_granted"]).await;
    assert_eq!(fixture.load_session(session.id).await.status(), SessionState::Expired);
    assert!(fixture.load_lock("shop").await.session.is_some_and(|next| next.id != session.id));
    expect![[r#"
        session_claimed
        ticket_queued
        session_expired
        session_claimed
        ticket_granted
    "#]]
    .assert_eq(&fixture.format_events());

    running.shut_down().await;
}

#[tokio::test]
async fn sweep_removes_the_ticket_of_a_revoked_token() {
    let world = TestWorld::new().await;
    let fixture = JobsFixture::new(&world).await;
    fixture.create_pipeline(&world, "shop", QUICK_STEP).await;
    let made =
        post("/api/v1/organizations/acme/api-tokens").with_account(&world.ada).json(&json!({"name": "ci"}));
    let made = world.send(made).await;
    let token = made.body["data"]["id"].as_str().unwrap().to_owned();

    let by = fixture.ada.clone();
    let hold = ClaimCommand { by: by.clone(), token: None, terms: claim_terms(None), wait_seconds: None };
    fixture.apply_rule("shop", move |lock, moment| claim(lock, &hold, moment)).await.unwrap();
    let wait = ClaimCommand {
        by,
        token: Some(token.parse().unwrap()),
        terms: claim_terms(None),
        wait_seconds: Some(3_600),
    };
    let waits = fixture.apply_rule("shop", move |lock, moment| claim(lock, &wait, moment)).await.unwrap();
    let ClaimOutcome::Ticket(waiting) = waits else { panic!("{waits:?}") };
    jobs::tick(fixture.app.jobs()).await.unwrap();
    assert_eq!(fixture.load_lock("shop").await.tickets.len(), 1);

    let revoke = call("DELETE", &format!("/api/v1/organizations/acme/api-tokens/{token}"));
    assert_eq!(world.send(revoke.with_account(&world.ada)).await.status, 200);
    jobs::tick(fixture.app.jobs()).await.unwrap();
    let found = fixture.app.store().read(Some(fixture.org), move |db| ticket::by_id(db, waiting.id)).await;
    let status = found.unwrap().unwrap().status;
    assert!(matches!(status, TicketState::Cancelled { cause: TicketCause::Revoked, .. }), "{status:?}");
    assert_eq!(fixture.load_lock("shop").await.environment.agenda.due_at, None);
}

#[tokio::test]
async fn sweep_does_not_repeat_for_an_environment_without_due_work() {
    let world = TestWorld::new().await;
    let fixture = JobsFixture::new(&world).await;
    fixture.create_pipeline(&world, "shop", QUICK_STEP).await;
    let by = fixture.ada.clone();
    let hold = ClaimCommand { by: by.clone(), token: None, terms: claim_terms(None), wait_seconds: None };
    fixture.apply_rule("shop", move |lock, moment| claim(lock, &hold, moment)).await.unwrap();
    let wait =
        ClaimCommand { by: by.clone(), token: None, terms: claim_terms(None), wait_seconds: Some(3_600) };
    fixture.apply_rule("shop", move |lock, moment| claim(lock, &wait, moment)).await.unwrap();
    let before = fixture.load_lock("shop").await;

    let ada = by.id;
    fixture.transact(move |tx| environment::make_queues_due(tx, ada)).await;
    assert!(fixture.load_lock("shop").await.environment.agenda.due_at < before.environment.agenda.due_at);
    let refused = ClaimCommand { by, token: None, terms: claim_terms(None), wait_seconds: None };
    let refused = fixture.apply_rule("shop", move |lock, moment| claim(lock, &refused, moment)).await;
    assert!(matches!(refused, Err(CommandRefusal::EnvironmentLocked(_))), "{refused:?}");

    jobs::tick(fixture.app.jobs()).await.unwrap();
    assert_eq!(fixture.load_lock("shop").await, before);
}

async fn check_deployment(
    world: &TestWorld,
    fixture: &mut JobsFixture,
    slug: &str,
    body: &str,
    expected: Expect,
) {
    fixture.create_pipeline(world, slug, body).await;
    let id = fixture.deploy(slug).await;
    expected.assert_eq(&fixture.wait_for_end(id).await);
}

#[tokio::test]
async fn dummy_steps_follow_their_params() {
    let world = TestWorld::new().await;
    let mut fixture = JobsFixture::new(&world).await;
    let running = fixture.start_jobs();
    for (slug, body, expected) in [
        (
            "none",
            "  steps:\n    - {name: Skipped, type: script, params: {run: make}}\n",
            expect!["succeeded"],
        ),
        (
            "all",
            "  build:\n    - {name: Build, type: dummy}\n  steps:\n    - {name: Deploy, type: dummy, params: {duration: 1s, message: hello}}\n    - {name: Skipped, type: dummy, params: {outcome: fail}}\n",
            expect!["succeeded"],
        ),
        (
            "fails",
            "  steps:\n    - {name: Deploy, type: dummy, params: {outcome: fail, message: no such host}}\n    - {name: Later, type: dummy, params: {outcome: hang}}\n",
            expect![[r#"step_failed: step "deploy": failed, as it was told"#]],
        ),
        (
            "hangs",
            "  steps:\n    - {name: Deploy, type: dummy, timeout: 1s, params: {outcome: hang}}\n",
            expect![[r#"timed_out: step "deploy": took longer than its timeout of 1s"#]],
        ),
        (
            "order",
            "  steps:\n    - {name: First, type: dummy, needs: [second], params: {outcome: hang}}\n    - {name: Second, type: dummy, needs: [], params: {outcome: fail}}\n",
            expect![[r#"step_failed: step "second": failed, as it was told"#]],
        ),
        (
            "words",
            "  steps:\n    - {name: Deploy, type: dummy, params: {message: 'to ${{ stage.name }}'}}\n",
            expect!["succeeded"],
        ),
        (
            "if",
            "  steps:\n    - {name: Deploy, type: dummy, if: \"${{ stage.name == 'qa-1' }}\"}\n",
            expect!["succeeded"],
        ),
    ] {
        check_deployment(&world, &mut fixture, slug, body, expected).await;
    }
    let environment = fixture.load_lock("all").await.environment;
    assert_eq!(environment.deployed_commit.unwrap().as_str(), "4f2a1c9");
    assert_eq!(environment.condition, EnvironmentCondition::Dirty);
    running.shut_down().await;
}

#[tokio::test]
async fn cancelled_deployment_ends_once_its_step_has_stopped() {
    let world = TestWorld::new().await;
    let mut fixture = JobsFixture::new(&world).await;
    let body = "  steps:\n    - {name: Deploy, type: dummy, params: {outcome: hang, stop_after: 1s}}\n";
    fixture.create_pipeline(&world, "shop", body).await;
    let running = fixture.start_jobs();
    let id = fixture.deploy("shop").await;
    fixture.wait_for_step_start().await;
    assert_eq!(fixture.load_outcome(id).await, "running");
    let (found, by) = (fixture.load_deployment(id).await, fixture.ada.actor());
    fixture.apply_rule("shop", move |lock, moment| cancel(lock, &found, by, None, moment)).await.unwrap();
    assert_eq!(fixture.load_outcome(id).await, "cancelling");
    assert_eq!(fixture.wait_for_end(id).await, "cancelled");
    assert_eq!(fixture.load_lock("shop").await.environment.condition, EnvironmentCondition::Dirty);
    running.shut_down().await;
}

#[tokio::test]
async fn takeover_starts_no_further_step_of_an_unnotified_attempt() {
    let world = TestWorld::new().await;
    let mut fixture = JobsFixture::new(&world).await;
    let body = "  steps:\n    - {name: One, type: dummy, params: {duration: 1s}}\n    - {name: Two, type: dummy, params: {outcome: hang}}\n";
    fixture.create_pipeline(&world, "shop", body).await;
    let old = fixture.deploy("shop").await;
    jobs::tick(fixture.app.jobs()).await.unwrap();
    // The background jobs are not running, so nothing notifies the runner. It learns of the takeover when it reports
    // the end of the first step.
    let dir = tempfile::tempdir().unwrap();
    let runner = start_runner(&fixture.app, dir.path());
    fixture.wait_for_step_start().await;
    fixture.take_over("shop").await;
    assert_eq!(fixture.wait_for_end(old).await, "cancelled");
    assert_eq!(fixture.received.iter().filter(|event| event.kind == "step_started").count(), 1);
    fixture.app.services().shutdown.cancel();
    tokio::task::spawn_blocking(move || runner.stop()).await.unwrap();
}

#[tokio::test]
async fn takeover_starts_new_work_once_the_old_has_stopped() {
    let world = TestWorld::new().await;
    let mut fixture = JobsFixture::new(&world).await;
    let body =
        "  steps:\n    - {name: Deploy, type: dummy, timeout: 3s, params: {outcome: hang, stop_after: 2s}}\n";
    fixture.create_pipeline(&world, "shop", body).await;
    let running = fixture.start_jobs();
    fixture.deploy("shop").await;
    fixture.wait_for_event(&["deployment_started"]).await;
    fixture.wait_for_step_start().await;
    let opened = fixture.take_over("shop").await;
    assert_eq!(fixture.load_lock("shop").await.state(), EnvironmentStatus::Contested);

    fixture.wait_for_event(&["environment_drained"]).await;
    fixture.wait_for_event(&["deployment_started"]).await;
    assert_eq!(fixture.load_lock("shop").await.state(), EnvironmentStatus::Dirty);
    let drain = fixture.load_session(opened.session.id).await.drain.unwrap();
    let took = drain.completed_at.unwrap().as_micros() - opened.session.claimed_at.as_micros();
    assert!(took >= 2_000_000, "the old work took {took} µs to stop");
    let timed_out = fixture.wait_for_end(opened.deployment.unwrap()).await;
    assert!(timed_out.starts_with("timed_out"), "{timed_out}");
    expect![[r#"
        session_claimed 4f2a1c9
        deployment_queued 4f2a1c9
        deployment_started 4f2a1c9
        deployment_cancelling 4f2a1c9
        session_overridden
        session_claimed 9b0d3e7
        deployment_queued 9b0d3e7
        deployment_cancelled 4f2a1c9
        environment_drained
        deployment_started 9b0d3e7
        deployment_failed 9b0d3e7
    "#]]
    .assert_eq(&fixture.format_events());
    running.shut_down().await;
}

#[tokio::test]
async fn stopped_pipeline_starts_nothing_until_it_is_resumed() {
    let world = TestWorld::new().await;
    let mut fixture = JobsFixture::new(&world).await;
    fixture.create_pipeline(&world, "shop", QUICK_STEP).await;
    let path = "/api/v1/organizations/acme/pipelines/shop";
    assert_eq!(world.send(post(&format!("{path}/stop")).with_account(&world.ada)).await.status, 200);
    let id = fixture.deploy("shop").await;
    for _ in 0..3 {
        jobs::tick(fixture.app.jobs()).await.unwrap();
        assert_eq!(fixture.load_outcome(id).await, "queued");
    }
    assert_eq!(world.send(post(&format!("{path}/resume")).with_account(&world.ada)).await.status, 200);
    let running = fixture.start_jobs();
    assert_eq!(fixture.wait_for_end(id).await, "succeeded");
    running.shut_down().await;
}

#[tokio::test]
async fn shutdown_interrupts_running_steps() {
    let world = TestWorld::new().await;
    let mut fixture = JobsFixture::new(&world).await;
    let begun = world.dir.path().join("begun");
    let run = format!("touch {}; sleep 1000", begun.display());
    let body =
        format!("  steps:\n    - {{name: Deploy, type: script, on_lost: fail, params: {{run: '{run}'}}}}\n");
    fixture.create_pipeline(&world, "shop", &body).await;
    let running = fixture.start_jobs();
    let id = fixture.deploy("shop").await;
    fixture.wait_for_step_start().await;
    while !begun.exists() {
        tokio::time::sleep(crate::world::POLL_EVERY).await;
    }
    let asked = Instant::now();
    running.shut_down().await;
    assert!(asked.elapsed() < Duration::from_secs(10), "it took {:?}", asked.elapsed());
    let outcome = fixture.load_outcome(id).await;
    assert_eq!(outcome, "lost: its runner was lost; the outcome is unknown");
    assert_eq!(fixture.load_lock("shop").await.state(), EnvironmentStatus::Unknown);
}

/// Simulates a crash: drops the runtime and everything that runs in it.
fn crash_server(dir: &mut Option<tempfile::TempDir>) -> (OrgId, DeploymentId) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let world = TestWorld::new().await;
        let mut fixture = JobsFixture::new(&world).await;
        fixture.create_pipeline(&world, "shop", HANGING_STEP).await;
        let id = fixture.deploy("shop").await;
        jobs::tick(fixture.app.jobs()).await.unwrap();
        let app = fixture.app.clone();
        let granted = tokio::task::spawn_blocking(move || {
            let link = EmbeddedLink::new(app.services().clone());
            let boot = link.boot().to_owned();
            let asked = AcquireParams { boot, nonces: vec!["nonce".into()], labels: vec![] };
            link.acquire(&asked, Duration::ZERO).unwrap().len()
        });
        assert_eq!(granted.await.unwrap(), 1);
        fixture.wait_for_step_start().await;
        let org = fixture.org;
        *dir = Some(world.dir);
        (org, id)
    })
}

fn restart_app(path: &Path) -> App {
    let store = Store::open_sqlite(&path.join("berth.db")).unwrap();
    let vault = SecretVault::open(&store, &path.join("root.key"), WhenMissing::Create).unwrap();
    let config = AppConfig::local(([127, 0, 0, 1], 8080).into());
    App::new(store, vault, AppConfig { data_dir: path.to_owned(), ..config }, CancellationToken::new())
}

#[test]
fn crash_loses_running_attempts_and_the_next_deployment_starts() {
    let mut dir = None;
    let (org, id) = crash_server(&mut dir);
    let dir = dir.unwrap();
    let app = Arc::new(restart_app(dir.path()));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async move {
        let mut fixture = JobsFixture::for_app(app, org).await;
        assert_eq!(fixture.load_outcome(id).await, "running");
        let running = fixture.start_jobs();
        let lost = fixture.wait_for_end(id).await;
        assert_eq!(lost, "lost: its runner was lost; the outcome is unknown");
        assert_eq!(fixture.load_lock("shop").await.state(), EnvironmentStatus::Unknown);
        let next = fixture.take_over("shop").await;
        let started = fixture.wait_for_event(&["deployment_started"]).await;
        assert_eq!(started.subjects[0].id, next.deployment.unwrap().to_string());
        running.shut_down().await;
    });
}

#[tokio::test]
async fn session_runs_one_deployment_at_a_time_and_then_the_next() {
    use berth_core::environment::NamedSession;
    use berth_core::environment::deploy::{ConflictMode, DeployCommand, deploy};
    use berth_core::name::CommitId;

    let world = TestWorld::new().await;
    let mut fixture = JobsFixture::new(&world).await;
    fixture.create_pipeline(&world, "shop", QUICK_STEP).await;
    let first = fixture.deploy("shop").await;
    let (by, session) = (fixture.ada.clone(), fixture.load_lock("shop").await.session.unwrap());
    let cmd = DeployCommand {
        by: lock_holder(by.id, "ada"),
        commit: CommitId::parse("77aa001").unwrap(),
        context: None,
        on_conflict: ConflictMode::Queue,
        override_drain: None,
        is_untrusted: false,
    };
    let second = fixture.apply_rule("shop", move |lock, moment| {
        deploy(lock, &NamedSession { session: &session, expected: None }, &cmd, moment)
    });
    let second = second.await.unwrap().id;
    let running = fixture.start_jobs();
    assert_eq!(fixture.wait_for_end(first).await, "succeeded");
    assert_eq!(fixture.wait_for_end(second).await, "succeeded");
    expect![[r#"
        session_claimed 4f2a1c9
        deployment_queued 4f2a1c9
        deployment_queued 77aa001
        deployment_started 4f2a1c9
        deployment_succeeded 4f2a1c9
        deployment_started 77aa001
        deployment_succeeded 77aa001
    "#]]
    .assert_eq(&fixture.format_events());
    running.shut_down().await;
}
