//! The outbox keeps effects until they are done; stored answers are found by their whole key, for a while.

use berth_core::decision::Effect;
use berth_core::event::{EventKind, NewEvent, Subject};
use berth_store::idempotency::{self, Earlier, IDEMPOTENCY_KEPT_S, OnceKey, StoredAnswer};
use berth_store::outbox;

use super::Ground;

#[test]
fn an_effect_waits_until_it_is_done() {
    let ground = Ground::new();
    ground
        .transact(|tx| {
            tx.record(NewEvent::new(EventKind::AccessDenied, Subject::new("user", "x", None)))?;
            tx.enqueue(&Effect { kind: "ping".into(), payload: serde_json::json!({"n": 1}) })
        })
        .unwrap();
    let ground = ground.reopened();
    let due = ground.transact(|tx| outbox::due(tx, "ping")).unwrap();
    assert_eq!((due.len(), due[0].attempts, &due[0].payload["n"]), (1, 0, &serde_json::json!(1)));
    assert!(ground.transact(|tx| outbox::due(tx, "other")).unwrap().is_empty());

    let id = due[0].id;
    ground.transact(move |tx| outbox::later(tx, id, tx.now().plus_seconds(60))).unwrap();
    assert!(ground.transact(|tx| outbox::due(tx, "ping")).unwrap().is_empty());
    ground.transact(move |tx| outbox::later(tx, id, tx.now())).unwrap();
    assert_eq!(ground.transact(|tx| outbox::due(tx, "ping")).unwrap()[0].attempts, 2);
    ground.transact(move |tx| outbox::done(tx, id)).unwrap();
    assert!(ground.transact(|tx| outbox::due(tx, "ping")).unwrap().is_empty());
}

#[test]
fn an_answer_is_found_by_caller_operation_and_key() {
    let ground = Ground::new();
    let key = OnceKey {
        caller: "tok_a".into(),
        operation: "POST /x".into(),
        key: "k".into(),
        request_hash: vec![1],
    };
    let answer =
        StoredAnswer { status: 201, headers: vec![("location".into(), "/x/1".into())], body: "{}".into() };
    let (stored, kept) = (key.clone(), answer.clone());
    ground.transact(move |tx| idempotency::remember(tx, &stored, &kept)).unwrap();
    let find = |key: OnceKey| ground.transact(move |tx| idempotency::find(tx, &key)).unwrap();
    assert_eq!(find(key.clone()), Earlier::Same(answer));
    assert_eq!(find(OnceKey { request_hash: vec![2], ..key.clone() }), Earlier::Different);
    assert_eq!(find(OnceKey { caller: "tok_b".into(), ..key.clone() }), Earlier::None);
    assert_eq!(find(OnceKey { operation: "POST /y".into(), ..key.clone() }), Earlier::None);

    let early = ground.transact(|tx| idempotency::forget(tx, tx.now())).unwrap();
    let late = ground.transact(|tx| idempotency::forget(tx, tx.now().plus_seconds(IDEMPOTENCY_KEPT_S + 1)));
    assert_eq!((early, late.unwrap()), (0, 1));
    assert_eq!(find(key), Earlier::None);
}
