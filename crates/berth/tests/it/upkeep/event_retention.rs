//! Retention of events: the server truncates the audit log and records that it did, and all tools still verify the
//! rest.

use std::io::BufRead as _;

use berth_core::time::Timestamp;
use berth_store::audit::{self, AuditHead};
use berth_store::tables::{event, organization};
use berth_store::{Store, StoreError};
use berth_testkit::{ScratchDatabase, outcome};
use rusqlite::params;
use serde_json::json;

use super::{ORGANIZATION, PATIENCE, SHOP, make_shop, path_text, run_admin};
use crate::audit_log::{export, verify};
use crate::client::HttpConnection;
use crate::harness::{BerthProcess, TestHome, TestServer, berth, run, wait_until};

const DAYS: &str = "2";
const LONG_AGO_US: i64 = 4 * 24 * 60 * 60 * 1_000_000;
const STOPS: usize = 70;

/// Backdates all events. The time is part of the hash, so the chain is recomputed.
fn backdate_events(home: &TestHome) -> Vec<AuditHead> {
    let path = home.path().join("berth.db");
    let store = Store::open_sqlite(&path).expect("the database");
    let read = |db: &mut berth_store::ReadTx<'_>| organization::list_ids(db, None);
    let (org, _) = store.read_blocking::<_, StoreError>(None, read).expect("organizations").remove(0);
    let all = |db: &mut berth_store::ReadTx<'_>| event::list_after(db, 0, i64::MAX, i64::MAX);
    let mut history = store.read_blocking::<_, StoreError>(Some(org), all).expect("events");
    drop(store);
    for event in &mut history {
        event.occurred_at = Timestamp::from_micros(event.occurred_at.as_micros() - LONG_AGO_US);
    }
    let head = audit::seal_events(AuditHead::start(), &mut history).expect("a chain");
    let db = rusqlite::Connection::open(path).expect("the database");
    let change = "UPDATE events SET occurred_at = ?2, previous_hash = ?3, hash = ?4 WHERE sequence = ?1";
    for it in &history {
        let values = params![it.sequence, it.occurred_at.as_micros(), it.previous_hash, it.hash];
        assert_eq!(db.execute(change, values).expect("a change"), 1);
    }
    db.execute("UPDATE event_heads SET hash = ?1", [head.hash]).expect("a change");
    history.into_iter().map(|it| AuditHead { sequence: it.sequence, hash: it.hash }).collect()
}

/// Returns an installation with old events, and every head that its hash chain has had.
fn create_old_installation() -> (TestHome, Vec<AuditHead>) {
    let home = TestHome::on_sqlite();
    let server = home.serve();
    make_shop(&server.api);
    for _ in 0..STOPS {
        for word in ["stop", "resume"] {
            assert_eq!(server.api.post(&format!("{SHOP}/{word}"), &json!({})).status, 200);
        }
    }
    server.stop();
    let heads = backdate_events(&home);
    (home, heads)
}

fn serve(home: &TestHome) -> TestServer {
    TestServer::start(home.serve_command().env("BERTH_RETENTION__EVENT_DAYS", DAYS), &home.token)
}

#[test]
fn event_retention_truncates_a_chain_that_still_verifies() {
    let (home, heads) = create_old_installation();
    let server = serve(&home);
    let ask = |head: Option<&AuditHead>| {
        let head = head.map(|it| json!({ "sequence": it.sequence, "hash": it.hash }));
        let body = head.map_or(json!({}), |head| json!({ "head": head }));
        server.api.post(&format!("{ORGANIZATION}/events/verify"), &body).json()["data"].clone()
    };
    let found = wait_until(PATIENCE, "a history that begins later", || {
        let found = ask(None);
        assert_eq!(found["valid"], true, "{found}");
        (found["firstSequence"] != 1).then_some(found)
    });
    // All events except the newest one are removed.
    let removed = heads.len() as i64 - 1;
    assert_eq!(found["firstSequence"], removed + 1, "{found}");
    let last = found["head"]["sequence"].as_i64().expect("a number");
    assert_eq!(found["checked"], last - removed, "{found}");
    let [gone, end] = [&heads[4], &heads[heads.len() - 2]].map(|head| ask(Some(head)));
    assert_eq!((&gone["valid"], &gone["headIsTooOld"]), (&json!(true), &json!(true)), "{gone}");
    assert_eq!((&end["valid"], &end["headIsTooOld"]), (&json!(true), &json!(false)), "{end}");

    let listed = server.api.get(&format!("{ORGANIZATION}/events?total=true&limit=1")).json();
    assert_eq!(listed["pagination"]["total"], last - removed, "{listed}");
    let listed = server.api.get(&format!("{ORGANIZATION}/events?kind=events_removed")).json();
    let told = &listed["data"][0];
    assert_eq!(
        (listed["data"].as_array().map(Vec::len), &told["actor"]["type"]),
        (Some(1), &json!("system"))
    );
    let facts = json!({ "from": 1, "through": removed, "hash": heads[heads.len() - 2].hash, "days": 2 });
    assert_eq!(told["data"], facts);

    // A client whose last seen event has been removed continues with the first retained one.
    let mut client = HttpConnection::connect(server.address);
    let follow = server.api.request("GET", &format!("{ORGANIZATION}/events"));
    let follow = follow.header("Accept", "text/event-stream").header("Last-Event-ID", "5");
    client.send(&follow.bytes()).expect("a request");
    let ids = client.stream.lines().map(|line| line.expect("a line"));
    let ids: Vec<_> = ids.filter(|line| line.starts_with("id: ")).take(2).collect();
    assert_eq!(ids, [format!("id: {removed}"), format!("id: {}", removed + 1)]);

    let file = home.path().with_file_name("export.jsonl");
    std::fs::write(&file, export(&server)).expect("a file");
    let offline = verify(&file, &[]);
    assert_eq!(offline.code, Some(0), "{offline:?}");
    let begins = format!("from event {}; older ones were removed", removed + 1);
    assert!(offline.stdout.contains(&begins), "{offline:?}");
    let offline = verify(&file, &["--head", &format!("5:{}", heads[4].hash)]);
    assert_eq!(offline.code, Some(1), "{offline:?}");
    assert!(offline.stdout.contains("older than the retained events"), "{offline:?}");
    let mut online = berth(&["event", "verify", "--head", &format!("5:{}", heads[4].hash)]);
    online.env("BERTH_SERVER", format!("http://{}", server.address)).env("BERTH_TOKEN", &home.token);
    let online = BerthProcess::start(&mut online).wait(PATIENCE);
    assert_eq!(online.code, Some(1), "{online:?}");
    assert!(online.stdout.contains("older than the retained events"), "{online:?}");
    server.stop();

    let verified = run_admin(&["verify"], &home.path());
    assert_eq!(verified.code, Some(0), "{verified:?}");
    let (backup, restored) = (home.path().with_file_name("backup"), home.path().with_file_name("restored"));
    run_admin(&["backup", "--json", "--to", path_text(&backup)], &home.path()).json();
    std::fs::create_dir(&restored).expect("a directory");
    std::fs::copy(home.path().join("root.key"), restored.join("root.key")).expect("the key");
    let told = run_admin(&["restore", "--json", "--from", path_text(&backup)], &restored).json();
    assert_eq!(told["verified"]["problemCount"], 0, "{told}");
}

#[test]
fn truncated_audit_log_moves_to_postgresql() {
    let Some(postgres) = ScratchDatabase::new() else {
        outcome::skip("PostgreSQL", "apt-get install postgresql");
        return;
    };
    let (home, _) = create_old_installation();
    let server = serve(&home);
    wait_until(PATIENCE, "events that are gone", || {
        let listed = server.api.get(&format!("{ORGANIZATION}/events?kind=events_removed")).json();
        (listed["data"] != json!([])).then_some(())
    });
    server.stop();
    let from = format!("sqlite:{}", path_text(&home.path()));
    let told = run(&["admin", "copy", "--json", "--from", &from, "--to", &postgres.url()]).json();
    assert_eq!(told["eventsVerified"], told["tables"]["events"], "{told}");
    let verified = run_admin(&["verify", "--database", &postgres.url()], &home.path());
    assert_eq!(verified.code, Some(0), "{verified:?}");
}
