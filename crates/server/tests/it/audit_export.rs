//! Exporting and verifying the audit log.

use berth_core::event::{EventKind, EventSubject, NewEvent};
use berth_core::id::OrgId;
use berth_store::audit::{AuditHead, export};
use berth_store::{StoreError, TxContext};
use serde_json::{Value, json};

use super::world::{TestWorld, get, post};

const EVENTS: &str = "/api/v1/organizations/acme/events";

pub(crate) async fn acme_org_id(world: &TestWorld) -> OrgId {
    let org = world.send(get("/api/v1/organizations/acme").with_account(&world.ada)).await;
    org.body["data"]["id"].as_str().unwrap().parse().unwrap()
}

/// Records this many events in one transaction.
pub(crate) async fn record_events(world: &TestWorld, org: OrgId, count: i64) {
    let recorded = world.app.store().transact(TxContext::system(Some(org)), move |tx| {
        for number in 0..count {
            let event =
                NewEvent::new(EventKind::AccessDenied, EventSubject::new("user", number, Some("ü\u{7}")));
            tx.record(event.with("path", "/x").with("list", json!([{"b": 1, "a": null}])))?;
        }
        Ok::<_, StoreError>(())
    });
    recorded.await.unwrap();
}

async fn verify_events(world: &TestWorld, body: &Value) -> Value {
    let reply = world.send(post(&format!("{EVENTS}/verify")).with_account(&world.ada).json(body)).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.body["data"].clone()
}

#[tokio::test]
async fn export_has_all_events_and_verifies_offline() {
    let world = TestWorld::new().await;
    world.create_pipeline("shop").await;
    let org = acme_org_id(&world).await;
    record_events(&world, org, 2_500).await;
    let reply = world.send(get(&format!("{EVENTS}/export")).with_account(&world.ada)).await;
    assert_eq!(reply.status, 200);
    assert_eq!(reply.header("content-type"), "application/x-ndjson");
    assert_eq!(reply.header("content-disposition"), "attachment; filename=\"acme-events.jsonl\"");
    assert_eq!(reply.header("cache-control"), "no-store");

    let lines: Vec<Value> = reply.text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let sequences: Vec<_> = lines.iter().filter_map(|line| line["sequence"].as_i64()).collect();
    assert_eq!(sequences, (1..=i64::try_from(lines.len()).unwrap() - 1).collect::<Vec<_>>());
    let newest = world.send(get(&format!("{EVENTS}?limit=200")).with_account(&world.ada)).await;
    for (listed, exported) in newest.body["data"].as_array().unwrap().iter().zip(lines.iter().rev().skip(1)) {
        let mut hashed = listed.clone();
        assert!(hashed.as_object_mut().unwrap().remove("summary").is_some_and(|it| it.is_string()));
        assert_eq!(&hashed, exported, "what is listed is what is exported and hashed");
    }
    let last = &lines[lines.len() - 2];
    let head = json!({"organizationId": org, "sequence": last["sequence"], "hash": last["hash"]});
    assert_eq!(lines[lines.len() - 1], json!({"head": head}));

    let checked = export::verify_export(reply.text.as_bytes(), None).unwrap();
    assert_eq!(checked.verdict.problem, None);
    let kept = json!({"head": {"sequence": last["sequence"], "hash": last["hash"]}});
    let found = verify_events(&world, &kept).await;
    let whole = json!({"valid": true, "checked": 2_504, "firstSequence": 1, "headIsTooOld": false,
        "head": kept["head"], "firstProblem": null});
    assert_eq!(found, whole);
}

#[tokio::test]
async fn export_verification_finds_any_changed_byte() {
    let world = TestWorld::new().await;
    world.create_pipeline("shop").await;
    let text = world.send(get(&format!("{EVENTS}/export")).with_account(&world.ada)).await.text;
    let mut bytes = text.into_bytes();
    for place in 0..bytes.len() {
        bytes[place] ^= 1;
        let checked = export::verify_export(bytes.as_slice(), None);
        assert!(checked.is_err() || checked.unwrap().verdict.problem.is_some(), "byte {place}");
        bytes[place] ^= 1;
    }
    assert_eq!(export::verify_export(bytes.as_slice(), None).unwrap().verdict.problem, None);
}

#[tokio::test]
async fn kept_chain_head_detects_a_truncated_or_different_log() {
    let world = TestWorld::new().await;
    let AuditHead { hash, .. } = AuditHead::start();
    let ask = async |sequence: i64, hash: &str| {
        let found = verify_events(&world, &json!({"head": {"sequence": sequence, "hash": hash}})).await;
        assert_eq!(found["checked"], if sequence == 3 { 2 } else { 3 });
        (
            found["valid"].clone(),
            found["firstProblem"]["reason"].clone(),
            found["firstProblem"]["sequence"].clone(),
        )
    };
    assert_eq!(ask(0, &hash).await, (json!(true), json!(null), json!(null)));
    assert_eq!(ask(3, &hash).await, (json!(false), json!("head_differs"), json!(3)));
    assert_eq!(ask(9, &hash).await, (json!(false), json!("truncated"), json!(4)));
    assert_eq!(verify_events(&world, &json!({})).await["valid"], true);

    for bad in [
        json!({"head": {"sequence": -1, "hash": hash}}),
        json!({"head": {"sequence": 1, "hash": "sha256:00"}}),
        json!({"head": {"sequence": 1, "hash": hash.to_uppercase()}}),
        json!({"head": {"sequence": 1}}),
        json!({"head": "1"}),
        json!({"heads": {}}),
    ] {
        let refused = world.send(post(&format!("{EVENTS}/verify")).with_account(&world.ada).json(&bad)).await;
        refused.assert_invalid_input();
    }
    let foreign = post("/api/v1/organizations/globex/events/verify").with_account(&world.ada);
    world.send(foreign).await.assert_problem(404, "not_found");
    world
        .send(get("/api/v1/organizations/globex/events/export").with_account(&world.ada))
        .await
        .assert_problem(404, "not_found");
}
