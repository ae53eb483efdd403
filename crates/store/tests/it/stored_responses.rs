//! The outbox, and the stored responses of idempotent requests.

use std::process::Command;

use berth_core::decision::OutboxEffect;
use berth_core::event::{EventKind, EventSubject, NewEvent};
use berth_store::idempotency::{self, IDEMPOTENCY_KEPT_S, IdempotencyKey, KeyLookup, StoredResponse};
use berth_store::{StoreError, Tx, outbox};
use rusqlite::Connection;

use super::{DatabaseLocation, StoreFixture};

#[test]
fn outbox_keeps_an_effect_until_it_is_done() {
    let fixture = StoreFixture::new();
    fixture
        .transact(|tx| {
            tx.record(NewEvent::new(EventKind::AccessDenied, EventSubject::new("user", "x", None)))?;
            tx.enqueue(&OutboxEffect { kind: "ping".into(), payload: serde_json::json!({"n": 1}) })
        })
        .unwrap();
    let fixture = fixture.reopen();
    let due = fixture.transact(|tx| outbox::fetch_due(tx, "ping")).unwrap();
    assert_eq!((due.len(), due[0].attempts, &due[0].payload["n"]), (1, 0, &serde_json::json!(1)));
    assert!(fixture.transact(|tx| outbox::fetch_due(tx, "other")).unwrap().is_empty());

    let id = due[0].id;
    fixture.transact(move |tx| outbox::schedule_retry(tx, id, tx.now().plus_seconds(60))).unwrap();
    assert!(fixture.transact(|tx| outbox::fetch_due(tx, "ping")).unwrap().is_empty());
    fixture.transact(move |tx| outbox::schedule_retry(tx, id, tx.now())).unwrap();
    assert_eq!(fixture.transact(|tx| outbox::fetch_due(tx, "ping")).unwrap()[0].attempts, 2);
    fixture.transact(move |tx| outbox::delete_effect(tx, id)).unwrap();
    assert!(fixture.transact(|tx| outbox::fetch_due(tx, "ping")).unwrap().is_empty());
}

#[test]
fn stored_response_is_found_by_caller_operation_and_key() {
    let fixture = StoreFixture::new();
    let key = IdempotencyKey::new("tok_a", "POST /x", "k", vec![1]);
    let answer =
        StoredResponse { status: 201, headers: vec![("location".into(), "/x/1".into())], body: "{}".into() };
    let (stored, kept) = (key.clone(), answer.clone());
    fixture.transact(move |tx| idempotency::store_response(tx, &stored, &kept)).unwrap();
    let find = |key: IdempotencyKey| fixture.transact(move |tx| idempotency::find(tx, &key)).unwrap();
    assert_eq!(find(key.clone()), KeyLookup::Same(answer));
    assert_eq!(find(IdempotencyKey::new("tok_a", "POST /x", "k", vec![2])), KeyLookup::Different);
    assert_eq!(find(IdempotencyKey::new("tok_b", "POST /x", "k", vec![1])), KeyLookup::None);
    assert_eq!(find(IdempotencyKey::new("tok_a", "POST /y", "k", vec![1])), KeyLookup::None);

    let early = fixture.transact(|tx| idempotency::delete_expired(tx, tx.now())).unwrap();
    let late =
        fixture.transact(|tx| idempotency::delete_expired(tx, tx.now().plus_seconds(IDEMPOTENCY_KEPT_S + 1)));
    assert_eq!((early, late.unwrap()), (0, 1));
    assert_eq!(find(key), KeyLookup::None);
}

fn numbered_key(number: usize) -> IdempotencyKey {
    IdempotencyKey::new("tok_a", "POST /x", &format!("k{number}"), vec![1])
}

/// Stores all responses in a single commit. Every third transaction is rolled back.
fn store_in_one_commit(fixture: &StoreFixture, numbers: std::ops::Range<usize>) {
    fixture.run_in_one_commit(numbers.len(), |index| {
        let number = numbers.start + index;
        let work = move |tx: &mut Tx<'_>| {
            let answer = StoredResponse { status: 200, headers: Vec::new(), body: number.to_string() };
            idempotency::store_response(tx, &numbered_key(number), &answer)?;
            if number % 3 == 2 { Err(StoreError::Unavailable("no".into())) } else { Ok(()) }
        };
        assert_eq!(fixture.transact(work).is_err(), number % 3 == 2);
    });
}

fn check_stored(fixture: &StoreFixture, count: usize) {
    let found = fixture
        .transact(move |tx| (0..count).map(|number| idempotency::find(tx, &numbered_key(number))).collect());
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
fn open_crashed_copy(fixture: &StoreFixture) -> StoreFixture {
    let place = DatabaseLocation { dir: tempfile::tempdir().unwrap(), postgres: None };
    for file in ["berth.db", "berth.db-wal"] {
        // Copies the file in another process, because closing the file in this process would release SQLite's POSIX
        // locks.
        let copied =
            Command::new("cp").arg(fixture.location.dir.path().join(file)).arg(place.dir.path()).status();
        assert!(copied.unwrap().success());
    }
    StoreFixture { store: place.open(), org: fixture.org, location: place }
}

#[test]
fn stored_responses_of_concurrent_requests_survive_a_crash() {
    let fixture = StoreFixture::on_sqlite();
    store_in_one_commit(&fixture, 0..90);
    check_stored(&fixture, 90);
    store_in_one_commit(&fixture, 90..180);
    check_stored(&open_crashed_copy(&fixture), 180);
    check_stored(&fixture.reopen(), 180);
}

#[test]
fn stored_response_is_replaced_only_after_it_expired() {
    let fixture = StoreFixture::on_sqlite();
    store_in_one_commit(&fixture, 0..1);
    let again = |fixture: &StoreFixture| {
        let answer = StoredResponse { status: 200, headers: Vec::new(), body: "again".into() };
        fixture.transact(move |tx| idempotency::store_response(tx, &numbered_key(0), &answer))
    };
    assert!(again(&fixture).unwrap_err().to_string().contains("changed 0 rows"));
    let db = Connection::open(fixture.location.dir.path().join("berth.db")).unwrap();
    let expire =
        format!("UPDATE stored_responses SET created_at = created_at - {}", IDEMPOTENCY_KEPT_S * 1_000_000);
    db.execute_batch(&expire).unwrap();
    let find =
        |fixture: &StoreFixture| fixture.transact(|tx| idempotency::find(tx, &numbered_key(0))).unwrap();
    assert_eq!(find(&fixture), KeyLookup::None);
    again(&fixture).unwrap();
    assert!(matches!(find(&fixture), KeyLookup::Same(answer) if answer.body == "again"));
}

#[test]
fn stored_response_survives_a_clock_step_back() {
    let fixture = StoreFixture::on_sqlite();
    store_in_one_commit(&fixture, 0..9);
    check_stored(&fixture, 9);
    let StoreFixture { store, org, location: place } = fixture;
    drop(store);
    let db = Connection::open(place.dir.path().join("berth.db")).unwrap();
    db.execute_batch("UPDATE stored_responses SET created_at = created_at + 3600000000").unwrap();
    let fixture = StoreFixture { store: place.open(), org, location: place };
    check_stored(&fixture, 9);
    store_in_one_commit(&fixture, 9..30);
    check_stored(&open_crashed_copy(&fixture), 30);
}
