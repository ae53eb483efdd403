//! Retention of logs and artifacts.

use std::fs::File;
use std::path::Path;
use std::time::{Duration, SystemTime};

use rusqlite::Connection;
use serde_json::{Value, json};

use super::{ORGANIZATION, PATIENCE, SHOP, claim, deploy, deploy_log, make_shop, run_admin};
use crate::client::ApiHandle;
use crate::harness::{TestHome, TestServer, wait_until};

const DAYS: &str = "2";
const LONG_AGO_US: i64 = 3 * 24 * 60 * 60 * 1_000_000;
const MORE_THAN_A_DAY_US: i64 = 25 * 60 * 60 * 1_000_000;
/// The build output is the part of the commit's name before the dash, so that two commits can have the same output.
const SITE: &str = "version: 1
pipeline:
  name: Site
  build:
    - name: Build
      type: script
      params: { run: 'mkdir out; echo ${BERTH_COMMIT%-*} > out/page' }
      artifacts: { page: { path: out } }
  stages: [{ name: staging }]
  ephemeral_environments: { qa-1: {} }
  steps:
    - name: Show
      type: script
      needs_artifacts: [page]
      params: { run: 'cat out/page' }
";

/// Backdates the log files of a deployment; returns their number.
fn backdate_logs(logs: &Path, deployment: &str) -> usize {
    let org =
        std::fs::read_dir(logs).expect("logs").next().expect("an organization").expect("an entry").path();
    let files = std::fs::read_dir(org.join(deployment)).expect("logs of the deployment");
    let age = Duration::from_micros(LONG_AGO_US.unsigned_abs());
    files
        .map(|file| File::options().write(true).open(file.expect("an entry").path()).expect("a log"))
        .map(|file| file.set_modified(SystemTime::now() - age).expect("another time"))
        .count()
}

#[test]
fn log_retention_removes_only_old_logs_of_finished_deployments() {
    let home = TestHome::on_sqlite();
    let server = home.serve();
    make_shop(&server.api);
    let (session, _) = claim(&server.api, "qa-1");
    let old = deploy(&server.api, "qa-1", &session, "aaa1", "succeeded");
    let written = deploy(&server.api, "qa-1", &session, "aaa3", "succeeded");
    let young = deploy(&server.api, "qa-1", &session, "aaa2", "succeeded");
    server.stop();
    let database = database(&home);
    let before = "UPDATE deployments SET finished_at = finished_at - ?1 WHERE id = ?2";
    // The deployment `written` finished earlier than `old`, so it is checked first. Its log files are recent, as if a
    // step were still writing them.
    for (deployment, by) in [(&old, LONG_AGO_US), (&written, 2 * LONG_AGO_US)] {
        let params = rusqlite::params![by, deployment["id"].as_str()];
        assert_eq!(database.execute(before, params).expect("a change"), 1);
    }
    drop(database);
    assert_eq!(backdate_logs(&home.path().join("logs"), old["id"].as_str().expect("its id")), 1);

    let mut command = home.serve_command();
    command.env("BERTH_RETENTION__LOG_DAYS", DAYS);
    let server = TestServer::start(&mut command, &home.token);
    let (slow, _) = claim(&server.api, "qa-2");
    let running = deploy(&server.api, "qa-2", &slow, "slow", "running");
    let note = wait_until(PATIENCE, "an old log that is gone", || {
        let text = deploy_log(&server.api, &old);
        (!text.contains("it runs")).then_some(text)
    });
    assert_eq!(note, "[berth] this log was removed: logs are kept for 2 days (retention.log_days)\n");
    assert!(deploy_log(&server.api, &young).contains("it runs"));
    assert!(deploy_log(&server.api, &written).contains("it runs"));
    wait_until(PATIENCE, "the log of what runs", || {
        deploy_log(&server.api, &running).contains("it runs").then_some(())
    });
    server.stop();
    let verified = run_admin(&["verify"], &home.path());
    assert_eq!(verified.code, Some(0), "{verified:?}");
}

fn database(home: &TestHome) -> Connection {
    Connection::open(home.path().join("berth.db")).expect("the database")
}

fn serve(home: &TestHome) -> TestServer {
    TestServer::start(home.serve_command().env("BERTH_RETENTION__ARTIFACT_DAYS", DAYS), &home.token)
}

/// Deploys through all stages and waits until the deployment has ended.
fn deploy_through_stages(api: &ApiHandle, path: &str, body: &Value) -> Value {
    let asked = api.post(path, body);
    assert_eq!(asked.status, 202, "{}", asked.text());
    let id = asked.json()["data"]["id"].as_str().expect("its id").to_owned();
    wait_until(PATIENCE, "deployment that succeeded", || {
        let seen = api.get(&format!("{ORGANIZATION}/deployments/{id}")).json()["data"].clone();
        assert_ne!(seen["status"], "failed", "{seen}");
        (seen["status"] == "succeeded").then_some(seen)
    })
}

/// Path of a deployment's artifact.
fn artifact_path(home: &TestHome, deployment: &Value) -> std::path::PathBuf {
    let steps = deployment["stages"].as_array().expect("stages").iter().flat_map(|it| it["steps"].as_array());
    let digest = steps.flatten().find_map(|it| it["artifacts"]["page"].as_str()).expect("a digest");
    let digits = digest.strip_prefix("sha256:").expect("a digest");
    let org = std::fs::read_dir(home.path().join("artifacts")).expect("artifacts").next().expect("one");
    org.expect("an entry").path().join("sha256").join(&digits[..2]).join(&digits[2..])
}

#[test]
fn artifact_retention_keeps_rollback_targets() {
    let home = TestHome::on_sqlite();
    let server = home.serve();
    let made =
        server.api.post(&format!("{ORGANIZATION}/pipelines"), &json!({ "slug": "shop", "definition": SITE }));
    assert_eq!(made.status, 201, "{}", made.text());
    let (session, _) = claim(&server.api, "qa-1");
    let in_session = |api: &ApiHandle, commit: &str| deploy(api, "qa-1", &session, commit, "succeeded");
    let [gone, shared, young] = ["gone-1", "same-1", "same-2"].map(|commit| in_session(&server.api, commit));
    let deployments = format!("{SHOP}/deployments");
    let [first, second] = ["first-1", "second-1"]
        .map(|it| deploy_through_stages(&server.api, &deployments, &json!({ "commitId": it })));
    server.stop();
    let [gone_page, first_page] = [&gone, &first].map(|it| artifact_path(&home, it));
    assert_eq!(artifact_path(&home, &shared), artifact_path(&home, &young), "the same content is one file");
    let old = Duration::from_micros(LONG_AGO_US.unsigned_abs());
    for deployment in [&gone, &shared, &first, &second] {
        let params = rusqlite::params![LONG_AGO_US, deployment["id"].as_str()];
        for before in [
            "UPDATE deployments SET finished_at = finished_at - ?1 WHERE id = ?2",
            "UPDATE step_runs SET finished_at = finished_at - ?1 WHERE deployment_id = ?2",
        ] {
            assert!(database(&home).execute(before, params).expect("a change") > 0);
        }
        let file = File::options().write(true).open(artifact_path(&home, deployment)).expect("an artifact");
        file.set_modified(SystemTime::now() - old).expect("another time");
    }

    // Artifacts are first marked as removed and deleted a day later, so that a running backup can still copy them.
    let server = serve(&home);
    let question = "SELECT id FROM deployments WHERE artifacts_removed_at IS NOT NULL ORDER BY id";
    let given_up = wait_until(PATIENCE, "artifacts that are given up", || {
        let rows = run_admin(&["sql", "--read-only", "--json", question], &home.path()).json();
        (rows.as_array()?.len() >= 2).then_some(rows)
    });
    assert_eq!(given_up, json!([{ "id": gone["id"] }, { "id": shared["id"] }]));
    server.stop();
    assert!(gone_page.exists());
    let sooner = "UPDATE deployments SET artifacts_removed_at = artifacts_removed_at - ?1";
    database(&home).execute(sooner, [MORE_THAN_A_DAY_US]).expect("a change");

    let server = serve(&home);
    wait_until(PATIENCE, "an old artifact that is gone", || (!gone_page.exists()).then_some(()));
    assert!(artifact_path(&home, &young).exists() && first_page.exists());
    let verified = run_admin(&["verify"], &home.path());
    assert_eq!(verified.code, Some(0), "{verified:?}");
    let back =
        format!("{ORGANIZATION}/deployments/{}/stages/staging/rollback", second["id"].as_str().unwrap());
    let back = deploy_through_stages(&server.api, &back, &json!({}));
    assert_eq!((back["commitId"].as_str(), artifact_path(&home, &back)), (Some("first-1"), first_page));
    // The commit is built again, because the artifacts of its earlier build were removed.
    let again = in_session(&server.api, "gone-1");
    assert_eq!(artifact_path(&home, &again), gone_page);
    assert!(gone_page.exists());
    server.stop();

    // A rollback to removed artifacts is refused.
    let given_up = "UPDATE deployments SET artifacts_removed_at = finished_at WHERE id = ?1";
    assert_eq!(database(&home).execute(given_up, [first["id"].as_str()]).expect("a change"), 1);
    let server = serve(&home);
    let back = format!("{ORGANIZATION}/deployments/{}/stages/staging/rollback", back["id"].as_str().unwrap());
    let refused = server.api.post(&back, &json!({ "to": first["id"] }));
    assert_eq!(refused.status, 409, "{}", refused.text());
    assert!(refused.text().contains("were removed after their retention period"), "{}", refused.text());
    server.stop();
}
