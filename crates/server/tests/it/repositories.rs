//! Repositories: they are registered through the API, synced by background jobs, and shown in pipelines.

use std::time::Duration;

use berth_server::config::AppConfig;
use berth_server::jobs;
use serde_json::{Value, json};

use super::git::OriginRepository;
use super::world::{DEFINITION, TestRequest, TestResponse, TestWorld, call, get, post};

const REPOSITORIES: &str = "/api/v1/organizations/acme/repositories";
const FILE: &str = ".berth/shop/pipeline.yaml";

async fn register_repository(world: &TestWorld, body: &Value) -> String {
    let made = world.send(post(REPOSITORIES).with_account(&world.ada).json(body)).await;
    assert_eq!(made.status, 201, "{}", made.text);
    made.body["data"]["id"].as_str().unwrap().to_owned()
}

/// Registers the repository at `origin` and syncs it.
async fn register_and_sync(world: &TestWorld, origin: &OriginRepository) -> String {
    let id = register_repository(world, &json!({"url": origin.url().as_str()})).await;
    jobs::tick(world.app.jobs()).await.unwrap();
    id
}

async fn read_repository(world: &TestWorld, id: &str) -> Value {
    let reply = world.send(get(&format!("{REPOSITORIES}/{id}")).with_account(&world.ada)).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.body["data"].clone()
}

async fn get_pipeline(world: &TestWorld, slug: &str) -> TestResponse {
    world.send(get(&format!("/api/v1/organizations/acme/pipelines/{slug}")).with_account(&world.ada)).await
}

/// Requests a sync and runs it.
async fn sync_repository(world: &TestWorld, id: &str) {
    let asked = world.send(post(&format!("{REPOSITORIES}/{id}/sync")).with_account(&world.ada)).await;
    assert_eq!(asked.status, 202, "{}", asked.text);
    jobs::tick(world.app.jobs()).await.unwrap();
}

fn create_origin() -> OriginRepository {
    let origin = OriginRepository::new();
    origin.write(FILE, DEFINITION);
    origin.commit("first");
    origin
}

fn patch(id: &str) -> TestRequest {
    call("PATCH", &format!("{REPOSITORIES}/{id}"))
}

#[tokio::test]
async fn repository_sync_creates_updates_and_retires_pipelines() {
    let world = TestWorld::new().await;
    let origin = create_origin();
    let id = register_and_sync(&world, &origin).await;
    let seen = read_repository(&world, &id).await;
    assert_eq!(
        (&seen["defaultBranch"], &seen["error"], &seen["problems"]),
        (&json!("main"), &Value::Null, &json!([]))
    );
    assert_eq!(
        (&seen["head"], &seen["pipelines"][0]["slug"]),
        (&json!(origin.git(&["rev-parse", "HEAD"])), &json!("shop"))
    );
    let made = get_pipeline(&world, "shop").await.body["data"].clone();
    assert_eq!(made["repository"], json!({"id": id, "url": origin.url().as_str(), "path": FILE}));
    assert_eq!((&made["name"], &made["retiredAt"]), (&json!("Shop API"), &Value::Null));

    origin.write(FILE, &DEFINITION.replace("Shop API", "Shop").replace("qa-1", "qa-2"));
    origin.commit("renamed");
    sync_repository(&world, &id).await;
    let changed = get_pipeline(&world, "shop").await.body["data"].clone();
    assert_eq!((&changed["name"], &changed["environments"]), (&json!("Shop"), &json!(["qa-2"])));

    origin.git(&["rm", "--quiet", FILE]);
    origin.commit("gone");
    sync_repository(&world, &id).await;
    assert!(get_pipeline(&world, "shop").await.body["data"]["retiredAt"].is_string());

    origin.write(FILE, DEFINITION);
    origin.commit("back");
    sync_repository(&world, &id).await;
    let back = get_pipeline(&world, "shop").await.body["data"].clone();
    assert_eq!(
        (&back["retiredAt"], &back["name"], &back["id"]),
        (&Value::Null, &json!("Shop API"), &made["id"])
    );

    // A sync without changes records no event.
    let before = world.event_kinds().await;
    sync_repository(&world, &id).await;
    assert_eq!(world.event_kinds().await, before);
    let about = before.iter().filter(|kind| kind.starts_with("repository_") || kind.starts_with("pipeline_"));
    assert_eq!(
        about.collect::<Vec<_>>(),
        [
            "repository_created",
            "pipeline_created",
            "repository_synced",
            "pipeline_updated",
            "repository_synced",
            "pipeline_updated",
            "repository_synced",
            "pipeline_updated",
            "pipeline_updated",
            "repository_synced",
        ]
    );
}

#[tokio::test]
async fn repository_sync_stores_the_head_of_the_tracked_branch() {
    let world = TestWorld::new().await;
    let origin = create_origin();
    let id = register_and_sync(&world, &origin).await;
    let org = super::audit_export::acme_org_id(&world).await;
    let head = async || {
        let slug = berth_core::name::Slug::parse("shop").unwrap();
        let found =
            world.app.store().read(Some(org), move |db| berth_store::tables::pipeline::by_slug(db, &slug));
        found.await.unwrap().unwrap().head
    };
    assert_eq!(head().await, Some(origin.git(&["rev-parse", "HEAD"])));
    let pushed = origin.commit("second");
    sync_repository(&world, &id).await;
    assert_eq!(head().await.as_deref(), Some(pushed.as_str()));

    // The head stays the same while the pipeline tracks a branch that does not exist yet, or while the definition is
    // invalid.
    origin.write(FILE, &DEFINITION.replace("  stages", "  tracks: release\n  stages"));
    origin.commit("third");
    sync_repository(&world, &id).await;
    assert_eq!(head().await.as_deref(), Some(pushed.as_str()));
    origin.git(&["branch", "release"]);
    origin.write(FILE, "version: 1\n");
    origin.commit("broken");
    sync_repository(&world, &id).await;
    assert_eq!(head().await.as_deref(), Some(pushed.as_str()));
    origin.git(&["revert", "--no-edit", "HEAD"]);
    sync_repository(&world, &id).await;
    assert_eq!(head().await, Some(origin.git(&["rev-parse", "release"])));
}

#[tokio::test]
async fn repository_with_an_invalid_file_keeps_the_last_good_definition() {
    let world = TestWorld::new().await;
    let origin = create_origin();
    let id = register_and_sync(&world, &origin).await;
    origin.write(FILE, &DEFINITION.replace("stages", "stagse"));
    origin.write(".berth/Bad Name/pipeline.yaml", DEFINITION);
    origin.write(".berth/notes/readme.md", "no pipeline here");
    origin.commit("broken");
    sync_repository(&world, &id).await;
    let seen = read_repository(&world, &id).await;
    let problems = seen["problems"].as_array().unwrap();
    assert_eq!(problems.len(), 2, "{seen}");
    let broken = problems.iter().find(|problem| problem["path"] == FILE).unwrap();
    assert_eq!(broken["diagnostics"][0]["code"], "unknown_field", "{broken}");
    assert!(broken["diagnostics"][0]["line"].is_number());
    let kept = get_pipeline(&world, "shop").await.body["data"].clone();
    assert_eq!((&kept["retiredAt"], &kept["stages"][0]["name"]), (&Value::Null, &json!("staging")));

    origin.write(FILE, DEFINITION);
    origin.git(&["rm", "-r", "--quiet", ".berth/Bad Name"]);
    origin.commit("fixed");
    sync_repository(&world, &id).await;
    assert_eq!(read_repository(&world, &id).await["problems"], json!([]));
}

#[tokio::test]
async fn repository_with_a_taken_slug_reports_a_problem() {
    let world = TestWorld::new().await;
    let other = world.create_pipeline("shop").await;
    let origin = create_origin();
    let id = register_and_sync(&world, &origin).await;
    let problem = read_repository(&world, &id).await["problems"][0].clone();
    assert!(problem["message"].as_str().unwrap().contains(&other), "{problem}");
    let delete =
        call("DELETE", &format!("/api/v1/organizations/acme/pipelines/{other}")).with_account(&world.ada);
    assert_eq!(world.send(delete).await.status, 200);
    sync_repository(&world, &id).await;
    assert_eq!(read_repository(&world, &id).await["problems"], json!([]));
    assert_eq!(get_pipeline(&world, "shop").await.body["data"]["repository"]["id"], json!(id));
}

#[tokio::test]
async fn repository_pipeline_is_read_only_and_outlives_it_only_with_force() {
    let world = TestWorld::new().await;
    let origin = create_origin();
    let id = register_and_sync(&world, &origin).await;
    let put = || call("PUT", "/api/v1/organizations/acme/pipelines/shop/definition").with_account(&world.ada);
    let body = json!({"definition": DEFINITION.replace("Shop API", "Mine")});
    let refused = world.send(put().json(&body)).await;
    refused.assert_problem(409, "invalid_state");
    assert!(refused.body["detail"].as_str().unwrap().contains(FILE), "{}", refused.text);

    let delete =
        |query: &str| call("DELETE", &format!("{REPOSITORIES}/{id}{query}")).with_account(&world.ada);
    let refused = world.send(delete("")).await;
    refused.assert_problem(409, "invalid_state");
    assert_eq!(refused.body["pipelines"][0]["slug"], "shop");
    let gone = world.send(delete("?force=true")).await;
    assert!(gone.body["data"]["deletedAt"].is_string(), "{}", gone.text);
    world
        .send(get(&format!("{REPOSITORIES}/{id}")).with_account(&world.ada))
        .await
        .assert_problem(404, "not_found");
    assert_eq!(get_pipeline(&world, "shop").await.body["data"]["repository"], Value::Null);
    assert_eq!(world.send(put().json(&body)).await.status, 200);
    let mirrors = list_paths(&world.dir.path().join("git"));
    assert!(!mirrors.iter().any(|path| path.contains(&id)), "{mirrors:?}");
}

fn list_paths(dir: &std::path::Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .flat_map(|entry| {
            let path = entry.path();
            let inner = if path.is_dir() { list_paths(&path) } else { Vec::new() };
            std::iter::once(path.display().to_string()).chain(inner)
        })
        .collect()
}

#[tokio::test]
async fn repository_sync_failure_is_shown_and_backs_off() {
    let world = TestWorld::new().await;
    let id = register_repository(&world, &json!({"url": "/nowhere/at/all.git", "pollSeconds": 600})).await;
    jobs::tick(world.app.jobs()).await.unwrap();
    let seen = read_repository(&world, &id).await;
    assert!(seen["error"].as_str().unwrap().contains("does not"), "{seen}");
    assert_eq!(seen["lastSyncedAt"], Value::Null);
    let before = world.event_kinds().await;
    // The repository is not due yet, so the background job does nothing. The requested sync fails with the same error
    // as before, so it records no event.
    jobs::tick(world.app.jobs()).await.unwrap();
    sync_repository(&world, &id).await;
    assert_eq!(world.event_kinds().await, before);
    let origin = create_origin();
    let moved =
        world.send(patch(&id).with_account(&world.ada).json(&json!({"url": origin.url().as_str()}))).await;
    assert_eq!(moved.status, 200, "{}", moved.text);
    jobs::tick(world.app.jobs()).await.unwrap();
    assert_eq!(read_repository(&world, &id).await["error"], Value::Null);
    assert_eq!(get_pipeline(&world, "shop").await.status, 200);
}

#[tokio::test]
async fn repository_without_definitions_says_what_to_push() {
    let world = TestWorld::new().await;
    let origin = OriginRepository::new();
    let id = register_and_sync(&world, &origin).await;
    let problem = async || {
        let seen = read_repository(&world, &id).await;
        assert_eq!(seen["error"], Value::Null, "{seen}");
        assert_eq!(seen["problems"].as_array().unwrap().len(), 1, "{seen}");
        (seen["problems"][0]["path"].clone(), seen["problems"][0]["message"].as_str().unwrap().to_owned())
    };
    let empty = "the repository is empty; push a commit with .berth/<slug>/pipeline.yaml";
    assert_eq!(problem().await, (json!("."), empty.to_owned()));

    origin.write("README", "x");
    origin.commit("first");
    sync_repository(&world, &id).await;
    let (path, message) = problem().await;
    assert_eq!(path, ".berth");
    assert!(message.starts_with("branch main has no .berth folder; push a commit with "), "{message}");
    assert!(message.ends_with("to main (docs/pipeline.md describes the file)"), "{message}");

    origin.write(".berth/notes/readme.md", "no pipeline here");
    origin.commit("second");
    sync_repository(&world, &id).await;
    let (_, message) = problem().await;
    assert!(message.starts_with("branch main has no .berth/<slug>/pipeline.yaml; push "), "{message}");
    // The problem stays the same, so a sync records no event.
    let before = world.event_kinds().await;
    sync_repository(&world, &id).await;
    assert_eq!(world.event_kinds().await, before);

    origin.write(FILE, DEFINITION);
    origin.commit("third");
    sync_repository(&world, &id).await;
    assert_eq!(read_repository(&world, &id).await["problems"], json!([]));
    assert_eq!(get_pipeline(&world, "shop").await.status, 200);
}

#[tokio::test]
async fn repository_that_is_a_shallow_clone_says_how_to_complete_it() {
    let world = TestWorld::new().await;
    let origin = create_origin();
    origin.commit("second");
    let source = format!("file://{}", origin.path().display());
    let clone = OriginRepository::new();
    clone.git(&["fetch", "--quiet", "--depth=1", &source, "main:refs/heads/main", "--update-head-ok"]);
    let id = register_and_sync(&world, &clone).await;
    let seen = read_repository(&world, &id).await;
    let error = "the repository is a shallow clone without its complete history; \
                 run `git fetch --unshallow` in it, or register the repository that it was cloned from";
    assert_eq!((&seen["error"], &seen["lastSyncedAt"]), (&json!(error), &Value::Null));
    clone.git(&["fetch", "--quiet", "--unshallow", &source]);
    sync_repository(&world, &id).await;
    let seen = read_repository(&world, &id).await;
    assert_eq!((&seen["error"], &seen["pipelines"][0]["slug"]), (&Value::Null, &json!("shop")));
}

#[tokio::test]
async fn repository_sync_of_a_hanging_server_times_out() {
    let config =
        AppConfig { git_max: Duration::from_millis(300), ..AppConfig::local(([127, 0, 0, 1], 8080).into()) };
    let world = TestWorld::with_config(config).await;
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/shop.git", silent.local_addr().unwrap());
    let id = register_repository(&world, &json!({"url": url})).await;
    jobs::tick(world.app.jobs()).await.unwrap();
    let error = read_repository(&world, &id).await["error"].clone();
    assert!(error.as_str().unwrap().contains("git took longer"), "{error}");
}

#[tokio::test]
async fn repository_credential_is_a_secret_and_read_once() {
    let world = TestWorld::new().await;
    let origin = create_origin();
    let base = super::git::serve_git(origin.path().to_owned(), "x-access-token:hunter2-hunter2");
    let body = json!({"url": format!("{base}/.git"), "credential": "GIT_TOKEN"});
    let missing = world.send(post(REPOSITORIES).with_account(&world.ada).json(&body)).await;
    missing.assert_problem(400, "invalid_request");
    let secret = json!({"name": "GIT_TOKEN", "value": "hunter2-hunter2"});
    world.send(post("/api/v1/organizations/acme/secrets").with_account(&world.ada).json(&secret)).await;
    let id = register_repository(&world, &body).await;
    jobs::tick(world.app.jobs()).await.unwrap();
    assert_eq!(read_repository(&world, &id).await["error"], Value::Null);
    assert_eq!(get_pipeline(&world, "shop").await.status, 200);
    sync_repository(&world, &id).await;
    let read = world.event_kinds().await.into_iter().filter(|kind| kind == "secret_read").count();
    assert_eq!(read, 1);
}

#[tokio::test]
async fn repository_url_and_poll_interval_are_validated() {
    let world = TestWorld::new().await;
    for (body, pointer) in [
        (json!({"url": "ext::sh -c x"}), "/url"),
        (json!({"url": "https://user:pass@host/x"}), "/url"),
        (json!({"url": "http://git.acme.test/x"}), "/url"),
        (json!({"url": "--upload-pack=x"}), "/url"),
        (json!({"url": "/srv/x", "pollSeconds": 9}), "/pollSeconds"),
        (json!({"url": "/srv/x", "pollSeconds": 86_401}), "/pollSeconds"),
        (json!({"url": "/srv/x", "credential": "a b"}), "/credential"),
    ] {
        let reply = world.send(post(REPOSITORIES).with_account(&world.ada).json(&body)).await;
        reply.assert_problem(400, "invalid_request");
        assert_eq!(reply.body["errors"][0]["pointer"], pointer, "{body}");
    }
    let id = register_repository(&world, &json!({"url": "/srv/x", "pollSeconds": 10})).await;
    let again = world.send(post(REPOSITORIES).with_account(&world.ada).json(&json!({"url": "/srv/x"}))).await;
    again.assert_problem(409, "already_exists");
    let stale =
        patch(&id).with_account(&world.ada).header("if-match", "\"7\"").json(&json!({"pollSeconds": 20}));
    world.send(stale).await.assert_problem(412, "precondition_failed");
    let calm = world.send(patch(&id).with_account(&world.ada).json(&json!({}))).await;
    assert_eq!(calm.body["data"]["pollSeconds"], 10);

    let many = AppConfig {
        public_url: Some("https://berth.acme.test".into()),
        ..AppConfig::local(([127, 0, 0, 1], 8080).into())
    };
    let world = TestWorld::with_config(many).await;
    let reply = world.send(post(REPOSITORIES).with_account(&world.ada).json(&json!({"url": "/srv/x"}))).await;
    reply.assert_problem(400, "invalid_request");
    assert!(reply.text.contains("--repository-root"), "{}", reply.text);
}
