//! A data directory that an older program has written, or somebody by hand.

use serde_json::json;

use crate::harness::{DEFINITION, Home, Server};

const PIPELINES: &str = "/api/v1/organizations/acme/pipelines";

fn events(server: &Server) -> usize {
    let list = server.api.get("/api/v1/organizations/acme/events?limit=200").json();
    list["data"].as_array().expect("a list").len()
}

#[test]
fn pipelines_that_are_older_than_environments_get_theirs_at_the_start() {
    let home = Home::new();
    let server = home.serve();
    let definition = format!("{DEFINITION}  ephemeral_environments:\n    qa-1: {{}}\n");
    for slug in ["one", "two"] {
        assert_eq!(server.api.post(PIPELINES, &json!({"slug": slug, "definition": definition})).status, 201);
    }
    server.stop();
    // As the second migration left it: no environments, and a definition that nobody has looked at.
    let database = rusqlite::Connection::open(home.path().join("berth.db")).unwrap();
    let before =
        "PRAGMA foreign_keys = OFF; DELETE FROM environments; UPDATE pipelines SET environments_hash = NULL";
    database.execute_batch(before).unwrap();
    drop(database);

    let server = home.serve();
    for slug in ["one", "two"] {
        let claim = format!("{PIPELINES}/{slug}/ephemeral-environments/qa-1/sessions");
        assert_eq!(server.api.post(&claim, &json!({})).status, 201, "{slug}");
    }
    let told = events(&server);
    server.stop();
    let server = home.serve();
    assert_eq!(events(&server), told, "it happens once");
}

#[test]
fn what_is_in_stages_is_told_of_deployments_that_are_older_than_that() {
    let home = Home::new();
    let server = home.serve();
    let made = server.api.post(PIPELINES, &json!({"slug": "shop", "definition": DEFINITION}));
    assert_eq!(made.status, 201, "{}", made.text());
    let deploy = |server: &Server, commit: &str| {
        let started = server.api.post(&format!("{PIPELINES}/shop/deployments"), &json!({"commitId": commit}));
        let id = started.json()["data"]["id"].as_str().expect("an id").to_owned();
        let path = format!("/api/v1/organizations/acme/deployments/{id}?wait=30");
        assert_eq!(server.api.get(&path).json()["data"]["status"], "succeeded");
        id
    };
    let (first, second) = (deploy(&server, "aaa1111"), deploy(&server, "bbb2222"));
    server.stop();
    // As the migration finds it: runs, and nobody who noted what is in the stages.
    let database = rusqlite::Connection::open(home.path().join("berth.db")).unwrap();
    let before = "DELETE FROM stages; DELETE FROM stage_ends; UPDATE pipelines SET stages_noted = 0";
    database.execute_batch(before).unwrap();
    drop(database);

    let server = home.serve();
    let shop = server.api.get(&format!("{PIPELINES}/shop")).json();
    assert_eq!(shop["data"]["stages"][0]["current"]["deploymentId"], json!(second));
    let measured = server.api.get("/api/v1/organizations/acme/insights").json();
    assert_eq!(measured["data"]["deploymentFrequency"]["deployments"], 2, "{measured}");
    let path = format!("/api/v1/organizations/acme/deployments/{second}/stages/sandbox/rollback");
    let back = server.api.post(&path, &json!({}));
    assert_eq!(
        (back.status, &back.json()["data"]["rollback"]["to"]),
        (202, &json!(first)),
        "{}",
        back.text()
    );
}

#[test]
fn what_somebody_changes_by_hand_is_seen_by_the_next_claim() {
    let home = Home::new();
    let server = home.serve();
    let definition = format!("{DEFINITION}  ephemeral_environments:\n    qa-1: {{}}\n");
    assert_eq!(server.api.post(PIPELINES, &json!({"slug": "shop", "definition": definition})).status, 201);
    let sessions = format!("{PIPELINES}/shop/ephemeral-environments/qa-1/sessions");
    let claimed = server.api.post(&sessions, &json!({}));
    assert_eq!(claimed.status, 201, "{}", claimed.text());
    let ended = "UPDATE environments SET holder_id = NULL, version = version + 1;
        UPDATE sessions SET ended_at = claimed_at, end_reason = 'released', ended_by = holder";
    let database = rusqlite::Connection::open(home.path().join("berth.db")).unwrap();
    database.execute_batch(&format!("BEGIN IMMEDIATE; {ended}; COMMIT")).unwrap();
    drop(database);
    let again = server.api.post(&sessions, &json!({}));
    assert_eq!(again.status, 201, "{}", again.text());
}
