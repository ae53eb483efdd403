//! Verification of the hash chain detects every change to stored events and reports its position.

use berth_core::event::{Actor, ActorType, Event, EventKind, EventSubject, NewEvent};
use berth_core::id::{TokenId, UserId};
use berth_core::time::Timestamp;
use berth_store::audit::{self, AuditFault, AuditHead, AuditVerdict, StoredCheck, export};
use berth_store::tables::event;
use berth_store::{StoreError, TxContext};
use berth_testkit::outcome;
use rusqlite::{Connection, params};
use serde_json::json;

use super::{StoreFixture, create_organization};

const EVENTS: i64 = 50;

/// An organization with [`EVENTS`] events of many kinds, interleaved with the events of another organization.
fn create_audit_log() -> (StoreFixture, Connection) {
    // The tests change rows directly in the database file.
    let fixture = StoreFixture::on_sqlite();
    let other = create_organization(&fixture.store, "globex");
    let at = Timestamp::from_micros(7);
    for number in 2..=EVENTS {
        let actor = Actor {
            kind: ActorType::User,
            id: Some(UserId::from_parts(at, [1; 10])),
            name: "Ada \"the first\"\n".into(),
            token: (number % 2 == 0).then(|| TokenId::from_parts(at, [2; 10])),
        };
        let request_id = (number % 3 == 0).then(|| format!("req-{number}"));
        let context = TxContext { org: Some(fixture.org), actor, request_id, access: None };
        let record = move |tx: &mut berth_store::Tx<'_>| {
            let subject =
                EventSubject::new("pipeline", format!("pl_{number}"), (number % 5 > 0).then_some("späti"));
            let event = NewEvent::new(EventKind::PipelineUpdated, subject);
            tx.record(event.with("z", number).with("a", json!({"y": [1, null], "b": "\u{1f}é"})))
        };
        fixture.store.transact_blocking::<_, StoreError>(context, record).unwrap();
        fixture.store.transact_blocking::<_, StoreError>(TxContext::system(Some(other)), record).unwrap();
    }
    let db = Connection::open(fixture.location.dir.path().join("berth.db")).unwrap();
    (fixture, db)
}

fn verify_chain(fixture: &StoreFixture, kept: Option<AuditHead>) -> AuditVerdict {
    fixture
        .transact(move |tx| {
            let mut check = StoredCheck::begin(tx, kept)?;
            while check.verify_page(tx)? {}
            Ok(check.finish())
        })
        .unwrap()
}

fn find_fault(fixture: &StoreFixture, kept: Option<&AuditHead>) -> (i64, AuditFault) {
    let problem = verify_chain(fixture, kept.cloned()).problem.expect("a problem");
    (problem.sequence, problem.reason)
}

fn chain_head(fixture: &StoreFixture) -> AuditHead {
    fixture.transact(|tx| event::chain_head(tx)).unwrap()
}

fn list_events(fixture: &StoreFixture) -> Vec<Event> {
    fixture.transact(|tx| event::list_after(tx, 0, i64::MAX, 1_000)).unwrap()
}

/// Runs a statement on the organization's rows, as an attacker could.
fn tamper(fixture: &StoreFixture, db: &Connection, text: &str, sequence: i64) -> usize {
    db.execute(text, params![fixture.org.to_string(), sequence]).unwrap()
}

/// Restores all event tables from the snapshot.
fn restore_snapshot(db: &Connection) {
    db.execute_batch(
        "DELETE FROM events; INSERT INTO events SELECT * FROM kept; DELETE FROM event_heads;
         INSERT INTO event_heads SELECT * FROM kept_heads;",
    )
    .unwrap();
}

fn save_snapshot(db: &Connection) {
    db.execute_batch(
        "PRAGMA synchronous = OFF; CREATE TEMP TABLE kept AS SELECT * FROM events;
         CREATE TEMP TABLE kept_heads AS SELECT * FROM event_heads;",
    )
    .unwrap();
}

#[test]
fn chain_is_valid_against_every_earlier_head() {
    let (fixture, _) = create_audit_log();
    let end = chain_head(&fixture);
    let verdict = verify_chain(&fixture, Some(end.clone()));
    let (first, head_is_too_old) = (1, false);
    assert_eq!(verdict, AuditVerdict { checked: EVENTS, first, head: end, head_is_too_old, problem: None });
    assert_eq!(verify_chain(&fixture, Some(AuditHead::start())).problem, None);
    let mut before = audit::NO_HASH.to_owned();
    for event in list_events(&fixture) {
        assert_eq!(event.previous_hash, before);
        before.clone_from(&event.hash);
        assert_eq!(event.occurred_at, event.occurred_at.whole_millis());
        let then = AuditHead { sequence: event.sequence, hash: event.hash };
        assert_eq!(verify_chain(&fixture, Some(then)).problem, None);
    }
}

#[test]
fn seal_of_a_batch_equals_single_seals() {
    let (fixture, _) = create_audit_log();
    let recorded = list_events(&fixture);
    let mut unsealed = recorded.clone();
    for event in &mut unsealed {
        (event.sequence, event.hash, event.previous_hash) = (0, String::new(), String::new());
    }
    let (first, rest) = unsealed.split_at_mut(17);
    let middle = audit::seal_events(AuditHead::start(), first).unwrap();
    assert_eq!(audit::seal_events(middle, rest).unwrap(), chain_head(&fixture));
    assert_eq!(unsealed, recorded);
}

#[test]
fn chain_verification_finds_every_edited_field() {
    let (fixture, db) = create_audit_log();
    save_snapshot(&db);
    let edits = [
        "id = 'evt_0123456789abcdefghjkmnpqrs'",
        "id = 'x' || id",
        "kind = kind || 'x'",
        "occurred_at = occurred_at + 1000",
        "occurred_at = occurred_at + 1",
        "occurred_at = occurred_at - 999",
        "actor = replace(actor, 'name\":\"', 'name\":\"x')",
        "actor = replace(actor, '}', ',\"more\":1}')",
        "actor = ' ' || actor",
        "actor = '{}'",
        "actor = x'00'",
        "request_id = coalesce(request_id, '') || 'x'",
        "subjects = '[]'",
        "subjects = replace(subjects, '\"id\":\"', '\"id\":\"x')",
        "subjects = replace(subjects, '\":\"', '\": \"')",
        "data = '{\"z\":0.5}'",
        "data = replace(replace(data, '{', '{\"0\":0,'), ',}', '}')",
        "data = data || ' '",
        "data = 'null'",
        "previous_hash = replace(previous_hash, substr(previous_hash, 12, 1), 'g')",
        "hash = replace(hash, substr(hash, 12, 1), 'g')",
        "hash = upper(hash)",
        "hash = previous_hash",
    ];
    for edit in edits {
        for sequence in 1..=EVENTS {
            let text = format!("UPDATE events SET {edit} WHERE org_id = ?1 AND sequence = ?2");
            assert_eq!(tamper(&fixture, &db, &text, sequence), 1);
            assert_eq!(find_fault(&fixture, None), (sequence, AuditFault::Edited), "{edit} at {sequence}");
            let back = "REPLACE INTO events SELECT * FROM kept WHERE org_id = ?1 AND sequence = ?2";
            tamper(&fixture, &db, back, sequence);
        }
    }
    assert_eq!(verify_chain(&fixture, None).problem, None);
}

#[test]
fn chain_verification_finds_every_removal_insertion_and_swap() {
    let (fixture, db) = create_audit_log();
    save_snapshot(&db);
    let end = chain_head(&fixture);
    for sequence in 1..=EVENTS {
        tamper(&fixture, &db, "DELETE FROM events WHERE org_id = ?1 AND sequence = ?2", sequence);
        let reason = if sequence == EVENTS { AuditFault::Truncated } else { AuditFault::Missing };
        assert_eq!(find_fault(&fixture, None), (sequence, reason));
        restore_snapshot(&db);

        // Duplicates an event. To make room, the later events are renumbered, the last one first, because numbers are
        // unique.
        for moved in (sequence..=EVENTS).rev() {
            let text = "UPDATE events SET sequence = sequence + 1 WHERE org_id = ?1 AND sequence = ?2";
            tamper(&fixture, &db, text, moved);
        }
        let double =
            "INSERT INTO events SELECT org_id, sequence - 1, id || 'x', kind, occurred_at, actor, request_id,
            subjects, data, previous_hash, hash FROM events WHERE org_id = ?1 AND sequence = ?2 + 1";
        assert_eq!(tamper(&fixture, &db, double, sequence), 1);
        assert_eq!(find_fault(&fixture, None).0, sequence);
        restore_snapshot(&db);

        let other = (sequence * 7) % EVENTS + 1;
        if other != sequence {
            for (from, to) in [(sequence, -1), (other, sequence), (-1, other)] {
                let text = format!("UPDATE events SET sequence = {to} WHERE org_id = ?1 AND sequence = ?2");
                assert_eq!(tamper(&fixture, &db, &text, from), 1);
            }
            assert_eq!(find_fault(&fixture, None), (sequence.min(other), AuditFault::Edited));
            restore_snapshot(&db);
        }
    }
    for outside in [-3, 0, EVENTS + 1, EVENTS + 9] {
        let text = format!(
            "INSERT INTO events SELECT org_id, {outside}, 'evt_0123456789abcdefghjkmnpqrs', kind, occurred_at, actor,
             request_id, subjects, data, previous_hash, hash FROM events WHERE org_id = ?1 AND sequence = ?2"
        );
        tamper(&fixture, &db, &text, 3);
        let place = if outside < 1 { 1 } else { EVENTS + 1 };
        assert_eq!(find_fault(&fixture, Some(&end)).0, place);
        restore_snapshot(&db);
    }
}

#[test]
fn chain_verification_finds_truncation() {
    let (fixture, db) = create_audit_log();
    save_snapshot(&db);
    let end = chain_head(&fixture);
    let hashes: Vec<_> = list_events(&fixture).into_iter().map(|event| event.hash).collect();
    for last in 0..EVENTS {
        tamper(&fixture, &db, "DELETE FROM events WHERE org_id = ?1 AND sequence > ?2", last);
        assert_eq!(find_fault(&fixture, None), (last + 1, AuditFault::Truncated));
        let hash =
            usize::try_from(last).unwrap().checked_sub(1).map_or(audit::NO_HASH, |place| &hashes[place]);
        let text = format!("UPDATE event_heads SET sequence = ?2, hash = '{hash}' WHERE org_id = ?1");
        tamper(&fixture, &db, &text, last);
        assert_eq!(verify_chain(&fixture, None).problem, None, "a truncated chain is consistent");
        assert_eq!(find_fault(&fixture, Some(&end)), (last + 1, AuditFault::Truncated));
        restore_snapshot(&db);
    }
    let edits = [
        ("sequence = sequence - ?2", AuditFault::Unexpected),
        ("hash = hash || ?2", AuditFault::HeadDiffers),
    ];
    for (edit, reason) in edits {
        tamper(&fixture, &db, &format!("UPDATE event_heads SET {edit} WHERE org_id = ?1"), 1);
        assert_eq!(find_fault(&fixture, None), (EVENTS, reason));
        restore_snapshot(&db);
    }
    db.execute("DELETE FROM event_heads", []).unwrap();
    assert_eq!(find_fault(&fixture, None), (1, AuditFault::Unexpected));
}

#[test]
fn rewritten_chain_differs_from_a_kept_head() {
    let (fixture, db) = create_audit_log();
    let end = chain_head(&fixture);
    let early = AuditHead { sequence: 20, hash: list_events(&fixture)[19].hash.clone() };
    let mut rewritten = list_events(&fixture);
    rewritten[9].kind = "pipeline_resumed".into();
    let new_end = audit::seal_events(AuditHead::start(), &mut rewritten).unwrap();
    for event in &rewritten {
        let text =
            "UPDATE events SET kind = ?3, previous_hash = ?4, hash = ?5 WHERE org_id = ?1 AND sequence = ?2";
        let values =
            params![event.org.to_string(), event.sequence, event.kind, event.previous_hash, event.hash];
        db.execute(text, values).unwrap();
    }
    db.execute(
        "UPDATE event_heads SET hash = ?2 WHERE org_id = ?1",
        params![fixture.org.to_string(), new_end.hash],
    )
    .unwrap();
    assert_eq!(verify_chain(&fixture, None).problem, None, "a rewritten chain is consistent");
    assert_eq!(find_fault(&fixture, Some(&end)), (EVENTS, AuditFault::HeadDiffers));
    assert_eq!(find_fault(&fixture, Some(&early)), (20, AuditFault::HeadDiffers));
}

fn export_lines(fixture: &StoreFixture) -> Vec<String> {
    let mut lines: Vec<_> =
        list_events(fixture).iter().map(|event| audit::canonical_line(event).unwrap()).collect();
    lines.push(export::head_line(fixture.org, &chain_head(fixture)).unwrap());
    lines
}

fn verify_lines(lines: &[String]) -> (i64, AuditFault, u64) {
    let checked = export::verify_export((lines.join("\n") + "\n").as_bytes(), None).unwrap();
    let problem = checked.verdict.problem.expect("a problem");
    (problem.sequence, problem.reason, checked.line.unwrap())
}

#[test]
fn export_verification_finds_the_changed_line() {
    let (fixture, _) = create_audit_log();
    let lines = export_lines(&fixture);
    let whole = export::verify_export(lines.join("\n").as_bytes(), Some(chain_head(&fixture))).unwrap();
    assert_eq!((whole.verdict.checked, whole.verdict.problem), (EVENTS, None));
    assert_eq!(whole.organization, Some(fixture.org.to_string()));
    for place in 0..lines.len() - 1 {
        let (sequence, line) = (i64::try_from(place).unwrap() + 1, u64::try_from(place).unwrap() + 1);
        let mut fewer = lines.clone();
        fewer.remove(place);
        let reason = if sequence == EVENTS { AuditFault::Truncated } else { AuditFault::Missing };
        assert_eq!(verify_lines(&fewer), (sequence, reason, line));

        let mut more = lines.clone();
        more.insert(place, lines[place].clone());
        assert_eq!(verify_lines(&more), (sequence + 1, AuditFault::Unexpected, line + 1));

        if sequence < EVENTS {
            let mut swapped = lines.clone();
            swapped.swap(place, place + 1);
            assert_eq!(verify_lines(&swapped), (sequence, AuditFault::Unexpected, line));
        }
        assert_eq!(verify_lines(&lines[..=place]), (sequence + 1, AuditFault::Truncated, line));
    }
    let mut behind = lines.clone();
    behind.push(lines[0].clone());
    assert_eq!(verify_lines(&behind), (EVENTS + 1, AuditFault::Unexpected, 52));
}

#[test]
fn export_verification_finds_every_changed_byte() {
    let (fixture, _) = create_audit_log();
    let lines = export_lines(&fixture);
    // An export of the first four events, with the fourth as its head.
    let four: Vec<_> = list_events(&fixture).into_iter().take(4).collect();
    let end = AuditHead { sequence: 4, hash: four[3].hash.clone() };
    let text = lines[..4].join("\n") + "\n" + &export::head_line(fixture.org, &end).unwrap() + "\n";
    assert_eq!(export::verify_export(text.as_bytes(), None).unwrap().verdict.problem, None);
    let mut bytes = text.clone().into_bytes();
    let every = outcome::short_or_long(3, 1);
    outcome::report_coverage(&format!("changes of one in {every} bytes of an exported audit log"));
    for place in (0..bytes.len()).step_by(every) {
        let was = bytes[place];
        let near = [was ^ 1, was ^ 0x20, was.wrapping_add(1)];
        for other in near.into_iter().chain(*b" \n\t\r0aA\"\\{}[],:\0\xff").filter(|other| *other != was) {
            bytes[place] = other;
            let line =
                u64::try_from(text.as_bytes()[..place].iter().filter(|byte| **byte == b'\n').count() + 1)
                    .unwrap();
            match export::verify_export(bytes.as_slice(), None) {
                Err(_) => assert_eq!(line, 1, "only a wrong first line makes it another file"),
                Ok(checked) => {
                    assert!(checked.verdict.problem.is_some(), "byte {place} as {other:#x} is not found");
                    // The reported line may be off by one, because the change may join two lines or remove the end of
                    // the last one.
                    assert!(
                        checked.line.unwrap().abs_diff(line) <= 1,
                        "byte {place} as {other:#x}: {checked:?}"
                    );
                }
            }
        }
        bytes[place] = was;
    }
}

#[test]
fn export_verification_refuses_other_files() {
    for other in ["", "\n", "hello\n", "{}\n", "[1]\n", "{\"sequence\": 1}\n", "\u{feff}{}", "\0\0\0"] {
        let refused = export::verify_export(other.as_bytes(), None).unwrap_err();
        assert!(refused.to_string().contains("not an export"), "{other:?}: {refused}");
    }
}
