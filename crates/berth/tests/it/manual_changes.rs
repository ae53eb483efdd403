//! Changes that were made to the database by hand.

use serde_json::json;

use crate::harness::{DEFINITION, TestHome};

const PIPELINES: &str = "/api/v1/organizations/acme/pipelines";

#[test]
fn claim_sees_manual_database_changes() {
    let home = TestHome::new();
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
