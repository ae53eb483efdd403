//! Searching the audit log by terms.

use berth_core::event::{EventKind, EventSubject, NewEvent};
use berth_store::StoreError;
use berth_store::admin::integrity;
use berth_store::pagination::PageStart;
use berth_store::tables::event::{self, EventFilter};
use rusqlite::Connection;

use super::StoreFixture;

const PIPELINES: usize = 3;
const LIMIT: i64 = 7;

/// Records events in one transaction. Their subjects are the pipelines in turn.
fn record_events(fixture: &StoreFixture, numbers: std::ops::Range<usize>) {
    let work = move |tx: &mut berth_store::Tx<'_>| {
        for number in numbers {
            let subject = EventSubject::new("pipeline", format!("p{}", number % PIPELINES), None);
            tx.record(NewEvent::new(EventKind::PipelineUpdated, subject).with("number", number as u64))?;
        }
        Ok(())
    };
    fixture.transact(work).unwrap();
}

/// Problems that the integrity check finds.
fn integrity_problems(fixture: &StoreFixture) -> Vec<String> {
    let (mut problems, mut after) = (Vec::new(), Some(0));
    while let Some(number) = after {
        let page = fixture.transact(move |tx| integrity::check_events(tx, number)).unwrap();
        problems.extend(page.problems);
        after = page.last;
    }
    problems
}

/// Reads all pages, by offset and by cursor, and compares them with the recorded events.
fn check_pages(fixture: &StoreFixture, recorded: usize) {
    assert_eq!(integrity_problems(fixture), Vec::<String>::new());
    for pipeline in 0..PIPELINES {
        let wanted: Vec<u64> =
            (0..recorded).rev().filter(|n| n % PIPELINES == pipeline).map(|n| n as u64).collect();
        let filter = EventFilter { pipeline: Some(format!("p{pipeline}")), ..EventFilter::default() };
        let (mut by_offset, mut by_place) = (Vec::new(), Vec::new());
        let (mut offset, mut place) = (0, PageStart::Offset(0));
        loop {
            let (asked, from) = (filter.clone(), PageStart::Offset(offset));
            let page = fixture.transact(move |tx| event::list(tx, &asked, &from, LIMIT, false)).unwrap();
            by_offset.extend(page.items.iter().filter_map(|event| event.data["number"].as_u64()));
            let asked = filter.clone();
            let next = fixture.transact(move |tx| event::list(tx, &asked, &place, LIMIT, false)).unwrap();
            by_place.extend(next.items.iter().filter_map(|event| event.data["number"].as_u64()));
            assert_eq!(page.has_more, next.has_more);
            if !page.has_more {
                break;
            }
            offset += LIMIT;
            place = PageStart::After(next.items.last().unwrap().sequence.to_string());
        }
        assert_eq!((&by_offset, &by_place), (&wanted, &wanted), "{recorded} recorded");
    }
}

#[test]
fn event_list_has_every_event_once_in_order() {
    let mut fixture = StoreFixture::new();
    let mut recorded = 0;
    for (round, count) in [1, 60, 66, 1, 1, 127, 128, 129, 300, 5].into_iter().enumerate() {
        record_events(&fixture, recorded..recorded + count);
        recorded += count;
        check_pages(&fixture, recorded);
        // An event that was rolled back is not found. A restart makes no difference.
        let undone = fixture.transact(|tx| {
            tx.record(NewEvent::new(EventKind::PipelineUpdated, EventSubject::new("pipeline", "p0", None)))?;
            Err::<(), _>(StoreError::Unavailable("undone".into()))
        });
        undone.unwrap_err();
        check_pages(&fixture, recorded);
        if round % 3 == 2 {
            fixture = fixture.reopen();
            check_pages(&fixture, recorded);
        }
    }
}

/// Creates the event with this number. Its kind and its subjects vary irregularly.
fn varied_event(number: u64) -> NewEvent {
    let kind = if number.is_multiple_of(5) { EventKind::PipelineUpdated } else { EventKind::SessionClaimed };
    let at = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    let event = NewEvent::new(kind, EventSubject::new("pipeline", format!("p{}", at % 4), None));
    let event = event.with_subject(EventSubject::new("environment", format!("e{}", at / 4 % 3), None));
    // Adds the same subject a second time. The event must still be found only once.
    let event = event.with_subject(EventSubject::new("environment", format!("e{}", at / 4 % 3), None));
    let rare = EventSubject::new("deployment", format!("d{}", number / 97), None);
    if number.is_multiple_of(97) { event.with_subject(rare) } else { event }
}

#[test]
fn event_filter_matches_a_full_scan() {
    let fixture = StoreFixture::new();
    let mut recorded = 0;
    for count in [300, 1, 128, 700, 90] {
        let numbers = recorded..recorded + count;
        recorded += count;
        fixture
            .transact(move |tx| numbers.clone().try_for_each(|number| tx.record(varied_event(number))))
            .unwrap();
        let now = || fixture.transact(|tx| Ok(tx.now().whole_millis())).unwrap();
        let before = now();
        while now() == before {}
    }
    let all = fixture.transact(|tx| event::list_after(tx, 0, i64::MAX, i64::MAX)).unwrap();
    let times = [None, Some(all[250].occurred_at), Some(all[600].occurred_at), Some(all[1_200].occurred_at)];
    let maybe = |word: &str, at: usize| (at > 0).then(|| format!("{word}{}", at - 1));
    for case in 0..3 * 5 * 3 * 4 * 4_usize {
        let filter = EventFilter {
            kind: [None, Some("pipeline_updated"), Some("session_claimed")][case % 3].map(str::to_owned),
            pipeline: maybe("p", case / 3 % 5),
            environment: maybe("e", case / 15 % 3),
            deployment: maybe("d", case / 45 % 4),
            since: times[case / 45 % 4],
            until: times[case / 180 % 4],
            actor: None,
        };
        let wanted: Vec<i64> =
            all.iter().rev().filter(|event| filter.matches(event)).map(|event| event.sequence).collect();
        // Every list takes many round trips on PostgreSQL, so only some cases are tried with all offsets.
        let offsets: &[i64] = if case % 5 == 0 { &[0, 1, 40, 250] } else { &[40] };
        for offset in offsets.iter().copied() {
            let asked = filter.clone();
            let page = fixture
                .transact(move |tx| event::list(tx, &asked, &PageStart::Offset(offset), LIMIT * 6, false))
                .unwrap();
            let found: Vec<i64> = page.items.iter().map(|event| event.sequence).collect();
            let rest = wanted.get(offset as usize..).unwrap_or_default();
            assert_eq!(found, rest[..rest.len().min(42)], "{filter:?} from {offset}");
            assert_eq!(page.has_more, rest.len() > 42);
        }
    }
}

#[test]
fn event_times_out_of_order_hide_no_events() {
    let fixture = StoreFixture::on_sqlite();
    fixture.transact(|tx| (0..1_200).try_for_each(|number| tx.record(varied_event(number)))).unwrap();
    // An event every seven seconds, by clocks that are up to 280 seconds fast or slow.
    let other = Connection::open(fixture.location.dir.path().join("berth.db")).unwrap();
    let times = "UPDATE events SET
        occurred_at = (1800000000 + sequence * 7 + sequence * 7919 % 560 - 280) * 1000000";
    other.execute(times, []).unwrap();
    let all = fixture.transact(|tx| event::list_after(tx, 0, i64::MAX, i64::MAX)).unwrap();
    for case in 0..48 {
        let at = |number: usize| Some(all[number].occurred_at);
        let filter = EventFilter {
            since: if case % 3 == 0 { None } else { at(case * 20) },
            until: if case % 3 == 1 { None } else { at(case * 20 + 150) },
            pipeline: (case % 2 == 0).then(|| format!("p{}", case % 4)),
            ..EventFilter::default()
        };
        let wanted: Vec<i64> =
            all.iter().rev().filter(|event| filter.matches(event)).map(|event| event.sequence).collect();
        assert!(!wanted.is_empty() && wanted.len() < all.len(), "{filter:?}");
        let asked = filter.clone();
        let page =
            fixture.transact(move |tx| event::list(tx, &asked, &PageStart::Offset(0), 2_000, false)).unwrap();
        let found: Vec<i64> = page.items.iter().map(|event| event.sequence).collect();
        assert_eq!(found, wanted, "{filter:?}");
    }
}

#[test]
fn verify_finds_wrong_event_terms() {
    let of_p1 = "term_id = (SELECT id FROM terms WHERE term = 'pipeline:p1')";
    for (damage, wanted) in [
        (
            format!("DELETE FROM event_terms WHERE {of_p1} AND sequence = 3"),
            "event 3 is not indexed under pipeline:p1",
        ),
        (
            "DELETE FROM terms WHERE term = 'pipeline:p1'".to_owned(),
            "event 3 is not indexed under pipeline:p1",
        ),
        (
            format!("UPDATE event_terms SET sequence = 4 WHERE {of_p1} AND sequence = 3"),
            "event 3 is not indexed under pipeline:p1",
        ),
        (
            "INSERT INTO event_terms SELECT id, 2 FROM terms WHERE term = 'pipeline:p1'".to_owned(),
            "event 2 is indexed under pipeline:p1, which it does not have",
        ),
    ] {
        let fixture = StoreFixture::on_sqlite();
        record_events(&fixture, 0..600);
        assert_eq!(integrity_problems(&fixture), Vec::<String>::new());
        let other = Connection::open(fixture.location.dir.path().join("berth.db")).unwrap();
        assert_eq!(other.execute(&damage, []).unwrap(), 1, "{damage}");
        assert_eq!(integrity_problems(&fixture).first().map(String::as_str), Some(wanted), "{damage}");
    }
}
