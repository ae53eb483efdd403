//! Logs and artifacts in object storage: servers without a shared directory, failures, and moving there.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use berth_testkit::{PostgresServer, S3Server, StorageFault, outcome, postgres_binaries};
use serde_json::{Value, json};

use crate::client::ApiHandle;
use crate::harness::{BerthProcess, TestHome, TestServer, berth, wait_until};

const PATIENCE: Duration = Duration::from_secs(120);
const DEPLOYMENTS: &str = "/api/v1/organizations/acme/deployments";
const SHOP: &str = "/api/v1/organizations/acme/pipelines/shop";
const MOTO: &str = "pip install 'moto[server]', and name its Python in BERTH_TEST_PYTHON";

/// A step that prints a line, waits for a file, and stores an artifact.
fn definition(gate: &Path, artifact_bytes: usize) -> String {
    format!(
        "version: 1
pipeline:
  name: Shop
  stages: [{{ name: staging }}]
  ephemeral_environments:
    qa-1: {{}}
  steps:
    - name: Speak
      type: script
      params: {{ run: 'echo before; while [ ! -e {}/go ]; do sleep 0.05; done; echo after; head -c {artifact_bytes} /dev/urandom > out' }}
      artifacts: {{ made: {{ path: out }} }}
      on_lost: retry
",
        gate.display()
    )
}

struct Shop {
    gate: tempfile::TempDir,
}

impl Shop {
    fn create(api: &ApiHandle, artifact_bytes: usize) -> Self {
        let gate = tempfile::tempdir().expect("a directory");
        let body = json!({ "slug": "shop", "definition": definition(gate.path(), artifact_bytes) });
        let made = api.post("/api/v1/organizations/acme/pipelines", &body);
        assert_eq!(made.status, 201, "{}", made.text());
        Self { gate }
    }

    fn open_gate(&self) {
        std::fs::write(self.gate.path().join("go"), "").expect("written");
    }
}

fn start_deployment(api: &ApiHandle) -> String {
    let held =
        api.post(&format!("{SHOP}/ephemeral-environments/qa-1/sessions"), &json!({ "commitId": "aaa1" }));
    assert_eq!(held.status, 201, "{}", held.text());
    wait_until(PATIENCE, "a deployment", || {
        let listed = api.get(DEPLOYMENTS).json();
        listed["data"][0]["id"].as_str().map(str::to_owned)
    })
}

fn deployment(api: &ApiHandle, id: &str) -> Value {
    api.get(&format!("{DEPLOYMENTS}/{id}")).json()["data"].clone()
}

fn wait_for_end(api: &ApiHandle, id: &str) -> Value {
    wait_until(PATIENCE, "the end of the deployment", || {
        let seen = deployment(api, id);
        seen["finishedAt"].is_string().then_some(seen)
    })
}

fn log_path(api: &ApiHandle, id: &str) -> String {
    let step = deployment(api, id)["stages"][0]["steps"][0]["id"].as_str().expect("a step").to_owned();
    format!("{DEPLOYMENTS}/{id}/steps/{step}/logs?raw=true")
}

fn wait_for_log(api: &ApiHandle, path: &str, wanted: &str) {
    wait_until(PATIENCE, wanted, || {
        let log = api.get(path);
        (log.status == 200 && log.text().contains(wanted)).then_some(())
    });
}

fn with_storage<'c>(command: &'c mut Command, url: &str, s3: Option<&S3Server>) -> &'c mut Command {
    command.env("BERTH_STORAGE__URL", url).env("BERTH_LOG__LEVEL", "warn");
    if let Some(s3) = s3 {
        command.env("BERTH_STORAGE__ENDPOINT", s3.endpoint());
        command.env("BERTH_STORAGE__ACCESS_KEY_ID", "key").env("BERTH_STORAGE__SECRET_ACCESS_KEY", "secret");
    }
    command
}

/// Lets steps see the directory with the gate. It does not exist yet when the server starts.
fn expose_temp(command: &mut Command) -> &mut Command {
    command.args(["--sandbox", "off"])
}

#[test]
fn servers_without_a_shared_directory_serve_each_others_logs_and_artifacts() {
    let Some(bin) = postgres_binaries() else {
        outcome::skip("PostgreSQL", "apt-get install postgresql");
        return;
    };
    let Some(s3) = S3Server::start_if_installed() else {
        outcome::skip("moto", MOTO);
        return;
    };
    let database = PostgresServer::start(&bin).expect("a PostgreSQL");
    let home = TestHome::on_database(database.url("postgres"));
    // The second server has only the root key of the first one.
    let other = tempfile::tempdir().expect("a directory");
    std::fs::copy(home.path().join("root.key"), other.path().join("root.key")).expect("a key");
    let url = s3.url("berth");
    let reader = TestServer::start(
        with_storage(home.serve_command().arg("--no-runner"), &url, Some(&s3)),
        &home.token,
    );
    let words = ["serve", "--local", "--listen", "127.0.0.1:0", "--rate-limit", "off", "--data-dir"];
    let mut command = berth(&words);
    command.arg(other.path()).args(["--database", home.database().expect("a database")]);
    let mut writer = TestServer::start(with_storage(expose_temp(&mut command), &url, Some(&s3)), &home.token);

    let shop = Shop::create(&reader.api, 1_000);
    let id = start_deployment(&reader.api);
    let path = wait_until(PATIENCE, "the step", || {
        let seen = deployment(&reader.api, &id);
        (seen["stages"][0]["steps"][0]["status"] == "running").then(|| log_path(&reader.api, &id))
    });
    // The step still runs on the other server.
    wait_for_log(&reader.api, &path, "before\n");
    shop.open_gate();
    let done = wait_for_end(&reader.api, &id);
    assert_eq!(done["status"], "succeeded", "{done}");
    wait_for_log(&reader.api, &path, "after\n");

    let artifact = format!("{DEPLOYMENTS}/{id}/artifacts/made");
    let own = writer.api.get(&artifact);
    assert_eq!(own.status, 200, "{}", own.text());
    assert_eq!(own.header("content-disposition"), Some("attachment; filename=\"made.tar.zst\""));
    assert_eq!(reader.api.get(&artifact).body, own.body);

    // The server that ran the step is lost together with its directory.
    writer.process.kill();
    drop(other);
    assert!(reader.api.get(&path).text().ends_with("after\n"));
    assert_eq!(reader.api.get(&artifact).body, own.body);
    let checked = run_admin(&["verify"], &home.path(), &url, Some(&s3), home.database());
    assert_eq!(checked.code, Some(0), "{}{}", checked.stdout, checked.stderr);
    reader.stop();
}

fn run_admin(
    words: &[&str],
    dir: &Path,
    url: &str,
    s3: Option<&S3Server>,
    database: Option<&str>,
) -> crate::harness::ProcessOutput {
    let mut command = berth(&["admin"]);
    command.args(words).arg("--data-dir").arg(dir);
    if let Some(database) = database {
        command.args(["--database", database]);
    }
    BerthProcess::start(with_storage(&mut command, url, s3)).wait(PATIENCE)
}

#[test]
fn killed_upload_leaves_no_object_and_is_repeated() {
    let Some(s3) = S3Server::start_if_installed() else {
        outcome::skip("moto", MOTO);
        return;
    };
    let (home, url) = (TestHome::new(), s3.url(""));
    let mut command = home.serve_command();
    let mut server = TestServer::start(with_storage(expose_temp(&mut command), &url, Some(&s3)), &home.token);
    // Sent in several parts, and stalls within the second one.
    let shop = Shop::create(&server.api, 20 * 1024 * 1024);
    let id = start_deployment(&server.api);
    s3.set_fault(StorageFault::StallAfter(10 * 1024 * 1024));
    shop.open_gate();
    wait_until(PATIENCE, "a part of the artifact", || (s3.stalled() > 0).then_some(()));
    server.process.kill();
    let is_artifact = |name: &String| name.starts_with("artifacts/");
    assert!(!s3.object_names().iter().any(is_artifact), "{:?}", s3.object_names());
    s3.set_fault(StorageFault::None);
    let mut command = home.serve_command();
    let server = TestServer::start(with_storage(expose_temp(&mut command), &url, Some(&s3)), &home.token);
    let done = wait_for_end(&server.api, &id);
    assert_eq!(done["status"], "succeeded", "{done}");
    assert_eq!(s3.object_names().iter().filter(|name| is_artifact(name)).count(), 1);
    let got = server.api.get(&format!("{DEPLOYMENTS}/{id}/artifacts/made"));
    assert!(got.status == 200 && got.body.len() > 20 * 1024 * 1024);
    server.stop();
}

#[test]
fn steps_lose_no_output_while_storage_is_down() {
    let Some(s3) = S3Server::start_if_installed() else {
        outcome::skip("moto", MOTO);
        return;
    };
    let (home, url) = (TestHome::new(), s3.url("down"));
    let mut command = home.serve_command();
    let server = TestServer::start(with_storage(expose_temp(&mut command), &url, Some(&s3)), &home.token);
    let shop = Shop::create(&server.api, 10);
    let id = start_deployment(&server.api);
    let path = wait_until(PATIENCE, "the step", || {
        let seen = deployment(&server.api, &id);
        (seen["stages"][0]["steps"][0]["status"] == "running").then(|| log_path(&server.api, &id))
    });
    wait_for_log(&server.api, &path, "before\n");
    s3.set_fault(StorageFault::Down);
    shop.open_gate();
    wait_for_log(&server.api, &path, "after\n");
    wait_until(PATIENCE, "storage reported as down", || {
        let ready = server.api.get("/readyz");
        (ready.status == 200 && ready.json()["data"]["objectStorage"] == "down").then_some(())
    });
    // The artifact is stored once the storage is back.
    s3.set_fault(StorageFault::None);
    let done = wait_for_end(&server.api, &id);
    assert_eq!(done["status"], "succeeded", "{done}");
    wait_until(PATIENCE, "a sealed log", || {
        s3.object_names().iter().any(|name| name.contains("/sealed-")).then_some(())
    });
    assert_eq!(server.api.get(&path).text(), "before\nafter\n");
    server.stop();
}

#[test]
fn logs_and_artifacts_are_moved_to_object_storage_and_stay_readable() {
    let home = TestHome::new();
    let target = tempfile::tempdir().expect("a directory");
    let url = format!("file://{}/objects", target.path().display());
    let mut command = home.serve_command();
    let server = TestServer::start(expose_temp(&mut command), &home.token);
    let shop = Shop::create(&server.api, 5_000);
    shop.open_gate();
    let id = start_deployment(&server.api);
    assert_eq!(wait_for_end(&server.api, &id)["status"], "succeeded");
    let (log, artifact) = (log_path(&server.api, &id), format!("{DEPLOYMENTS}/{id}/artifacts/made"));
    let before = (server.api.get(&log).text(), server.api.get(&artifact).body);
    let listed = server.api.get(&format!("{DEPLOYMENTS}/{id}/artifacts")).json();
    assert_eq!(listed["data"]["artifacts"][0]["bytes"], before.1.len(), "{listed}");
    let refused = run_admin(&["storage", "migrate", "--to", &url], &home.path(), &url, None, home.database());
    refused.expect_refusal(&["in use"]);
    server.stop();

    let mut command = home.serve_command();
    let refused = BerthProcess::start(with_storage(&mut command, &url, None)).wait(PATIENCE);
    refused.expect_refusal(&["not in object storage", "berth admin storage migrate"]);
    let migrate = |to: &str| {
        let words = ["storage", "migrate", "--json", "--to", to];
        let moved = run_admin(&words, &home.path(), &url, None, home.database());
        assert_eq!(moved.code, Some(0), "{}{}", moved.stdout, moved.stderr);
        moved.json()
    };
    let moved = migrate(&url);
    assert_eq!((&moved["logs"], &moved["artifacts"]), (&json!(1), &json!(1)), "{moved}");
    assert!(home.path().join("logs.migrated").is_dir() && !home.path().join("logs").exists());
    let refused = BerthProcess::start(&mut home.serve_command()).wait(PATIENCE);
    refused.expect_refusal(&["set storage.url"]);

    // From one object storage to another, twice: an interrupted copy continues.
    let second = format!("file://{}/second", target.path().display());
    assert_eq!(migrate(&second)["logs"], 1);
    assert_eq!(migrate(&second)["skipped"], 2);
    let mut command = home.serve_command();
    let server = TestServer::start(with_storage(&mut command, &second, None), &home.token);
    assert_eq!((server.api.get(&log).text(), server.api.get(&artifact).body), before);
    server.stop();
    assert_foreign_storage_is_refused(&second);
}

/// Another installation must not use the same objects, because it would remove those that it does not know.
fn assert_foreign_storage_is_refused(url: &str) {
    let home = TestHome::new();
    let mut command = home.serve_command();
    let refused = BerthProcess::start(with_storage(&mut command, url, None)).wait(PATIENCE);
    refused.expect_refusal(&["belongs to another installation"]);
}

#[test]
fn server_refuses_to_start_with_unusable_storage() {
    let home = TestHome::new();
    let start = |url: &str, s3: Option<&S3Server>| {
        let mut command = home.serve_command();
        BerthProcess::start(with_storage(&mut command, url, s3)).wait(PATIENCE)
    };
    start("https://bucket", None).expect_refusal(&["use s3://bucket/prefix or file:///directory"]);
    let Some(s3) = S3Server::start_if_installed() else {
        outcome::skip("moto", MOTO);
        return;
    };
    start("s3://no-such-bucket/x", Some(&s3)).expect_refusal(&["the bucket does not exist"]);
    s3.set_fault(StorageFault::Down);
    start(&s3.url(""), Some(&s3)).expect_refusal(&["object storage does not respond"]);
    s3.set_fault(StorageFault::None);
    let checked = run_admin(&["doctor", "--json"], &home.path(), &s3.url(""), Some(&s3), home.database());
    assert!(checked.stdout.contains("can be written, read, listed and deleted"), "{}", checked.stdout);
}

#[test]
fn artifacts_are_listed_and_downloaded_by_the_cli() {
    let home = TestHome::new();
    let mut command = home.serve_command();
    let server = TestServer::start(expose_temp(&mut command), &home.token);
    let shop = Shop::create(&server.api, 5_000);
    shop.open_gate();
    let id = start_deployment(&server.api);
    assert_eq!(wait_for_end(&server.api, &id)["status"], "succeeded");
    let into = tempfile::tempdir().expect("a directory");
    let to: PathBuf = into.path().join("made.tar.zst");
    let url = format!("http://{}", server.address);
    let cli = |words: &[&str]| {
        let mut command = berth(&["deployment"]);
        command.args(words).args(["--server", &url, "--org", "acme"]).env("BERTH_TOKEN", &home.token);
        BerthProcess::start(&mut command).wait(PATIENCE)
    };
    let listed = cli(&["artifacts", &id]);
    assert!(listed.code == Some(0) && listed.stdout.contains("made"), "{}{}", listed.stdout, listed.stderr);
    let output = to.to_str().expect("a path");
    let got = cli(&["download", &id, "made", "--output", output]);
    assert_eq!(got.code, Some(0), "{}", got.stderr);
    let content = Command::new("tar").args(["--zstd", "-xOf", output, "out"]).output().expect("tar runs");
    assert_eq!(content.stdout.len(), 5_000);
    let again = cli(&["download", &id, "made", "--output", output]);
    assert!(again.code == Some(2) && again.stderr.contains("exists"), "{again:?}");
    assert_eq!(cli(&["download", &id, "other"]).code, Some(3));
    server.stop();
}
