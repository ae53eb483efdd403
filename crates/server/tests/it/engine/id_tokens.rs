//! ID tokens: the documents of the issuer, the rotation of its keys, and steps that must not get a token.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use berth_api::runner::{AcquireParams, AttemptAssignment, RunnerLink as _};
use berth_engine::EmbeddedLink;
use berth_server::config::AppConfig;
use berth_server::jobs;
use serde_json::{Value, json};

use super::super::jobs_fixture::JobsFixture;
use super::super::world::{TestWorld, get};
use super::PipelineFixture;

const ISSUER: &str = "https://berth.acme.test";
const DAY_MICROS: i64 = 24 * 60 * 60 * 1_000_000;
const STEP: &str = "  steps:
    - { name: Deploy, type: script, id_token: { audience: sts.acme.test, file: TOKEN_FILE }, params: { run: 'true' } }
";

async fn issuer_world() -> TestWorld {
    let config = AppConfig::local(([127, 0, 0, 1], 8080).into());
    TestWorld::with_config(AppConfig { local: false, public_url: Some(ISSUER.into()), ..config }).await
}

async fn key_ids(world: &TestWorld) -> Vec<String> {
    let reply = world.send(get("/.well-known/jwks.json")).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    let keys = reply.body["keys"].as_array().unwrap().iter();
    keys.map(|key| key["kid"].as_str().unwrap().to_owned()).collect()
}

/// Moves all keys into the past.
async fn let_days_pass(world: &TestWorld, days: i64) {
    let micros = days * DAY_MICROS;
    world.run_sql(&format!(
        "UPDATE signing_keys SET created_at = created_at - {micros}, signs_from = signs_from - {micros}"
    ));
    jobs::rotate_signing_keys(world.app.services()).await.unwrap();
}

/// Requests work as the embedded runner.
async fn acquire(world: &TestWorld, nonce: &str) -> Vec<AttemptAssignment> {
    let (services, nonce) = (world.app.services().clone(), nonce.to_owned());
    let acquired = tokio::task::spawn_blocking(move || {
        let link = EmbeddedLink::new(services);
        let asked = AcquireParams { boot: link.boot().to_owned(), nonces: vec![nonce], labels: vec![] };
        link.acquire(&asked, Duration::ZERO).unwrap()
    });
    acquired.await.unwrap()
}

fn token_header(work: &[AttemptAssignment]) -> Value {
    let token = work[0].secret_files["TOKEN_FILE"].reveal();
    assert!(work[0].masked.iter().any(|value| value.reveal() == token));
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(token.split('.').next().unwrap()).unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn issuer_documents_are_open_and_cacheable() {
    let world = issuer_world().await;
    jobs::rotate_signing_keys(world.app.services()).await.unwrap();
    let metadata = world.send(get("/.well-known/openid-configuration")).await;
    assert_eq!(metadata.status, 200, "{}", metadata.text);
    assert_eq!(metadata.body["issuer"], ISSUER);
    assert_eq!(metadata.body["jwks_uri"], format!("{ISSUER}/.well-known/jwks.json"));
    assert_eq!(metadata.body["id_token_signing_alg_values_supported"], json!(["RS256"]));
    let keys = world.send(get("/.well-known/jwks.json")).await;
    assert_eq!(keys.body["keys"].as_array().unwrap().len(), 1);
    assert!(keys.body["keys"][0].get("d").is_none() && keys.body["keys"][0]["kty"] == "RSA", "{}", keys.text);
    for reply in [metadata, keys] {
        assert_eq!(reply.header("cache-control"), "public, max-age=3600");
        assert!(reply.header("content-type").starts_with("application/json"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn signing_key_is_published_before_it_signs_and_after_it_is_replaced() {
    let world = issuer_world().await;
    let fixture = JobsFixture::new(&world).await;
    jobs::rotate_signing_keys(world.app.services()).await.unwrap();
    let first = key_ids(&world).await;
    assert_eq!(first.len(), 1);
    let_days_pass(&world, 28).await;
    assert_eq!(key_ids(&world).await, first);
    let_days_pass(&world, 1).await;
    let both = key_ids(&world).await;
    assert_eq!((both.len(), &both[1]), (2, &first[0]), "the successor is published");
    if let Some(other) = world.another_server().await {
        assert_eq!(key_ids(&other).await, both, "all servers publish the same keys");
    }

    fixture.create_pipeline(&world, "shop", STEP).await;
    fixture.deploy("shop").await;
    jobs::tick(world.app.jobs()).await.unwrap();
    let before = token_header(&acquire(&world, "nonce").await);
    assert_eq!((&before["kid"], &before["alg"]), (&json!(first[0]), &json!("RS256")));
    // The runner asks again if it did not receive the response.
    world.run_sql(&format!("UPDATE signing_keys SET signs_from = signs_from - {DAY_MICROS}"));
    let after = token_header(&acquire(&world, "nonce").await);
    assert_eq!(after["kid"], json!(both[0]), "the successor signs now");
    jobs::rotate_signing_keys(world.app.services()).await.unwrap();
    assert_eq!(key_ids(&world).await.len(), 2, "tokens of the first key may still be valid");
    let_days_pass(&world, 1).await;
    assert_eq!(key_ids(&world).await, both[..1]);
    let kinds = world.event_kinds().await;
    assert_eq!(kinds.iter().filter(|kind| *kind == "id_token_issued").count(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn step_of_a_session_that_was_taken_over_gets_no_id_token() {
    let world = issuer_world().await;
    let fixture = JobsFixture::new(&world).await;
    fixture.create_pipeline(&world, "shop", STEP).await;
    fixture.deploy("shop").await;
    jobs::tick(world.app.jobs()).await.unwrap();
    assert_eq!(acquire(&world, "nonce").await.len(), 1);
    fixture.take_over("shop").await;
    let again = acquire(&world, "nonce").await;
    assert!(again.is_empty(), "the step of the old session: {again:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn step_of_an_expired_session_gets_no_id_token() {
    let world = issuer_world().await;
    let fixture = JobsFixture::new(&world).await;
    fixture.create_pipeline(&world, "shop", STEP).await;
    let id = fixture.deploy("shop").await;
    jobs::tick(world.app.jobs()).await.unwrap();
    // The session has expired, but the background job that ends it has not run yet.
    world.run_sql("UPDATE sessions SET expires_at = 1 WHERE ended_at IS NULL");
    assert!(acquire(&world, "nonce").await.is_empty());
    assert_eq!(fixture.load_outcome(id).await, "cancelled");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn id_token_on_a_server_without_public_url_fails_before_anything_runs() {
    let fixture = PipelineFixture::start().await;
    fixture.create_pipeline(&format!("  stages: [{{ name: staging }}]\n{STEP}")).await;
    let id = fixture.start_deployment("4f2a1c9").await;
    let ended = fixture.wait_for_end(&id).await;
    assert_eq!(ended["status"], "failed");
    let detail = "the step `deploy` asks for an ID token, but this server has no public URL that other services could verify it at; set `public_url`";
    assert_eq!(ended["detail"], detail, "{ended}");
    let plan = fixture.post("/pipelines/plan", &json!({"pipelineId": "shop"})).await;
    assert_eq!(plan.body["data"]["obstacles"], json!([detail]), "{}", plan.text);
    for path in ["/.well-known/openid-configuration", "/.well-known/jwks.json"] {
        fixture.send(get(path)).await.assert_problem(404, "not_found");
    }
    fixture.shut_down().await;
}
