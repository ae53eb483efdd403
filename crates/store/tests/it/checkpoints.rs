//! The write-ahead log is copied into the database while it is written, and begins anew.

use berth_core::event::{EventKind, NewEvent, Subject};

use super::Ground;

/// A log that has not begun anew after so many commits never will: one is copied after about ten of them.
const COMMITS_MAX: usize = 100;
const EVENTS: usize = 200;

/// Two numbers at its head are drawn when it begins.
fn drawn(ground: &Ground) -> Vec<u8> {
    let log = std::fs::read(ground.place.dir.path().join("berth.db-wal")).unwrap();
    log[16..24].to_vec()
}

#[test]
fn a_log_that_is_written_without_a_pause_begins_anew() {
    let ground = Ground::in_a_file();
    let write = || {
        let text = "x".repeat(8 * 1024);
        ground.transact(move |tx| {
            (0..EVENTS).try_for_each(|_| {
                let subject = Subject::new("pipeline", "p", None);
                tx.record(NewEvent::new(EventKind::PipelineUpdated, subject).with("text", text.as_str()))
            })
        })
    };
    write().unwrap();
    let first = drawn(&ground);
    let mut commits = 0;
    while drawn(&ground) == first {
        write().unwrap();
        commits += 1;
        assert!(commits < COMMITS_MAX, "the log only grows");
    }
}
