//! A data directory that an older program has written.

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
