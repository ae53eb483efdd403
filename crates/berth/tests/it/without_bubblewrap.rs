//! Without bubblewrap the server starts, but it runs no steps unless a weaker sandbox was chosen explicitly.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::json;

use crate::harness::{BerthProcess, STOP_MAX, TestHome, TestServer, berth, wait_until};
use crate::isolation::{commit, is_available, text, wait_for_failed_build};
use crate::machine::{in_mount_namespace, run_in_namespace_of};

const ORGANIZATION: &str = "/api/v1/organizations/acme";
const PATIENCE: Duration = Duration::from_secs(120);

/// Shell script for a mount namespace that replaces `bwrap` with an empty file.
const REMOVE_BUBBLEWRAP: &str = r#"for dir in /usr/local/bin /usr/bin /bin; do
    if [ -e $dir/bwrap ]; then mount --bind /dev/null $dir/bwrap; fi
done"#;

/// Returns the same command in an environment without `bwrap`, or `None` if this machine does not allow mounts.
fn without_bubblewrap(command: &Command) -> Option<Command> {
    in_mount_namespace(command, REMOVE_BUBBLEWRAP)
}

/// Creates a registry whose build prints `it runs`.
fn create_registry(dir: &Path) -> PathBuf {
    let source = dir.join("tools");
    std::fs::create_dir(&source).expect("a directory");
    let manifest = "build: echo it runs\nstart: sh ./steps.sh\n";
    std::fs::write(source.join("berth-registry.yaml"), manifest).expect("written");
    std::fs::write(source.join("steps.sh"), "exit 1\n").expect("written");
    commit(&source);
    source
}

/// Adds a registry, and checks that its build fails with these words before any of its commands run.
fn check_build_is_refused(server: &TestServer, source: &Path, words: &[&str]) {
    let (registry, log) = wait_for_failed_build(&server.api, source);
    let error = text(&registry["error"]);
    for word in words {
        assert!(error.contains(word) && log.contains(word), "{word:?} is not in {error}; {log}");
    }
    assert!(!log.contains(r#""it runs""#), "{log}");
}

#[test]
fn server_without_bubblewrap_serves_and_runs_no_step() {
    let home = TestHome::on_sqlite();
    let mut serve = berth(&["serve", "--listen", "127.0.0.1:0", "--rate-limit", "off", "--data-dir"]);
    serve.arg(home.path());
    let dir = tempfile::tempdir_in("/var/tmp").expect("a directory");
    serve.arg("--repository-root").arg(dir.path());
    let Some(mut serve) = without_bubblewrap(&serve) else { return };
    let server = TestServer::start(&mut serve, &home.token);
    assert_eq!(server.api.get("/readyz").status, 200);
    let log = server.process.stderr();
    assert!(log.contains("apt-get install bubblewrap"), "{log}");

    let step = json!({"name": "Deploy", "type": "script", "params": {"run": "echo it runs"}});
    let definition = json!({"version": 1, "pipeline": {
        "name": "Shop", "stages": [{"name": "staging"}], "steps": [step],
    }});
    let body = json!({"slug": "shop", "definition": definition.to_string()});
    assert_eq!(server.api.post(&format!("{ORGANIZATION}/pipelines"), &body).status, 201);
    let path = format!("{ORGANIZATION}/pipelines/shop/deployments");
    let begun = server.api.post(&path, &json!({"commitId": "abc"}));
    let id = begun.json()["data"]["id"].as_str().expect("an id").to_owned();
    let path = format!("{ORGANIZATION}/deployments/{id}");
    wait_until(PATIENCE, "the reason", || server.api.get(&path).text().contains("no_runner").then_some(()));
    assert!(!server.api.get(&format!("{path}/steps/deploy/logs?raw=true")).text().contains("it runs"));
    let words = ["apt-get install bubblewrap", "builds no custom steps"];
    check_build_is_refused(&server, &create_registry(dir.path()), &words);
    server.stop();
}

#[test]
fn sandbox_that_is_named_and_missing_ends_the_server() {
    let home = TestHome::on_sqlite();
    let mut serve = home.serve_command();
    serve.args(["--sandbox", "bubblewrap"]);
    let Some(mut serve) = without_bubblewrap(&serve) else { return };
    BerthProcess::start(&mut serve).wait(STOP_MAX).expect_refusal(&["apt-get install bubblewrap"]);
}

/// The sandbox level is chosen at startup. If its program disappears later, builds fail; the server does not fall back
/// to a weaker level.
#[test]
fn build_fails_after_bubblewrap_is_removed_from_a_running_server() {
    let home = TestHome::on_sqlite();
    let Some(mut serve) = in_mount_namespace(&home.serve_command(), "") else { return };
    if !is_available("bubblewrap") {
        return;
    }
    let server = TestServer::start(&mut serve, &home.token);
    assert_eq!(server.api.get("/readyz").json()["data"]["isolation"], "bubblewrap");
    run_in_namespace_of(server.process.id(), REMOVE_BUBBLEWRAP);
    let dir = tempfile::tempdir_in("/var/tmp").expect("a directory");
    let words = ["cannot run /usr", "bwrap", "install bubblewrap again"];
    check_build_is_refused(&server, &create_registry(dir.path()), &words);
    server.stop();
}

#[test]
fn landlock_of_a_kernel_before_6_2_is_refused() {
    if !is_available("landlock") {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let library = dir.path().join("old_landlock.so");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/old_landlock.c");
    let compiled =
        Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(source).output();
    let compiled = compiled.expect("a C compiler");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let home = TestHome::on_sqlite();
    let serve = |abi: &str| {
        let mut serve = home.serve_command();
        serve.args(["--sandbox", "landlock"]).env("LD_PRELOAD", &library).env("LANDLOCK_ABI", abi);
        serve
    };
    for abi in ["1", "2"] {
        BerthProcess::start(&mut serve(abi)).wait(STOP_MAX).expect_refusal(&["older one than Linux 6.2"]);
    }
    TestServer::start(&mut serve("3"), &home.token).stop();
}
