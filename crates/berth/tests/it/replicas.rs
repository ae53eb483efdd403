//! Two servers on one PostgreSQL: either one handles requests and background jobs, and a server or the database may
//! fail.

use std::time::Duration;

use berth_testkit::{PostgresServer as Postgres, outcome, postgres_binaries};
use serde_json::{Value, json};

use crate::client::ApiHandle;
use crate::harness::{BerthProcess, TestHome, TestServer, wait_until};

const PATIENCE: Duration = Duration::from_secs(120);
const PIPELINE: &str = "/api/v1/organizations/acme/pipelines/shop";
const DEPLOYMENTS: &str = "/api/v1/organizations/acme/deployments";
const DEFINITION: &str = "version: 1
pipeline:
  name: Shop
  stages: [{ name: staging }]
  ephemeral_environments:
    qa-1: {}
  steps:
    - { name: Speak, type: script, params: { run: 'echo it runs' } }
";

/// Deploys through a server and returns the finished deployment.
fn deploy(api: &ApiHandle, session: &str, commit: &str) -> Value {
    let path = format!("{PIPELINE}/ephemeral-environments/qa-1/sessions/{session}/deploy");
    let asked = api.post(&path, &json!({ "commitId": commit }));
    assert_eq!(asked.status, 202, "{}", asked.text());
    let id = asked.json()["data"]["id"].as_str().expect("its id").to_owned();
    wait_until(PATIENCE, "end of the deployment", || {
        let seen = api.get(&format!("{DEPLOYMENTS}/{id}")).json()["data"].clone();
        seen["finishedAt"].is_string().then_some(seen)
    })
}

fn deploy_log(api: &ApiHandle, deployment: &Value) -> String {
    let step = &deployment["stages"][0]["steps"][0]["id"];
    let (id, step) = (deployment["id"].as_str().expect("its id"), step.as_str().expect("a step"));
    api.get(&format!("{DEPLOYMENTS}/{id}/steps/{step}/logs?raw=true")).text()
}

#[test]
fn replicas_share_work_and_survive_loss_of_a_server_or_the_database() {
    let Some(bin) = postgres_binaries() else {
        outcome::skip("PostgreSQL", "apt-get install postgresql");
        return;
    };
    let mut database = Postgres::start(&bin).expect("a PostgreSQL");
    let home = TestHome::on_database(database.url("postgres"));
    let start = |runner: &[&str]| {
        let mut command = home.serve_command();
        command.args(runner).env("BERTH_LOG__LEVEL", "warn");
        TestServer::start(&mut command, &home.token)
    };
    // The first server is the leader and runs no steps.
    let mut first = start(&["--no-runner"]);
    let second = start(&[]);
    let body = json!({ "slug": "shop", "definition": DEFINITION });
    let made = first.api.post("/api/v1/organizations/acme/pipelines", &body);
    assert_eq!(made.status, 201, "{}", made.text());
    let claim =
        |api: &ApiHandle| api.post(&format!("{PIPELINE}/ephemeral-environments/qa-1/sessions"), &json!({}));
    let held = claim(&first.api);
    assert_eq!(held.status, 201, "{}", held.text());
    assert_eq!(claim(&second.api).status, 409, "it is held, wherever one asks");
    let session = held.json()["data"]["sessionId"].as_str().expect("a session").to_owned();

    for (api, commit) in [(&first.api, "aaa1"), (&second.api, "aaa2")] {
        let done = deploy(api, &session, commit);
        assert_eq!(done["status"], "succeeded", "{done}");
        for api in [&first.api, &second.api] {
            assert!(deploy_log(api, &done).contains("it runs"), "{}", deploy_log(api, &done));
        }
    }

    // The leader is killed; the other server takes over its work.
    first.process.kill();
    assert_eq!(deploy(&second.api, &session, "aaa3")["status"], "succeeded");

    database.kill();
    let ready = || second.api.get("/readyz");
    assert_eq!(ready().status, 503, "{}", ready().text());
    let refused = claim(&second.api);
    assert_eq!((refused.status, &refused.json()["code"]), (503, &json!("unavailable")));
    assert!(refused.header("retry-after").is_some());
    database.restart().expect("it starts again");
    wait_until(PATIENCE, "a server that is ready again", || (ready().status == 200).then_some(()));
    assert_eq!(deploy(&second.api, &session, "aaa4")["status"], "succeeded");
    second.stop();
}

#[test]
fn server_started_before_its_database_waits_and_logs_why() {
    let Some(bin) = postgres_binaries() else {
        outcome::skip("PostgreSQL", "apt-get install postgresql");
        return;
    };
    let mut database = Postgres::start(&bin).expect("a PostgreSQL");
    let home = TestHome::on_database(database.url("postgres"));
    database.kill();
    let mut process = BerthProcess::start(&mut home.serve_command());
    wait_until(PATIENCE, "word of what it waits for", || {
        process.stderr().contains("waiting for PostgreSQL").then_some(())
    });
    assert_eq!(process.stdout_now(), "", "it does not say that it serves");
    database.restart().expect("it starts again");
    assert!(process.first_line().starts_with("berth is serving at "));
}
