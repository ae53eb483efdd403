//! A registry is built once per commit. After a failed build, the last good version stays in use.

use serde_json::{Value, json};

use super::super::git::OriginRepository;
use super::super::world::TestWorld;
use super::*;

async fn list_builds(world: &TestWorld, key: &str) -> Vec<String> {
    let builds = get_registry(world, &format!("{key}/builds")).await.body["data"].clone();
    let shown = |build: &Value| format!("{} {}", build["number"], build["status"].as_str().unwrap());
    builds.as_array().unwrap().iter().map(shown).collect()
}

#[tokio::test]
async fn registry_build_runs_once_per_commit() {
    let world = TestWorld::new().await;
    let origin = create_origin(&["deploy"]);
    add_and_build(&world, "tools", &origin).await;
    let before = read_registry(&world, "tools").await["lastGood"].clone();
    sync_registry(&world, "tools").await;
    sync_registry(&world, "tools").await;
    assert_eq!(list_builds(&world, "tools").await, ["1 succeeded"]);
    assert_eq!(read_registry(&world, "tools").await["lastGood"], before);
    assert_eq!(
        registry_event_kinds(&world).await,
        ["registry_created", "registry_built"],
        "nothing new is not told"
    );

    // Switches to a ref whose commit was already built.
    let first = origin.git(&["rev-parse", "HEAD"]);
    write_registry(&origin, &["deploy", "check"]);
    let second = origin.commit("second").to_string();
    sync_registry(&world, "tools").await;
    assert_eq!(read_registry(&world, "tools").await["lastGood"]["commit"], json!(second));
    let change = json!({"ref": first});
    let changed = world.send(patch("tools").with_account(&world.ada).json(&change)).await;
    assert_eq!(changed.body["data"]["status"], "pending");
    jobs::tick(world.app.jobs()).await.unwrap();
    let back = read_registry(&world, "tools").await;
    assert_eq!((&back["lastGood"]["commit"], &back["status"]), (&json!(first), &json!("ready")));
    assert_eq!(list_builds(&world, "tools").await, ["2 succeeded", "1 succeeded"]);
    assert_eq!(registry_event_kinds(&world).await.last().unwrap(), "registry_synced");
}

#[tokio::test]
async fn registry_build_failure_keeps_the_last_good_version() {
    let world = TestWorld::new().await;
    let origin = create_origin(&["deploy"]);
    add_and_build(&world, "tools", &origin).await;
    let first = origin.git(&["rev-parse", "HEAD"]);
    origin.write("build.sh", "echo no luck >&2\nexit 3\n");
    let second = origin.commit("broken").to_string();
    sync_registry(&world, "tools").await;
    let seen = read_registry(&world, "tools").await;
    assert_eq!(
        (&seen["status"], &seen["commit"], &seen["lastGood"]["commit"]),
        (&json!("failed"), &json!(second), &json!(first))
    );
    let error = seen["error"].as_str().unwrap();
    assert!(error.contains("sh build.sh") && error.contains('3'), "{error}");
    assert!(read_build_log(&world, "tools", 2).await.contains("no luck"));
    assert_eq!(resolve_step_type(&world, "tools/deploy").await, format!("{first} deploy"));
    assert_eq!(seen["steps"][0]["key"], "deploy");

    // A scheduled sync does not build a commit again whose build failed. A sync on request does.
    let due = world.app.store().transact(
        berth_store::TxContext::system(Some(super::super::audit_export::acme_org_id(&world).await)),
        |tx| {
            let name = berth_core::registry::RegistryName::parse("tools").unwrap();
            let found = berth_store::tables::registry::by_name(tx, &name)?.unwrap();
            let seen = berth_core::registry::RegistrySyncState { due_at: Some(tx.now()), ..found.seen };
            berth_store::tables::registry::put_poll_result(tx, found.id, &seen)
        },
    );
    due.await.unwrap();
    jobs::tick(world.app.jobs()).await.unwrap();
    assert_eq!(list_builds(&world, "tools").await, ["2 failed", "1 succeeded"]);
    sync_registry(&world, "tools").await;
    assert_eq!(list_builds(&world, "tools").await, ["3 failed", "2 failed", "1 succeeded"]);

    write_registry(&origin, &["deploy", "check"]);
    let third = origin.commit("fixed").to_string();
    sync_registry(&world, "tools").await;
    let fixed = read_registry(&world, "tools").await;
    assert_eq!(
        (&fixed["status"], &fixed["error"], &fixed["lastGood"]["commit"]),
        (&json!("ready"), &Value::Null, &json!(third))
    );
    assert_eq!(
        registry_event_kinds(&world).await,
        [
            "registry_created",
            "registry_built",
            "registry_build_failed",
            "registry_build_failed",
            "registry_built"
        ]
    );
}

#[tokio::test]
async fn registry_tag_that_moves_keeps_its_version() {
    let world = TestWorld::new().await;
    let origin = create_origin(&["deploy"]);
    let first = origin.git(&["rev-parse", "HEAD"]);
    origin.git(&["tag", "-a", "v1", "-m", "one"]);
    add_and_build(&world, "tools", &origin).await;
    assert_eq!(read_registry(&world, "tools").await["lastGood"]["refs"], json!(["main", "v1"]));
    write_registry(&origin, &["deploy", "evil"]);
    let second = origin.commit("moved").to_string();
    origin.git(&["tag", "--force", "v1"]);
    sync_registry(&world, "tools").await;
    assert_eq!(resolve_step_type(&world, "tools/deploy").await, format!("{second} deploy"));
    assert_eq!(resolve_step_type(&world, "tools/deploy@v1").await, format!("{first} deploy"));
    assert_eq!(resolve_step_type(&world, "tools/deploy@main").await, format!("{second} deploy"));
    assert!(resolve_step_type(&world, "tools/evil@v1").await.contains("has no step"));

    // A tag keeps its version even if it is the ref that the registry follows.
    world.send(patch("tools").with_account(&world.ada).json(&json!({"ref": "v1"}))).await;
    jobs::tick(world.app.jobs()).await.unwrap();
    assert_eq!(resolve_step_type(&world, "tools/deploy@v1").await, format!("{first} deploy"));
}

#[tokio::test]
async fn registry_ref_is_a_branch_tag_or_commit() {
    let world = TestWorld::new().await;
    let origin = create_origin(&["deploy"]);
    let first = origin.git(&["rev-parse", "HEAD"]);
    origin.git(&["tag", "v1"]);
    write_registry(&origin, &["other"]);
    let second = origin.commit("second").to_string();
    add_and_build(&world, "tools", &origin).await;
    for (reference, commit) in [("v1", &first), ("main", &second), (&first[..8], &first)] {
        world.send(patch("tools").with_account(&world.ada).json(&json!({"ref": reference}))).await;
        jobs::tick(world.app.jobs()).await.unwrap();
        assert_eq!(read_registry(&world, "tools").await["lastGood"]["commit"], json!(commit), "{reference}");
    }
    world.send(patch("tools").with_account(&world.ada).json(&json!({"ref": "v9"}))).await;
    jobs::tick(world.app.jobs()).await.unwrap();
    let seen = read_registry(&world, "tools").await;
    assert_eq!(
        (&seen["status"], &seen["error"], &seen["lastGood"]["commit"]),
        (&json!("failed"), &json!("the repository has no branch, tag or commit \"v9\""), &json!(first))
    );

    let empty = OriginRepository::new();
    add_and_build(&world, "empty", &empty).await;
    assert_eq!(read_registry(&world, "empty").await["error"], "the repository is empty");
    assert_eq!(
        resolve_step_type(&world, "empty/x").await,
        "registry \"empty\" was never built successfully, so its steps cannot be used: the repository is empty"
    );
}

#[tokio::test]
async fn registry_build_of_another_repository_explains_the_error() {
    let world = TestWorld::new().await;
    let origin = OriginRepository::new();
    origin.write("README.md", "nothing here");
    origin.commit("first");
    add_and_build(&world, "tools", &origin).await;
    let error = read_registry(&world, "tools").await["error"].as_str().unwrap().to_owned();
    assert!(error.contains("berth-registry.yaml"), "{error}");

    write_registry(&origin, &["Deploy", "CUSTOM:DEPLOY"]);
    origin.commit("twins");
    sync_registry(&world, "tools").await;
    let error = read_registry(&world, "tools").await["error"].as_str().unwrap().to_owned();
    assert!(error.contains("are the same to a definition"), "{error}");
}

#[tokio::test]
async fn registry_build_sees_no_secrets_and_no_server_environment() {
    let world = TestWorld::new().await;
    let secret = json!({"name": "TOKEN", "value": "hunter2-hunter2"});
    world.send(post("/api/v1/organizations/acme/secrets").with_account(&world.ada).json(&secret)).await;
    let origin = create_origin(&["deploy"]);
    origin.write("build.sh", "env | cut -d= -f1 | sort | tr '\\n' ' '\n");
    origin.commit("looks around");
    let body = json!({"name": "tools", "url": origin.url().as_str(), "credential": "TOKEN"});
    assert_eq!(world.send(post(REGISTRIES).with_account(&world.ada).json(&body)).await.status, 201);
    jobs::tick(world.app.jobs()).await.unwrap();
    let log = read_build_log(&world, "tools", 1).await;
    assert_eq!(read_registry(&world, "tools").await["status"], "ready", "{log}");
    let seen = log.lines().find(|line| line.contains("PATH")).unwrap();
    let known = [
        "BERTH_ATTEMPT_ID",
        "BERTH_WORKSPACE",
        "CI",
        "HOME",
        "OLDPWD",
        "PATH",
        "PWD",
        "SHLVL",
        "TMPDIR",
        "_",
    ];
    let other: Vec<_> = seen
        .split_whitespace()
        .filter(|name| !known.contains(name) && !name.starts_with("npm_config_"))
        .collect();
    assert!(other.is_empty(), "{other:?}");
    assert!(!log.contains("hunter2"));
}
