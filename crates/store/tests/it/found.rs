//! Events are found by what they are about, those that are indexed and the last ones that are not yet.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};

use berth_core::event::{EventKind, NewEvent, Subject};
use berth_store::StoreError;
use berth_store::query::From;
use berth_store::query::events::{self, Filter};

use rusqlite::Connection;

use super::Ground;

const PIPELINES: usize = 3;
const LIMIT: i64 = 7;

/// One transaction with so many events, about each pipeline in turn.
fn record(ground: &Ground, numbers: std::ops::Range<usize>) {
    let work = move |tx: &mut berth_store::Tx<'_>| {
        for number in numbers {
            let subject = Subject::new("pipeline", format!("p{}", number % PIPELINES), None);
            tx.record(NewEvent::new(EventKind::PipelineUpdated, subject).with("number", number as u64))?;
        }
        Ok(())
    };
    ground.transact(work).unwrap();
}

/// Every page by offset, and then by the place after the last one, against what was recorded.
fn check(ground: &Ground, recorded: usize) {
    for pipeline in 0..PIPELINES {
        let wanted: Vec<u64> =
            (0..recorded).rev().filter(|n| n % PIPELINES == pipeline).map(|n| n as u64).collect();
        let filter = Filter { pipeline: Some(format!("p{pipeline}")), ..Filter::default() };
        let (mut by_offset, mut by_place) = (Vec::new(), Vec::new());
        let (mut offset, mut place) = (0, From::Offset(0));
        loop {
            let (asked, from) = (filter.clone(), From::Offset(offset));
            let page = ground.transact(move |tx| events::list(tx, &asked, &from, LIMIT, false)).unwrap();
            by_offset.extend(page.items.iter().filter_map(|event| event.data["number"].as_u64()));
            let asked = filter.clone();
            let next = ground.transact(move |tx| events::list(tx, &asked, &place, LIMIT, false)).unwrap();
            by_place.extend(next.items.iter().filter_map(|event| event.data["number"].as_u64()));
            assert_eq!(page.has_more, next.has_more);
            if !page.has_more {
                break;
            }
            offset += LIMIT;
            place = From::After(next.items.last().unwrap().sequence.to_string());
        }
        assert_eq!((&by_offset, &by_place), (&wanted, &wanted), "{recorded} recorded");
    }
}

#[test]
fn whatever_is_indexed_already_every_event_is_found_once_and_in_order() {
    let mut ground = Ground::new();
    let mut recorded = 0;
    for (round, count) in [1, 60, 66, 1, 1, 127, 128, 129, 300, 5].into_iter().enumerate() {
        record(&ground, recorded..recorded + count);
        recorded += count;
        check(&ground, recorded);
        // What is undone is not found, and what a new start finds is the same.
        let undone = ground.transact(|tx| {
            tx.record(NewEvent::new(EventKind::PipelineUpdated, Subject::new("pipeline", "p0", None)))?;
            Err::<(), _>(StoreError::Unavailable("undone".into()))
        });
        undone.unwrap_err();
        check(&ground, recorded);
        if round % 3 == 2 {
            ground = ground.reopened();
            check(&ground, recorded);
        }
    }
}

/// So many changes in one commit: they gather while another one is under way.
fn record_at_once(ground: &Ground, changes: usize, events: usize, recorded: &Arc<AtomicUsize>) {
    let ((begin, begun), (end, ended)) = (mpsc::channel(), mpsc::channel());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            ground.transact(move |_| {
                begin.send(()).unwrap();
                ended.recv().unwrap();
                Ok(())
            })
        });
        begun.recv().unwrap();
        for _ in 0..changes {
            let recorded = recorded.clone();
            scope.spawn(move || {
                let work = move |tx: &mut berth_store::Tx<'_>| {
                    for _ in 0..events {
                        let number = recorded.fetch_add(1, Ordering::SeqCst);
                        let subject = Subject::new("pipeline", format!("p{}", number % PIPELINES), None);
                        let event = NewEvent::new(EventKind::PipelineUpdated, subject);
                        tx.record(event.with("number", number as u64))?;
                    }
                    Ok(())
                };
                ground.transact(work).unwrap();
            });
        }
        while ground.store.commits().waiting < changes as u64 {
            std::thread::yield_now();
        }
        end.send(()).unwrap();
    });
}

#[test]
fn while_many_write_more_of_the_last_events_are_not_indexed_and_all_are_found() {
    let ground = Ground::in_a_file();
    let db = Connection::open(ground.place.dir.path().join("berth.db")).unwrap();
    let left = || -> i64 {
        db.query_row("SELECT sequence - indexed FROM event_heads", [], |row| row.get(0)).unwrap()
    };
    let recorded = Arc::new(AtomicUsize::new(0));
    let at_once = |changes, events, wanted| {
        record_at_once(&ground, changes, events, &recorded);
        check(&ground, recorded.load(Ordering::SeqCst));
        assert_eq!(left(), wanted, "{changes} changes of {events} events");
    };
    // With the first event of the organization.
    at_once(8, 100, 801);
    at_once(8, 27, 801 + 216);
    // Too many, and all are indexed; from here on few are left again.
    at_once(8, 1, 0);
    at_once(8, 20, 160);
    at_once(7, 1, 0);
}
