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

use super::at_work::runner;
use super::world::{World, call, post};
use super::yard::{Yard, holder, opened};

const HANG: &str = "  steps:\n    - {name: Deploy, type: dummy, on_lost: fail, params: {outcome: hang}}\n";
const QUICK: &str = "  steps:\n    - {name: Deploy, type: dummy}\n";

fn wish(ttl_seconds: Option<i64>) -> ClaimTerms {
    ClaimTerms { ttl_seconds, ..ClaimTerms::default() }
}

#[tokio::test]
async fn sweep_expires_a_session_and_grants_the_next_ticket() {
    let world = World::new().await;
    let mut yard = Yard::new(&world).await;
    yard.pipeline(&world, "shop", QUICK).await;
    let running = yard.go_to_work();
    let by = yard.ada.clone();
    let first = ClaimCommand { by: by.clone(), token: None, terms: wish(Some(1)), wait_seconds: None };
    let session = yard.decide("shop", move |lock, moment| claim(lock, &first, moment)).await;
    let session = opened(session.unwrap()).session;
    let second = ClaimCommand { by, token: None, terms: wish(None), wait_seconds: Some(60) };
    yard.decide("shop", move |lock, moment| claim(lock, &second, moment)).await.unwrap();

    let ended = yard.hear(&["session_expired"]).await;
    let late = ended.occurred_at.as_micros() - session.expires_at.unwrap().as_micros();
    assert!((0..2_000_000).contains(&late), "{late} µs late");
    yard.hear(&["ticket_granted"]).await;
    assert_eq!(yard.session(session.id).await.status(), SessionState::Expired);
    assert!(yard.lock("shop").await.session.is_some_and(|next| next.id != session.id));
    expect![[r#"
        session_claimed
        ticket_queued
        session_expired
        session_claimed
        ticket_granted
    "#]]
    .assert_eq(&yard.story());

    running.end().await;
}

#[tokio::test]
async fn sweep_removes_the_ticket_of_a_revoked_token() {
    let world = World::new().await;
    let yard = Yard::new(&world).await;
    yard.pipeline(&world, "shop", QUICK).await;
    let made = post("/api/v1/organizations/acme/api-tokens").by(&world.ada).json(&json!({"name": "ci"}));
    let made = world.send(made).await;
    let token = made.body["data"]["id"].as_str().unwrap().to_owned();

    let by = yard.ada.clone();
    let hold = ClaimCommand { by: by.clone(), token: None, terms: wish(None), wait_seconds: None };
    yard.decide("shop", move |lock, moment| claim(lock, &hold, moment)).await.unwrap();
    let wait = ClaimCommand {
        by,
        token: Some(token.parse().unwrap()),
        terms: wish(None),
        wait_seconds: Some(3_600),
    };
    let waits = yard.decide("shop", move |lock, moment| claim(lock, &wait, moment)).await.unwrap();
    let ClaimOutcome::Ticket(waiting) = waits else { panic!("{waits:?}") };
    jobs::tick(yard.app.jobs()).await.unwrap();
    assert_eq!(yard.lock("shop").await.tickets.len(), 1);

    let revoke = call("DELETE", &format!("/api/v1/organizations/acme/api-tokens/{token}"));
    assert_eq!(world.send(revoke.by(&world.ada)).await.status, 200);
    jobs::tick(yard.app.jobs()).await.unwrap();
    let found = yard.app.store().read(Some(yard.org), move |db| ticket::by_id(db, waiting.id)).await;
    let status = found.unwrap().unwrap().status;
    assert!(matches!(status, TicketState::Cancelled { cause: TicketCause::Revoked, .. }), "{status:?}");
    assert_eq!(yard.lock("shop").await.environment.agenda.due_at, None);
}

#[tokio::test]
async fn sweep_does_not_repeat_for_an_environment_without_due_work() {
    let world = World::new().await;
    let yard = Yard::new(&world).await;
    yard.pipeline(&world, "shop", QUICK).await;
    let by = yard.ada.clone();
    let hold = ClaimCommand { by: by.clone(), token: None, terms: wish(None), wait_seconds: None };
    yard.decide("shop", move |lock, moment| claim(lock, &hold, moment)).await.unwrap();
    let wait = ClaimCommand { by: by.clone(), token: None, terms: wish(None), wait_seconds: Some(3_600) };
    yard.decide("shop", move |lock, moment| claim(lock, &wait, moment)).await.unwrap();
    let before = yard.lock("shop").await;

    let ada = by.id;
    yard.transact(move |tx| environment::make_queues_due(tx, ada)).await;
    assert!(yard.lock("shop").await.environment.agenda.due_at < before.environment.agenda.due_at);
    let refused = ClaimCommand { by, token: None, terms: wish(None), wait_seconds: None };
    let refused = yard.decide("shop", move |lock, moment| claim(lock, &refused, moment)).await;
    assert!(matches!(refused, Err(CommandRefusal::EnvironmentLocked(_))), "{refused:?}");

    jobs::tick(yard.app.jobs()).await.unwrap();
    assert_eq!(yard.lock("shop").await, before);
}

async fn check(world: &World, yard: &mut Yard, slug: &str, body: &str, expected: Expect) {
    yard.pipeline(world, slug, body).await;
    let id = yard.deploy(slug).await;
    expected.assert_eq(&yard.end_of(id).await);
}

#[tokio::test]
async fn dummy_steps_follow_their_params() {
    let world = World::new().await;
    let mut yard = Yard::new(&world).await;
    let running = yard.go_to_work();
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
        check(&world, &mut yard, slug, body, expected).await;
    }
    let environment = yard.lock("all").await.environment;
    assert_eq!(environment.deployed_commit.unwrap().as_str(), "4f2a1c9");
    assert_eq!(environment.condition, EnvironmentCondition::Dirty);
    running.end().await;
}

#[tokio::test]
async fn cancelled_deployment_ends_once_its_step_has_stopped() {
    let world = World::new().await;
    let mut yard = Yard::new(&world).await;
    let body = "  steps:\n    - {name: Deploy, type: dummy, params: {outcome: hang, stop_after: 1s}}\n";
    yard.pipeline(&world, "shop", body).await;
    let running = yard.go_to_work();
    let id = yard.deploy("shop").await;
    yard.begun().await;
    assert_eq!(yard.outcome(id).await, "running");
    let (found, by) = (yard.deployment(id).await, yard.ada.actor());
    yard.decide("shop", move |lock, moment| cancel(lock, &found, by, None, moment)).await.unwrap();
    assert_eq!(yard.outcome(id).await, "cancelling");
    assert_eq!(yard.end_of(id).await, "cancelled");
    assert_eq!(yard.lock("shop").await.environment.condition, EnvironmentCondition::Dirty);
    running.end().await;
}

#[tokio::test]
async fn takeover_starts_no_further_step_of_an_unnotified_attempt() {
    let world = World::new().await;
    let mut yard = Yard::new(&world).await;
    let body = "  steps:\n    - {name: One, type: dummy, params: {duration: 1s}}\n    - {name: Two, type: dummy, params: {outcome: hang}}\n";
    yard.pipeline(&world, "shop", body).await;
    let old = yard.deploy("shop").await;
    jobs::tick(yard.app.jobs()).await.unwrap();
    // The background jobs are not running, so nothing notifies the runner. It learns of the takeover when it reports
    // the end of the first step.
    let dir = tempfile::tempdir().unwrap();
    let runner = runner(&yard.app, dir.path());
    yard.begun().await;
    yard.take_over("shop").await;
    assert_eq!(yard.end_of(old).await, "cancelled");
    assert_eq!(yard.heard.iter().filter(|event| event.kind == "step_started").count(), 1);
    yard.app.services().shutdown.cancel();
    tokio::task::spawn_blocking(move || runner.stop()).await.unwrap();
}

#[tokio::test]
async fn takeover_starts_new_work_once_the_old_has_stopped() {
    let world = World::new().await;
    let mut yard = Yard::new(&world).await;
    let body =
        "  steps:\n    - {name: Deploy, type: dummy, timeout: 3s, params: {outcome: hang, stop_after: 2s}}\n";
    yard.pipeline(&world, "shop", body).await;
    let running = yard.go_to_work();
    yard.deploy("shop").await;
    yard.hear(&["deployment_started"]).await;
    yard.begun().await;
    let opened = yard.take_over("shop").await;
    assert_eq!(yard.lock("shop").await.state(), EnvironmentStatus::Contested);

    yard.hear(&["environment_drained"]).await;
    yard.hear(&["deployment_started"]).await;
    assert_eq!(yard.lock("shop").await.state(), EnvironmentStatus::Dirty);
    let drain = yard.session(opened.session.id).await.drain.unwrap();
    let took = drain.completed_at.unwrap().as_micros() - opened.session.claimed_at.as_micros();
    assert!(took >= 2_000_000, "the old work took {took} µs to stop");
    let timed_out = yard.end_of(opened.deployment.unwrap()).await;
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
    .assert_eq(&yard.story());
    running.end().await;
}

#[tokio::test]
async fn stopped_pipeline_starts_nothing_until_it_is_resumed() {
    let world = World::new().await;
    let mut yard = Yard::new(&world).await;
    yard.pipeline(&world, "shop", QUICK).await;
    let path = "/api/v1/organizations/acme/pipelines/shop";
    assert_eq!(world.send(post(&format!("{path}/stop")).by(&world.ada)).await.status, 200);
    let id = yard.deploy("shop").await;
    for _ in 0..3 {
        jobs::tick(yard.app.jobs()).await.unwrap();
        assert_eq!(yard.outcome(id).await, "queued");
    }
    assert_eq!(world.send(post(&format!("{path}/resume")).by(&world.ada)).await.status, 200);
    let running = yard.go_to_work();
    assert_eq!(yard.end_of(id).await, "succeeded");
    running.end().await;
}

#[tokio::test]
async fn shutdown_interrupts_running_steps() {
    let world = World::new().await;
    let mut yard = Yard::new(&world).await;
    let begun = world.dir.path().join("begun");
    let run = format!("touch {}; sleep 1000", begun.display());
    let body =
        format!("  steps:\n    - {{name: Deploy, type: script, on_lost: fail, params: {{run: '{run}'}}}}\n");
    yard.pipeline(&world, "shop", &body).await;
    let running = yard.go_to_work();
    let id = yard.deploy("shop").await;
    yard.begun().await;
    while !begun.exists() {
        tokio::time::sleep(crate::world::POLL_EVERY).await;
    }
    let asked = Instant::now();
    running.end().await;
    assert!(asked.elapsed() < Duration::from_secs(10), "it took {:?}", asked.elapsed());
    let outcome = yard.outcome(id).await;
    assert_eq!(outcome, "lost: its runner was lost; the outcome is unknown");
    assert_eq!(yard.lock("shop").await.state(), EnvironmentStatus::Unknown);
}

/// Simulates a crash: drops the runtime and everything that runs in it.
fn crashed(dir: &mut Option<tempfile::TempDir>) -> (OrgId, DeploymentId) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let world = World::new().await;
        let mut yard = Yard::new(&world).await;
        yard.pipeline(&world, "shop", HANG).await;
        let id = yard.deploy("shop").await;
        jobs::tick(yard.app.jobs()).await.unwrap();
        let app = yard.app.clone();
        let granted = tokio::task::spawn_blocking(move || {
            let link = EmbeddedLink::new(app.services().clone());
            let boot = link.boot().to_owned();
            let asked = AcquireParams { boot, nonces: vec!["nonce".into()], labels: vec![] };
            link.acquire(&asked, Duration::ZERO).unwrap().len()
        });
        assert_eq!(granted.await.unwrap(), 1);
        yard.begun().await;
        let org = yard.org;
        *dir = Some(world.dir);
        (org, id)
    })
}

fn opened_again(path: &Path) -> App {
    let store = Store::open_sqlite(&path.join("berth.db")).unwrap();
    let vault = SecretVault::open(&store, &path.join("root.key"), WhenMissing::Create).unwrap();
    let config = AppConfig::local(([127, 0, 0, 1], 8080).into());
    App::new(store, vault, AppConfig { data_dir: path.to_owned(), ..config }, CancellationToken::new())
}

#[test]
fn crash_loses_running_attempts_and_the_next_deployment_starts() {
    let mut dir = None;
    let (org, id) = crashed(&mut dir);
    let dir = dir.unwrap();
    let app = Arc::new(opened_again(dir.path()));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async move {
        let mut yard = Yard::over(app, org).await;
        assert_eq!(yard.outcome(id).await, "running");
        let running = yard.go_to_work();
        let lost = yard.end_of(id).await;
        assert_eq!(lost, "lost: its runner was lost; the outcome is unknown");
        assert_eq!(yard.lock("shop").await.state(), EnvironmentStatus::Unknown);
        let next = yard.take_over("shop").await;
        let started = yard.hear(&["deployment_started"]).await;
        assert_eq!(started.subjects[0].id, next.deployment.unwrap().to_string());
        running.end().await;
    });
}

#[tokio::test]
async fn session_runs_one_deployment_at_a_time_and_then_the_next() {
    use berth_core::environment::NamedSession;
    use berth_core::environment::deploy::{ConflictMode, DeployCommand, deploy};
    use berth_core::name::CommitId;

    let world = World::new().await;
    let mut yard = Yard::new(&world).await;
    yard.pipeline(&world, "shop", QUICK).await;
    let first = yard.deploy("shop").await;
    let (by, session) = (yard.ada.clone(), yard.lock("shop").await.session.unwrap());
    let cmd = DeployCommand {
        by: holder(by.id, "ada"),
        commit: CommitId::parse("77aa001").unwrap(),
        context: None,
        on_conflict: ConflictMode::Queue,
        override_drain: None,
    };
    let second = yard.decide("shop", move |lock, moment| {
        deploy(lock, &NamedSession { session: &session, expected: None }, &cmd, moment)
    });
    let second = second.await.unwrap().id;
    let running = yard.go_to_work();
    assert_eq!(yard.end_of(first).await, "succeeded");
    assert_eq!(yard.end_of(second).await, "succeeded");
    expect![[r#"
        session_claimed 4f2a1c9
        deployment_queued 4f2a1c9
        deployment_queued 77aa001
        deployment_started 4f2a1c9
        deployment_succeeded 4f2a1c9
        deployment_started 77aa001
        deployment_succeeded 77aa001
    "#]]
    .assert_eq(&yard.story());
    running.end().await;
}
