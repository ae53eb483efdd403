//! Hostile registries: each build fails with a clear error and stays within its resource limits.

use std::time::Duration;

use berth_server::config::AppConfig;
use serde_json::json;

use super::super::world::TestWorld;
use super::*;

fn limited_config() -> AppConfig {
    AppConfig {
        registry_build_max: Duration::from_secs(3),
        registry_bytes_max: 4 * 1024 * 1024,
        ..AppConfig::local(([127, 0, 0, 1], 8080).into())
    }
}

/// Builds a registry with this script. Returns the error of the registry and the build log.
async fn build_failing_registry(world: &TestWorld, script: &str) -> (String, String) {
    let origin = create_origin(&["deploy"]);
    origin.write("build.sh", script);
    origin.commit("hostile");
    add_and_build(world, "tools", &origin).await;
    let seen = read_registry(world, "tools").await;
    assert_eq!(seen["status"], "failed", "{seen}");
    (seen["error"].as_str().unwrap().to_owned(), read_build_log(world, "tools", 1).await)
}

#[tokio::test]
async fn registry_build_with_endless_output_is_stopped() {
    let world = TestWorld::with_config(limited_config()).await;
    let (error, _) = build_failing_registry(
        &world,
        "while :; do echo yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy; done\n",
    )
    .await;
    assert!(error.contains("took longer than 3 s"), "{error}");
    let shown = read_registry(&world, "tools/builds/1/logs?tail=5").await;
    let bytes = shown["bytes"].as_u64().unwrap();
    assert!(bytes < 2 * berth_server::limits::BUILD_LOG_BYTES_MAX, "{bytes}");
    assert!(shown.to_string().contains("log truncated after"), "{shown}");
}

#[tokio::test]
async fn registry_build_above_the_size_limit_is_refused() {
    let world = TestWorld::with_config(limited_config()).await;
    let script = "dd if=/dev/urandom of=big bs=1M count=8 2>/dev/null\n";
    let (error, _) = build_failing_registry(&world, script).await;
    assert!(error.contains("larger than 4194304 bytes"), "{error}");
    let left = std::fs::read_dir(world.dir.path().join("registries/work/attempts")).unwrap().count();
    assert_eq!(left, 0, "places are removed");
}

#[tokio::test]
async fn registry_build_with_escaping_symlinks_is_refused() {
    let world = TestWorld::with_config(limited_config()).await;
    for target in ["/etc/passwd", "../../../../../etc/passwd"] {
        let origin = create_origin(&["deploy"]);
        origin.write("build.sh", &format!("mkdir -p a && ln -s {target} a/out\n"));
        origin.commit("links");
        add_and_build(&world, "out", &origin).await;
        let error = read_registry(&world, "out").await["error"].as_str().unwrap().to_owned();
        assert!(error.starts_with("the build output cannot be stored: a/out: is a link"), "{error}");
        let gone = call("DELETE", &format!("{REGISTRIES}/out"));
        assert_eq!(world.send(gone.with_account(&world.ada)).await.status, 200);
    }

    let origin = create_origin(&["deploy"]);
    let script = "mkdir -p node_modules/.bin node_modules/tool\necho 'echo tool' > node_modules/tool/cli\n\
                  chmod +x node_modules/tool/cli\nln -s ../tool/cli node_modules/.bin/tool\n";
    origin.write("build.sh", script);
    origin.commit("as npm does");
    add_and_build(&world, "tools", &origin).await;
    let seen = read_registry(&world, "tools").await;
    assert_eq!(seen["status"], "ready", "{seen}");
    let org = super::super::audit_export::acme_org_id(&world).await;
    let into = tempfile::tempdir().unwrap();
    let digest = seen["lastGood"]["digest"].as_str().unwrap();
    world.app.artifacts().unpack(org, digest, into.path()).unwrap();
    let link = into.path().join("node_modules/.bin/tool");
    assert_eq!(std::fs::read_link(&link).unwrap().to_str(), Some("../tool/cli"));
    assert_eq!(std::fs::read_to_string(&link).unwrap(), "echo tool\n");
    assert!(into.path().join("start.sh").exists());
}

#[tokio::test]
async fn registry_build_leaves_no_processes() {
    let world = TestWorld::with_config(limited_config()).await;
    let origin = create_origin(&["deploy"]);
    let script =
        "(setsid sh -c 'while :; do sleep 0.05; done; exit 0' hostile-left-over >/dev/null 2>&1 &)\n";
    origin.write("build.sh", script);
    origin.commit("leaves");
    add_and_build(&world, "tools", &origin).await;
    let seen = read_registry(&world, "tools").await;
    assert_eq!(seen["status"], "ready", "{seen}");
    let mine = world.dir.path().display().to_string();
    let alive = std::fs::read_dir("/proc").unwrap().flatten().filter(|entry| {
        let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        let command = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let has = |bytes: &[u8], text: &str| bytes.windows(text.len()).any(|part| part == text.as_bytes());
        has(&environment, &mine) && has(&command, "hostile-left-over")
    });
    assert_eq!(alive.count(), 0);
}

#[tokio::test]
async fn registry_build_with_hanging_metadata_is_stopped() {
    let world = TestWorld::with_config(limited_config()).await;
    let origin = create_origin(&["deploy"]);
    origin.write("start.sh", "while :; do sleep 0.05; done\n");
    origin.commit("hangs");
    add_and_build(&world, "tools", &origin).await;
    let seen = read_registry(&world, "tools").await;
    assert_eq!(seen["status"], json!("failed"));
    assert!(seen["error"].as_str().unwrap().contains("took longer than"), "{seen}");
}
