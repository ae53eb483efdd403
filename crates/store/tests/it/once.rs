//! The outbox, and the stored responses of idempotent requests.

use std::process::Command;

use berth_core::decision::OutboxEffect;
use berth_core::event::{EventKind, EventSubject, NewEvent};
use berth_store::idempotency::{self, IDEMPOTENCY_KEPT_S, IdempotencyKey, KeyLookup, StoredResponse};
use berth_store::{StoreError, Tx, outbox};
use rusqlite::Connection;

use super::{Ground, Place};

#[test]
fn outbox_keeps_an_effect_until_it_is_done() {
    let ground = Ground::new();
    ground
        .transact(|tx| {
            tx.record(NewEvent::new(EventKind::AccessDenied, EventSubject::new("user", "x", None)))?;
            tx.enqueue(&OutboxEffect { kind: "ping".into(), payload: serde_json::json!({"n": 1}) })
        })
        .unwrap();
    let ground = ground.reopened();
    let due = ground.transact(|tx| outbox::fetch_due(tx, "ping")).unwrap();
    assert_eq!((due.len(), due[0].attempts, &due[0].payload["n"]), (1, 0, &serde_json::json!(1)));
    assert!(ground.transact(|tx| outbox::fetch_due(tx, "other")).unwrap().is_empty());

    let id = due[0].id;
    ground.transact(move |tx| outbox::schedule_retry(tx, id, tx.now().plus_seconds(60))).unwrap();
    assert!(ground.transact(|tx| outbox::fetch_due(tx, "ping")).unwrap().is_empty());
    ground.transact(move |tx| outbox::schedule_retry(tx, id, tx.now())).unwrap();
    assert_eq!(ground.transact(|tx| outbox::fetch_due(tx, "ping")).unwrap()[0].attempts, 2);
    ground.transact(move |tx| outbox::delete_effect(tx, id)).unwrap();
    assert!(ground.transact(|tx| outbox::fetch_due(tx, "ping")).unwrap().is_empty());
}

#[test]
fn stored_response_is_found_by_caller_operation_and_key() {
    let ground = Ground::new();
    let key = IdempotencyKey::new("tok_a", "POST /x", "k", vec![1]);
    let answer =
        StoredResponse { status: 201, headers: vec![("location".into(), "/x/1".into())], body: "{}".into() };
    let (stored, kept) = (key.clone(), answer.clone());
    ground.transact(move |tx| idempotency::store_response(tx, &stored, &kept)).unwrap();
    let find = |key: IdempotencyKey| ground.transact(move |tx| idempotency::find(tx, &key)).unwrap();
    assert_eq!(find(key.clone()), KeyLookup::Same(answer));
    assert_eq!(find(IdempotencyKey::new("tok_a", "POST /x", "k", vec![2])), KeyLookup::Different);
    assert_eq!(find(IdempotencyKey::new("tok_b", "POST /x", "k", vec![1])), KeyLookup::None);
    assert_eq!(find(IdempotencyKey::new("tok_a", "POST /y", "k", vec![1])), KeyLookup::None);

    let early = ground.transact(|tx| idempotency::delete_expired(tx, tx.now())).unwrap();
    let late =
        ground.transact(|tx| idempotency::delete_expired(tx, tx.now().plus_seconds(IDEMPOTENCY_KEPT_S + 1)));
    assert_eq!((early, late.unwrap()), (0, 1));
    assert_eq!(find(key), KeyLookup::None);
}

fn numbered(number: usize) -> IdempotencyKey {
    IdempotencyKey::new("tok_a", "POST /x", &format!("k{number}"), vec![1])
}

/// Stores all responses in a single commit. Every third transaction is rolled back.
fn remember_at_once(ground: &Ground, numbers: std::ops::Range<usize>) {
    ground.at_once(numbers.len(), |index| {
        let number = numbers.start + index;
        let work = move |tx: &mut Tx<'_>| {
            let answer = StoredResponse { status: 200, headers: Vec::new(), body: number.to_string() };
            idempotency::store_response(tx, &numbered(number), &answer)?;
            if number % 3 == 2 { Err(StoreError::Unavailable("no".into())) } else { Ok(()) }
        };
        assert_eq!(ground.transact(work).is_err(), number % 3 == 2);
    });
}

fn check_remembered(ground: &Ground, count: usize) {
    let found = ground
        .transact(move |tx| (0..count).map(|number| idempotency::find(tx, &numbered(number))).collect());
    let found: Vec<KeyLookup> = found.unwrap();
    for (number, earlier) in found.into_iter().enumerate() {
        match earlier {
            KeyLookup::Same(answer) if number % 3 != 2 => assert_eq!(answer.body, number.to_string()),
            KeyLookup::None if number % 3 == 2 => {}
            other => panic!("{number}: {other:?}"),
        }
    }
}

/// Simulates a crash: copies the database file and its WAL while the store is open, and opens the copy.
fn crashed(ground: &Ground) -> Ground {
    let place = Place { dir: tempfile::tempdir().unwrap(), postgres: None };
    for file in ["berth.db", "berth.db-wal"] {
        // Copies the file in another process, because closing the file in this process would release SQLite's POSIX
        // locks.
        let copied =
            Command::new("cp").arg(ground.place.dir.path().join(file)).arg(place.dir.path()).status();
        assert!(copied.unwrap().success());
    }
    Ground { store: place.open(), org: ground.org, place }
}

#[test]
fn stored_responses_of_concurrent_requests_survive_a_crash() {
    let ground = Ground::in_a_file();
    remember_at_once(&ground, 0..90);
    check_remembered(&ground, 90);
    remember_at_once(&ground, 90..180);
    check_remembered(&crashed(&ground), 180);
    check_remembered(&ground.reopened(), 180);
}

#[test]
fn stored_response_is_replaced_only_after_it_expired() {
    let ground = Ground::in_a_file();
    remember_at_once(&ground, 0..1);
    let again = |ground: &Ground| {
        let answer = StoredResponse { status: 200, headers: Vec::new(), body: "again".into() };
        ground.transact(move |tx| idempotency::store_response(tx, &numbered(0), &answer))
    };
    assert!(again(&ground).unwrap_err().to_string().contains("changed 0 rows"));
    let db = Connection::open(ground.place.dir.path().join("berth.db")).unwrap();
    let expire =
        format!("UPDATE stored_responses SET created_at = created_at - {}", IDEMPOTENCY_KEPT_S * 1_000_000);
    db.execute_batch(&expire).unwrap();
    let find = |ground: &Ground| ground.transact(|tx| idempotency::find(tx, &numbered(0))).unwrap();
    assert_eq!(find(&ground), KeyLookup::None);
    again(&ground).unwrap();
    assert!(matches!(find(&ground), KeyLookup::Same(answer) if answer.body == "again"));
}

#[test]
fn stored_response_survives_a_clock_step_back() {
    let ground = Ground::in_a_file();
    remember_at_once(&ground, 0..9);
    check_remembered(&ground, 9);
    let Ground { store, org, place } = ground;
    drop(store);
    let db = Connection::open(place.dir.path().join("berth.db")).unwrap();
    db.execute_batch("UPDATE stored_responses SET created_at = created_at + 3600000000").unwrap();
    let ground = Ground { store: place.open(), org, place };
    check_remembered(&ground, 9);
    remember_at_once(&ground, 9..30);
    check_remembered(&crashed(&ground), 30);
}
