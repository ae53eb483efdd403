//! Connecting repositories, with an emulated GitHub that sends real deliveries.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use berth_core::forge::ForgeKind;
use berth_server::config::AppConfig;
use berth_server::jobs;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::{ConnectedRepository, REPOSITORIES, connect, create_repository, public_config};
use crate::forge::{TOKEN, call_emulator, start_github};
use crate::git::OriginRepository;
use crate::world::{DEFINITION, POLL_EVERY, TestResponse, TestWorld, call, get, post};

const PATIENCE: Duration = Duration::from_secs(120);

/// Serves the API on this socket, so that other processes can reach it.
fn serve(listener: TcpListener, world: Arc<TestWorld>) {
    tokio::spawn(async move {
        while let Ok((stream, peer)) = listener.accept().await {
            let world = world.clone();
            let service = service_fn(move |request: http::Request<hyper::body::Incoming>| {
                let world = world.clone();
                async move {
                    let request = request.map(Body::new);
                    Ok::<_, Infallible>(world.edge.handle_request(request, peer.ip()).await)
                }
            });
            let builder = hyper::server::conn::http1::Builder::new();
            tokio::spawn(async move { builder.serve_connection(TokioIo::new(stream), service).await.ok() });
        }
    });
}

async fn send(world: &TestWorld, method: &str, path: &str) -> TestResponse {
    world.send(call(method, &format!("{REPOSITORIES}/{path}")).with_account(&world.ada)).await
}

/// Waits until the response to a GET request fulfils a condition.
async fn wait_for(world: &TestWorld, path: &str, what: &str, is_done: impl Fn(&Value) -> bool) -> Value {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let seen = send(world, "GET", path).await.body["data"].clone();
        if is_done(&seen) {
            return seen;
        }
        assert!(Instant::now() < deadline, "no {what}: {seen}");
        tokio::time::sleep(POLL_EVERY).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn emulated_github_sends_deliveries_to_the_created_webhook() {
    let Some(github) = tokio::task::block_in_place(start_github) else { return };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let config = AppConfig {
        public_url: Some(format!("http://{}", listener.local_addr().unwrap())),
        forges: vec![format!("git.acme.test=github={}", github.url).parse().unwrap()],
        ..public_config()
    };
    let world = Arc::new(TestWorld::with_config(config).await);
    serve(listener, world.clone());
    let secret = json!({"name": "GIT_TOKEN", "value": TOKEN});
    let made = world.send(post("/api/v1/organizations/acme/secrets").with_account(&world.ada).json(&secret));
    assert_eq!(made.await.status, 201);
    let body = json!({"url": "https://git.acme.test/admin/shop.git", "credential": "GIT_TOKEN"});
    let made = world.send(post(REPOSITORIES).with_account(&world.ada).json(&body)).await;
    let id = made.body["data"]["id"].as_str().unwrap().to_owned();

    let connected = connect(&world, &id, &json!({})).await;
    assert_eq!(connected.status, 201, "{}", connected.text);
    let data = &connected.body["data"];
    assert_eq!(
        (&data["isManaged"], &data["secret"], &data["error"]),
        (&json!(true), &Value::Null, &Value::Null)
    );
    assert_eq!(data["instructions"], json!([]));
    let connection = format!("{id}/connection");
    let tested = send(&world, "POST", &format!("{connection}/test")).await;
    assert_eq!(tested.body["data"]["isRequested"], true, "{}", tested.text);
    wait_for(&world, &connection, "verified connection", |seen| seen["isVerified"] == true).await;

    let ask = |path: &str, body: Option<Value>| {
        tokio::task::block_in_place(|| call_emulator(&github.url, path, body.as_ref()))
    };
    let draft = json!({"title": "Dark mode", "head": "dark-mode", "base": "main"});
    let opened = ask("/repos/admin/shop/pulls", Some(draft));
    let number = opened["number"].as_i64().unwrap();
    let deliveries = format!("{id}/deliveries");
    let has = |outcome: String| {
        move |seen: &Value| seen.as_array().unwrap().iter().any(|it| it["outcome"] == outcome.as_str())
    };
    wait_for(&world, &deliveries, "pull request", has(format!("pull request {number} updated"))).await;
    // The emulator does not say that the issue is a pull request, so the comment is not a command.
    let comment = format!("/repos/admin/shop/issues/{number}/comments");
    ask(&comment, Some(json!({"body": "/berth deploy"})));
    wait_for(&world, &deliveries, "comment", has("ignored: no pull request in the payload".to_owned())).await;

    let rotated = send(&world, "POST", &format!("{connection}/rotate")).await;
    assert_eq!(rotated.status, 200, "{}", rotated.text);
    assert_eq!(rotated.body["data"]["isManaged"], true);
    assert_eq!(ask("/repos/admin/shop/hooks", None).as_array().unwrap().len(), 1, "the webhook is replaced");
    send(&world, "POST", &format!("{connection}/test")).await;
    wait_for(&world, &connection, "verified connection", |seen| seen["isVerified"] == true).await;

    let gone = send(&world, "DELETE", &connection).await;
    assert_eq!((gone.status.as_u16(), &gone.body["data"]["error"]), (200, &Value::Null), "{}", gone.text);
    assert_eq!(ask("/repos/admin/shop/hooks", None), json!([]));
    assert_eq!(send(&world, "GET", &connection).await.status, 404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn webhook_that_the_forge_refuses_is_left_to_the_caller() {
    let Some(github) = tokio::task::block_in_place(start_github) else { return };
    let forges = vec![format!("git.acme.test=github={}", github.url).parse().unwrap()];
    let world = TestWorld::with_config(AppConfig { forges, ..public_config() }).await;
    let secret = json!({"name": "GIT_TOKEN", "value": TOKEN});
    world.send(post("/api/v1/organizations/acme/secrets").with_account(&world.ada).json(&secret)).await;
    let body = json!({"url": "https://git.acme.test/admin/nothing.git", "credential": "GIT_TOKEN"});
    let made = world.send(post(REPOSITORIES).with_account(&world.ada).json(&body)).await;
    let id = made.body["data"]["id"].as_str().unwrap();
    let connected = connect(&world, id, &json!({})).await;
    assert_eq!(connected.status, 201, "{}", connected.text);
    let data = &connected.body["data"];
    assert!(data["error"].as_str().unwrap().contains("no such repository"), "{data}");
    assert!(data["secret"].is_string() && !data["instructions"].as_array().unwrap().is_empty(), "{data}");
}

#[tokio::test]
async fn connecting_without_a_credential_returns_what_to_enter() {
    for (forge, page) in [
        (ForgeKind::GitHub, "https://github.com/acme/shop/settings/hooks/new"),
        (ForgeKind::GitLab, "https://gitlab.acme.test/acme/web/shop/-/hooks"),
        (ForgeKind::Gitea, "https://gitea.acme.test/acme/shop/settings/hooks/gitea/new"),
        (ForgeKind::Bitbucket, "https://bitbucket.org/acme/shop/admin/webhooks/new"),
    ] {
        let target = ConnectedRepository::new(forge).await;
        assert_eq!(target.secret.len(), 64);
        let shown = target.view().await;
        assert_eq!((&shown["forge"], &shown["isManaged"]), (&json!(forge.as_str()), &json!(false)));
        assert_eq!(shown["instructions"][0], format!("Open {page}"));
        assert!(shown["secret"].is_null() && !shown.to_string().contains(&target.secret));
        let again = connect(&target.world, &target.repository, &json!({})).await;
        again.assert_problem(409, "already_exists");
        let tested = send(&target.world, "POST", &format!("{}/connection/test", target.repository)).await;
        assert_eq!(tested.body["data"]["isRequested"], false);
    }
}

#[tokio::test]
async fn repeated_connect_request_returns_the_stored_response_without_the_secret() {
    let world = TestWorld::with_config(public_config()).await;
    let id = create_repository(&world, "https://github.com/acme/shop.git").await;
    let request = || {
        let path = format!("{REPOSITORIES}/{id}/connection");
        post(&path).with_account(&world.ada).header("idempotency-key", "k1").json(&json!({}))
    };
    let (first, second) = (world.send(request()).await, world.send(request()).await);
    assert_eq!((first.status.as_u16(), second.status.as_u16()), (201, 201), "{}", second.text);
    assert!(first.body["data"]["secret"].is_string() && second.body["data"]["secret"].is_null());
    assert_eq!(first.header("location"), second.header("location"));
    assert_eq!(second.header("idempotent-replayed"), "true");
}

#[tokio::test]
async fn rotated_secret_replaces_the_previous_one_immediately() {
    let mut target = ConnectedRepository::new(ForgeKind::GitHub).await;
    assert_eq!(target.deliver("opened", "a").await.status, 200);
    let path = format!("{}/connection/rotate", target.repository);
    let rotated = send(&target.world, "POST", &path).await;
    assert_eq!(rotated.status, 200, "{}", rotated.text);
    target.deliver("closed", "b").await.assert_problem(401, "unauthenticated");
    target.secret = rotated.body["data"]["secret"].as_str().unwrap().to_owned();
    assert_eq!(target.deliver("closed", "b").await.status, 200);
    // The root key wraps the key that encrypts the secret.
    let services = target.world.app.services().clone();
    let rotated = tokio::task::spawn_blocking(move || services.vault.rotate(&services.store));
    rotated.await.unwrap().unwrap();
    assert_eq!(target.deliver("merged", "c").await.status, 200);
}

#[tokio::test]
async fn connection_is_refused_without_a_public_url_or_a_known_forge() {
    let world = TestWorld::new().await;
    let id = create_repository(&world, "https://github.com/acme/shop.git").await;
    let refused = connect(&world, &id, &json!({})).await;
    refused.assert_problem(409, "invalid_state");
    assert!(refused.text.contains("--public-url"), "{}", refused.text);
    let world = TestWorld::with_config(public_config()).await;
    let id = create_repository(&world, "https://git.acme.test/acme/shop.git").await;
    connect(&world, &id, &json!({})).await.assert_problem(400, "invalid_request");
    connect(&world, &id, &json!({"forge": "svn"})).await.assert_problem(400, "invalid_request");
    assert_eq!(connect(&world, &id, &json!({"forge": "gitea"})).await.body["data"]["forge"], "gitea");
    let id = create_repository(&world, "https://github.com/acme/shop.git").await;
    connect(&world, &id, &json!({"forge": "gitlab"})).await.assert_problem(400, "invalid_request");
    let viewer = world.create_member("viewer@acme.test", "viewer").await;
    let path = format!("{REPOSITORIES}/{id}/connection");
    world.send(post(&path).with_account(&viewer).json(&json!({}))).await.assert_problem(403, "forbidden");
}

#[tokio::test]
async fn deleted_repository_is_disconnected() {
    let target = ConnectedRepository::new(ForgeKind::GitHub).await;
    assert_eq!(target.deliver("opened", "a").await.status, 200);
    let account = target.view().await["accountId"].as_str().unwrap().to_owned();
    let member = format!("/api/v1/organizations/acme/members/{account}");
    assert_eq!(target.world.send(get(&member).with_account(&target.world.ada)).await.status, 200);
    assert_eq!(send(&target.world, "DELETE", &target.repository).await.status, 200);
    assert_eq!(target.deliver("closed", "b").await.status, 404);
    assert_eq!(target.world.send(get(&member).with_account(&target.world.ada)).await.status, 404);
    let kinds = target.world.event_kinds().await;
    let kinds: Vec<_> = kinds.iter().filter(|it| it.ends_with("connected")).collect();
    assert_eq!(kinds, ["repository_connected", "repository_disconnected"]);
}

#[tokio::test]
async fn account_of_pull_requests_may_only_test_in_pipelines_of_its_repository() {
    // A repository on this machine can be synced; its URL becomes that of a forge before it is connected.
    let origin = OriginRepository::new();
    origin.write(".berth/shop/pipeline.yaml", DEFINITION);
    origin.commit("first");
    let roots = vec![origin.path().to_owned()];
    let world = TestWorld::with_config(AppConfig { repository_roots: roots, ..public_config() }).await;
    world.create_pipeline("billing").await;
    let id = create_repository(&world, origin.url().as_str()).await;
    jobs::tick(world.app.jobs()).await.unwrap();
    world.run_sql("UPDATE repositories SET url = 'https://github.com/acme/shop.git'");
    let connected = connect(&world, &id, &json!({})).await;
    assert_eq!(connected.status, 201, "{}", connected.text);
    let account = connected.body["data"]["accountId"].as_str().unwrap().to_owned();
    let member =
        world.send(get(&format!("/api/v1/organizations/acme/members/{account}")).with_account(&world.ada));
    let member = member.await.body["data"].clone();
    assert_eq!(
        (&member["name"], &member["kind"], &member["role"]),
        (&json!("acme/shop (pull requests)"), &json!("service"), &json!("member"))
    );
    let grants = async || {
        let path = format!("/api/v1/organizations/acme/grants?subject=user:{account}");
        let listed = world.send(get(&path).with_account(&world.ada)).await;
        let grants = listed.body["data"].as_array().unwrap().clone();
        let mut texts: Vec<_> = grants.iter().map(|it| format!("{} {}", it["role"], it["scope"])).collect();
        texts.sort();
        texts
    };
    assert_eq!(grants().await, ["\"tester\" \"pipeline:shop\""]);
    let body = json!({"name": "test", "ownerId": account});
    let token =
        world.send(post("/api/v1/organizations/acme/api-tokens").with_account(&world.ada).json(&body));
    let token = token.await.body["data"]["token"].as_str().unwrap().to_owned();
    let claim = |pipeline: &str| {
        let path =
            format!("/api/v1/organizations/acme/pipelines/{pipeline}/ephemeral-environments/qa-1/sessions");
        post(&path).token(&token).json(&json!({}))
    };
    assert_eq!(world.send(claim("shop")).await.status, 201);
    assert_eq!(world.send(claim("billing")).await.status, 404);
    let start = post("/api/v1/organizations/acme/pipelines/shop/deployments").token(&token);
    assert_eq!(world.send(start.json(&json!({"commitId": "9fceb02"}))).await.status, 403);

    // A sync that finds another pipeline adds it.
    origin.write(".berth/docs/pipeline.yaml", DEFINITION);
    origin.commit("second");
    world.run_sql(&format!("UPDATE repositories SET url = '{}'", origin.url().as_str()));
    send(&world, "POST", &format!("{id}/sync")).await;
    jobs::tick(world.app.jobs()).await.unwrap();
    assert_eq!(grants().await, ["\"tester\" \"pipeline:docs\"", "\"tester\" \"pipeline:shop\""]);
    origin.git(&["rm", "-q", ".berth/shop/pipeline.yaml"]);
    origin.commit("third");
    send(&world, "POST", &format!("{id}/sync")).await;
    jobs::tick(world.app.jobs()).await.unwrap();
    assert_eq!(grants().await, ["\"tester\" \"pipeline:docs\""]);
}
