//! Events are found by what they are about, those that are indexed and the last ones that are not yet.

use berth_core::event::{EventKind, NewEvent, Subject};
use berth_store::StoreError;
use berth_store::query::From;
use berth_store::query::events::{self, Filter};

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
