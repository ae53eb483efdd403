//! The WAL is checkpointed and restarted while transactions keep writing to it.

use berth_core::event::{EventKind, EventSubject, NewEvent};

use super::StoreFixture;

/// Number of commits within which the WAL must restart. A checkpoint runs about every ten commits.
const COMMITS_MAX: usize = 100;
const EVENTS: usize = 200;
/// Size to which the WAL is truncated.
const LOG_BYTES_KEPT: u64 = 64 * 1024 * 1024;

/// The salts in the WAL header, which change when the WAL restarts. `None` while the WAL is empty.
fn wal_salts(fixture: &StoreFixture) -> Option<Vec<u8>> {
    let log = std::fs::read(fixture.location.dir.path().join("berth.db-wal")).unwrap();
    log.get(16..24).map(<[u8]>::to_vec)
}

fn write_events(fixture: &StoreFixture) {
    let text = "x".repeat(8 * 1024);
    let written = fixture.transact(move |tx| {
        (0..EVENTS).try_for_each(|_| {
            let subject = EventSubject::new("pipeline", "p", None);
            tx.record(NewEvent::new(EventKind::PipelineUpdated, subject).with("text", text.as_str()))
        })
    });
    written.unwrap();
}

/// Writes until the WAL restarts.
fn write_until_restart(fixture: &StoreFixture) {
    let first = wal_salts(fixture);
    let mut commits = 0;
    while wal_salts(fixture) == first {
        write_events(fixture);
        commits += 1;
        assert!(commits < COMMITS_MAX, "the WAL only grows");
    }
}

#[test]
fn wal_restarts_under_continuous_writes() {
    let fixture = StoreFixture::on_sqlite();
    write_events(&fixture);
    write_until_restart(&fixture);
}

#[test]
fn wal_is_truncated_after_a_long_read() {
    let fixture = StoreFixture::on_sqlite();
    write_events(&fixture);
    let path = fixture.location.dir.path().join("berth.db");
    let reader = rusqlite::Connection::open(&path).unwrap();
    reader.execute_batch("BEGIN; SELECT COUNT(*) FROM events").unwrap();
    let first = wal_salts(&fixture);
    let length = || std::fs::metadata(path.with_extension("db-wal")).unwrap().len();
    while length() <= LOG_BYTES_KEPT {
        write_events(&fixture);
    }
    assert_eq!(wal_salts(&fixture), first, "a reader still uses it");
    reader.execute_batch("COMMIT").unwrap();
    write_until_restart(&fixture);
    assert!(length() <= LOG_BYTES_KEPT, "{} bytes", length());
}
