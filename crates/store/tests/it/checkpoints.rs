//! The WAL is checkpointed and restarted while transactions keep writing to it.

use berth_core::event::{EventKind, EventSubject, NewEvent};

use super::Ground;

/// Number of commits within which the WAL must restart. A checkpoint runs about every ten commits.
const COMMITS_MAX: usize = 100;
const EVENTS: usize = 200;
/// Size to which the WAL is truncated.
const LOG_BYTES_KEPT: u64 = 64 * 1024 * 1024;

/// The salts in the WAL header, which change when the WAL restarts. `None` while the WAL is empty.
fn drawn(ground: &Ground) -> Option<Vec<u8>> {
    let log = std::fs::read(ground.place.dir.path().join("berth.db-wal")).unwrap();
    log.get(16..24).map(<[u8]>::to_vec)
}

fn write(ground: &Ground) {
    let text = "x".repeat(8 * 1024);
    let written = ground.transact(move |tx| {
        (0..EVENTS).try_for_each(|_| {
            let subject = EventSubject::new("pipeline", "p", None);
            tx.record(NewEvent::new(EventKind::PipelineUpdated, subject).with("text", text.as_str()))
        })
    });
    written.unwrap();
}

/// Writes until the WAL restarts.
fn write_on(ground: &Ground) {
    let first = drawn(ground);
    let mut commits = 0;
    while drawn(ground) == first {
        write(ground);
        commits += 1;
        assert!(commits < COMMITS_MAX, "the WAL only grows");
    }
}

#[test]
fn wal_restarts_under_continuous_writes() {
    let ground = Ground::in_a_file();
    write(&ground);
    write_on(&ground);
}

#[test]
fn wal_is_truncated_after_a_long_read() {
    let ground = Ground::in_a_file();
    write(&ground);
    let path = ground.place.dir.path().join("berth.db");
    let reader = rusqlite::Connection::open(&path).unwrap();
    reader.execute_batch("BEGIN; SELECT COUNT(*) FROM events").unwrap();
    let first = drawn(&ground);
    let length = || std::fs::metadata(path.with_extension("db-wal")).unwrap().len();
    while length() <= LOG_BYTES_KEPT {
        write(&ground);
    }
    assert_eq!(drawn(&ground), first, "a reader still uses it");
    reader.execute_batch("COMMIT").unwrap();
    write_on(&ground);
    assert!(length() <= LOG_BYTES_KEPT, "{} bytes", length());
}
