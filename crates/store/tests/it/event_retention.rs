//! Retention removes the oldest events. The remaining ones form a valid chain, and a removal that was not announced is
//! detected.

use berth_core::event::{Event, EventKind, EventSubject, NewEvent};
use berth_core::id::{EventId, WebhookId};
use berth_core::name::Slug;
use berth_core::time::Timestamp;
use berth_core::webhook::{EventKindFilter, PayloadFormat, Webhook, WebhookState};
use berth_store::audit::{self, AuditFault, AuditHead, AuditVerdict, StoredCheck, export};
use berth_store::pagination::PageStart;
use berth_store::tables::event::{self, EventFilter};
use berth_store::tables::event_retention::{announce_removal, find_due, remove_batch};
use berth_store::tables::webhook;
use berth_store::{StoreError, Tx};
use rusqlite::{Connection, params};

use super::StoreFixture;

/// Number of old events, more than one transaction removes. They are numbered from 2, because the organization already
/// has one event.
const OLD: i64 = 700;
const YOUNG: i64 = 300;
/// Number of the last old event.
const THROUGH: i64 = OLD + 1;
const DAYS: i64 = 30;

fn record_events(fixture: &StoreFixture, count: i64) {
    let work = move |tx: &mut Tx<'_>| {
        for number in 0..count {
            let subject = EventSubject::new("pipeline", format!("p{}", number % 2), None);
            tx.record(NewEvent::new(EventKind::PipelineUpdated, subject))?;
        }
        Ok(())
    };
    fixture.transact(work).unwrap();
}

/// Returns the current time and waits until the clock has advanced, so that later events are newer.
fn now_then_advance(fixture: &StoreFixture) -> Timestamp {
    let look = || fixture.transact(|tx| Ok(tx.now().whole_millis())).unwrap();
    let now = look();
    while look() == now {}
    now
}

/// Records [`OLD`] events before the returned time, and [`YOUNG`] events after it.
fn record_old_and_young(fixture: &StoreFixture) -> Timestamp {
    record_events(fixture, OLD);
    let between = now_then_advance(fixture);
    record_events(fixture, YOUNG);
    between
}

fn find_due_event(fixture: &StoreFixture, before: Timestamp) -> Option<i64> {
    fixture.transact(move |tx| find_due(tx, before, before)).unwrap()
}

/// Runs one retention pass and returns the sizes of its batches.
fn run_retention(fixture: &StoreFixture, through: i64) -> Result<Vec<usize>, StoreError> {
    let (announced, first) = fixture.transact(move |tx| {
        let announced = announce_removal(tx, through, DAYS)?;
        Ok((announced, remove_batch(tx, announced)?))
    })?;
    let mut removed = vec![first];
    while removed.last() != Some(&0) {
        removed.push(fixture.transact(move |tx| remove_batch(tx, announced))?);
    }
    Ok(removed)
}

fn verify_chain(fixture: &StoreFixture, kept: Option<AuditHead>) -> AuditVerdict {
    let whole = fixture.transact(move |tx| {
        let mut check = StoredCheck::begin(tx, kept)?;
        while check.verify_page(tx)? {}
        Ok(check.finish())
    });
    whole.unwrap()
}

fn find_fault(fixture: &StoreFixture, kept: Option<AuditHead>) -> (i64, AuditFault) {
    let problem = verify_chain(fixture, kept).problem.expect("a problem");
    (problem.sequence, problem.reason)
}

fn list_events(fixture: &StoreFixture) -> Vec<Event> {
    fixture.transact(|tx| event::list_after(tx, 0, i64::MAX, i64::MAX)).unwrap()
}

fn head_of(event: &Event) -> AuditHead {
    AuditHead { sequence: event.sequence, hash: event.hash.clone() }
}

/// The event numbers on one page of the list, and the total.
fn list_page(
    fixture: &StoreFixture,
    filter: EventFilter,
    offset: i64,
    limit: i64,
) -> (Vec<i64>, Option<i64>) {
    let listed =
        fixture.transact(move |tx| event::list(tx, &filter, &PageStart::Offset(offset), limit, true));
    let page = listed.unwrap();
    (page.items.iter().map(|event| event.sequence).collect(), page.total)
}

#[test]
fn event_retention_leaves_a_valid_chain_and_exact_totals() {
    let fixture = StoreFixture::new();
    let between = record_old_and_young(&fixture);
    let before = list_events(&fixture);
    let long_ago = Timestamp::from_micros(between.as_micros() - 1_000_000_000);
    let overdue = fixture.transact(move |tx| find_due(tx, between, long_ago)).unwrap();
    assert_eq!(overdue, None, "the oldest event is not overdue");
    assert_eq!(find_due_event(&fixture, between), Some(THROUGH));
    assert_eq!(run_retention(&fixture, THROUGH).unwrap(), [500, 201, 0]);
    assert_eq!(find_due_event(&fixture, between), None, "the other events are young");

    let last = i64::try_from(before.len()).unwrap() + 1;
    let after = list_events(&fixture);
    assert_eq!(after[..after.len() - 1], before[OLD as usize + 1..]);
    let told = after.last().unwrap();
    let facts = (told.kind.as_str(), &told.data["from"], &told.data["through"], &told.data["days"]);
    assert_eq!(facts, ("events_removed", &1.into(), &THROUGH.into(), &DAYS.into()));
    let end = &before[OLD as usize];
    assert_eq!(told.data["hash"], end.hash);

    let whole = verify_chain(&fixture, Some(head_of(told)));
    let (first, checked) = (THROUGH + 1, last - THROUGH);
    assert_eq!(
        whole,
        AuditVerdict { checked, first, head: head_of(told), head_is_too_old: false, problem: None }
    );
    assert!(!verify_chain(&fixture, Some(head_of(end))).head_is_too_old);
    assert_eq!(verify_chain(&fixture, Some(head_of(end))).problem, None);
    let other = AuditHead { hash: told.hash.clone(), ..head_of(end) };
    assert_eq!(find_fault(&fixture, Some(other)), (THROUGH, AuditFault::HeadDiffers));
    let older = verify_chain(&fixture, Some(head_of(&before[4])));
    assert_eq!((older.head_is_too_old, older.problem), (true, None));

    assert_eq!(list_page(&fixture, EventFilter::default(), 0, 2), (vec![last, last - 1], Some(checked)));
    assert_eq!(list_page(&fixture, EventFilter::default(), checked - 1, 9), (vec![first], Some(checked)));
    assert_eq!(list_page(&fixture, EventFilter::default(), checked, 9).0, [0; 0]);
    let about = EventFilter { pipeline: Some("p0".into()), ..EventFilter::default() };
    assert_eq!(list_page(&fixture, about.clone(), YOUNG / 2 - 1, 9).0, [first]);
    assert_eq!(list_page(&fixture, about, YOUNG / 2, 9).0, [0; 0]);

    // Retention also works after a restart. The second pass may remove the event that announced the first pass.
    let fixture = fixture.reopen();
    record_events(&fixture, YOUNG);
    assert_eq!(verify_chain(&fixture, Some(head_of(told))).problem, None);
    let through = find_due_event(&fixture, now_then_advance(&fixture)).unwrap();
    assert!(through > told.sequence);
    run_retention(&fixture, through).unwrap();
    let again = verify_chain(&fixture, None);
    assert_eq!((again.first, again.problem), (through + 1, None));
}

#[test]
fn event_retention_keeps_events_that_a_webhook_has_not_read() {
    let fixture = StoreFixture::new();
    let made = fixture.transact(|tx| {
        let made = Webhook {
            id: WebhookId::from_parts(tx.now(), tx.entropy()?),
            name: Slug::parse("ops").unwrap(),
            url: "https://hooks.acme.test/".into(),
            kinds: EventKindFilter::parse(&["*".to_owned()]).unwrap(),
            format: PayloadFormat::Standard,
            state: WebhookState::Active,
            version: 1,
            created_at: tx.now(),
            updated_at: tx.now(),
        };
        webhook::put(tx, &made)?;
        webhook::move_cursor_to_end(tx, made.id)?;
        tx.record(NewEvent::new(EventKind::WebhookCreated, EventSubject::new("webhook", made.id, None)))?;
        Ok(made)
    });
    let made = made.unwrap();
    let between = record_old_and_young(&fixture);
    assert_eq!(find_due_event(&fixture, between), Some(1), "the webhook has read no further");
    let id = made.id;
    assert!(fixture.transact(move |tx| webhook::move_cursor(tx, id, 1, 40, 0)).unwrap());
    assert_eq!(find_due_event(&fixture, between), Some(40));
    run_retention(&fixture, 40).unwrap();
    assert_eq!(find_due_event(&fixture, between), None);
    assert_eq!(list_events(&fixture)[0].sequence, 41);
    let off = Webhook { state: WebhookState::Inactive { since: between, why: None }, version: 2, ..made };
    let switched = fixture.transact(move |tx| {
        webhook::put(tx, &off)?;
        tx.record(NewEvent::new(EventKind::WebhookUpdated, EventSubject::new("webhook", off.id, None)))
    });
    switched.unwrap();
    assert_eq!(
        find_due_event(&fixture, between),
        Some(THROUGH + 1),
        "an inactive webhook does not hold events back"
    );
}

#[test]
fn event_retention_keeps_the_newest_event() {
    let fixture = StoreFixture::new();
    record_events(&fixture, 100);
    assert_eq!(find_due_event(&fixture, now_then_advance(&fixture)), Some(100), "of 101");
}

#[test]
fn chain_verification_tolerates_concurrent_retention() {
    let fixture = StoreFixture::new();
    let between = record_old_and_young(&fixture);
    let mut check = fixture.transact(|tx| StoredCheck::begin(tx, None)).unwrap();
    run_retention(&fixture, find_due_event(&fixture, between).unwrap()).unwrap();
    let verdict = fixture.transact(move |tx| {
        while check.verify_page(tx)? {}
        Ok(check.finish())
    });
    let verdict = verdict.unwrap();
    assert_eq!((verdict.first, verdict.problem), (THROUGH + 1, None));
}

/// An audit log after one retention pass, and a connection to its database file.
fn create_truncated_log() -> (StoreFixture, Connection) {
    let fixture = StoreFixture::on_sqlite();
    record_old_and_young(&fixture);
    run_retention(&fixture, THROUGH).unwrap();
    let db = Connection::open(fixture.location.dir.path().join("berth.db")).unwrap();
    (fixture, db)
}

#[test]
fn chain_verification_finds_changes_after_retention() {
    let first = THROUGH + 1;
    let next_hash = "(SELECT hash FROM events WHERE sequence = kept_after + 1)";
    let moved = format!("UPDATE event_heads SET kept_hash = {next_hash}, kept_after = kept_after + 1");
    let cases = [
        ("UPDATE events SET kind = kind || 'x' WHERE sequence = 800", 800, AuditFault::Edited),
        ("DELETE FROM events WHERE sequence = 800", 800, AuditFault::Missing),
        ("DELETE FROM events WHERE sequence = 702", first, AuditFault::Missing),
        ("UPDATE event_heads SET kept_hash = replace(kept_hash, 'sha256:', 'sha256:x')", first, AuditFault::Unexpected),
        ("UPDATE event_heads SET kept_hash = hash", first, AuditFault::Unexpected),
        ("UPDATE event_heads SET kept_after = kept_after - 1", THROUGH, AuditFault::Missing),
        ("UPDATE event_heads SET kept_after = 0", 1, AuditFault::Missing),
        ("UPDATE event_heads SET kept_after = kept_after + 1", first + 1, AuditFault::Unexpected),
        ("UPDATE event_heads SET kept_hash = x'00'", 1, AuditFault::Missing),
        // An attacker removes one more event and adapts the stored start of the chain.
        (&format!("{moved}; DELETE FROM events WHERE sequence = 702"), first, AuditFault::Missing),
        // An attacker inserts a row with the number of a removed event.
        (
            "INSERT INTO events SELECT org_id, 3, id || 'x', kind, occurred_at, actor, request_id, subjects, data,
             previous_hash, hash FROM events WHERE sequence = 800",
            first,
            AuditFault::Edited,
        ),
    ];
    for (edit, place, reason) in cases {
        let (fixture, db) = create_truncated_log();
        assert_eq!(verify_chain(&fixture, None).problem, None);
        db.execute_batch(edit).unwrap();
        assert_eq!(find_fault(&fixture, None), (place, reason), "{edit}");
    }
}

#[test]
fn event_retention_removes_terms() {
    let (fixture, db) = create_truncated_log();
    let count = |text: &str| -> i64 { db.query_row(text, [], |row| row.get(0)).unwrap() };
    assert_eq!(count(&format!("SELECT COUNT(*) FROM event_terms WHERE sequence <= {THROUGH}")), 0);
    assert_eq!(count("SELECT COUNT(*) FROM terms WHERE id NOT IN (SELECT term_id FROM event_terms)"), 0);
    let kind = EventFilter { kind: Some("pipeline_updated".into()), ..EventFilter::default() };
    let young: Vec<i64> = (THROUGH + 1..=THROUGH + YOUNG).rev().collect();
    assert_eq!(list_page(&fixture, kind.clone(), 0, 1_000).0, young);
    assert_eq!(list_page(&fixture, kind, YOUNG - 2, 10).0, young[YOUNG as usize - 2..]);
}

#[test]
fn event_is_found_by_id_until_retention_removes_it() {
    let fixture = StoreFixture::on_sqlite();
    record_old_and_young(&fixture);
    let by_id = |fixture: &StoreFixture, id: EventId| {
        let found = fixture.transact(move |tx| event::by_id(tx, id)).unwrap();
        found.map(|event| event.sequence)
    };
    for event in list_events(&fixture) {
        assert_eq!(by_id(&fixture, event.id), Some(event.sequence));
        assert_eq!(event.id.number(), event.sequence);
        assert_eq!(by_id(&fixture, event.id.with_number(event.sequence + 1)), None);
    }

    let old = list_events(&fixture);
    run_retention(&fixture, THROUGH).unwrap();
    assert!(old.iter().all(|event| by_id(&fixture, event.id).is_some() == (event.sequence > THROUGH)));
    let newest = list_events(&fixture).pop().unwrap();
    assert_eq!((newest.kind.as_str(), newest.id.number()), ("events_removed", newest.sequence));
    assert_eq!(verify_chain(&fixture, None).problem, None);
}

#[test]
fn event_retention_keeps_events_that_fail_verification() {
    let fixture = StoreFixture::on_sqlite();
    let between = record_old_and_young(&fixture);
    let db = Connection::open(fixture.location.dir.path().join("berth.db")).unwrap();
    let touched = "UPDATE events SET kind = 'pipeline_deleted' WHERE org_id = ?1 AND sequence = 300";
    db.execute(touched, params![fixture.org.to_string()]).unwrap();
    let through = find_due_event(&fixture, between).unwrap();
    let refused = run_retention(&fixture, through).unwrap_err().to_string();
    assert!(refused.contains("fails verification at event 300"), "{refused}");
    let left = list_events(&fixture);
    assert_eq!(
        i64::try_from(left.len()).unwrap(),
        1 + OLD + YOUNG,
        "nor is there an event that says otherwise"
    );
    assert_eq!(find_fault(&fixture, None), (300, AuditFault::Edited));
}

/// The lines of an export.
fn export_lines(fixture: &StoreFixture) -> Vec<String> {
    let (start, head) =
        fixture.transact(|tx| Ok((event::retained_after(tx)?, event::chain_head(tx)?))).unwrap();
    let mut lines = vec![export::start_line(fixture.org, &start).unwrap().expect("a start")];
    lines.extend(list_events(fixture).iter().map(|event| audit::canonical_line(event).unwrap()));
    lines.push(export::head_line(fixture.org, &head).unwrap());
    lines
}

fn verify_lines(lines: &[String]) -> AuditVerdict {
    export::verify_export(lines.join("\n").as_bytes(), None).unwrap().verdict
}

#[test]
fn export_after_retention_has_a_verified_start() {
    let (fixture, _db) = create_truncated_log();
    let lines = export_lines(&fixture);
    let whole = verify_lines(&lines);
    assert_eq!((whole.first, whole.checked, whole.problem), (THROUGH + 1, YOUNG + 1, None));
    let old = Some(AuditHead { sequence: 3, ..AuditHead::start() });
    let older = export::verify_export(lines.join("\n").as_bytes(), old).unwrap().verdict;
    assert_eq!((older.head_is_too_old, older.problem), (true, None));

    let problem = |lines: &[String]| verify_lines(lines).problem.map(|it| (it.sequence, it.reason));
    assert_eq!(problem(&lines[1..]), Some((1, AuditFault::Missing)), "without the start");
    let second = head_of(&list_events(&fixture)[0]);
    let shorter = [vec![export::start_line(fixture.org, &second).unwrap().unwrap()], lines[2..].to_vec()];
    assert_eq!(problem(&shorter.concat()), Some((THROUGH + 1, AuditFault::Missing)), "with another start");
    let twice = [&lines[..1], &lines].concat();
    assert_eq!(problem(&twice), Some((THROUGH + 1, AuditFault::Unexpected)));

    for place in 0..lines[0].len() {
        let mut bytes = lines.join("\n").into_bytes();
        bytes[place] ^= 1;
        let checked = export::verify_export(bytes.as_slice(), None);
        assert!(checked.map_or(true, |it| it.verdict.problem.is_some()), "byte {place} of the start");
    }
}
