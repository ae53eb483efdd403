//! The reader threads. Each one has its own connection, and all of them serve the same queue.

use std::sync::Arc;
use std::thread::JoinHandle;

use berth_core::time::Timestamp;

use super::address::{ConnectionPurpose, PostgresAddress};
use super::conn::PgConn;
use super::lock_scope::NOW;
use crate::error::StoreError;
use crate::job::ReadJob;
use crate::read_queue::ReadQueue;

pub(super) struct PostgresReaders {
    queue: Arc<ReadQueue>,
    threads: Vec<JoinHandle<()>>,
}

impl PostgresReaders {
    pub(super) fn start(address: &PostgresAddress, count: usize) -> Result<Self, StoreError> {
        let mut readers = Self { queue: Arc::default(), threads: Vec::with_capacity(count) };
        for number in 0..count {
            let (queue, address) = (readers.queue.clone(), address.clone());
            let thread = std::thread::Builder::new()
                .name(format!("store-reader-{number}"))
                .spawn(move || run(&queue, &address))
                .map_err(|error| StoreError::Unavailable(format!("cannot start a reader: {error}")))?;
            readers.threads.push(thread);
        }
        Ok(readers)
    }

    pub(super) fn send(&self, look: ReadJob) -> Result<(), StoreError> {
        self.queue.send(look)
    }
}

impl Drop for PostgresReaders {
    fn drop(&mut self) {
        self.queue.close();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn run(queue: &ReadQueue, address: &PostgresAddress) {
    let mut kept = None;
    while let Some(look) = queue.next() {
        match begin(&mut kept, address) {
            Err(error) => look(Err(error)),
            Ok((mut conn, now)) => {
                look(Ok((&mut conn, now)));
                kept = conn.batch("ROLLBACK").is_ok().then_some(conn);
            }
        }
    }
}

/// Begins one snapshot for the whole read, so that a page and its total are consistent. The snapshot includes every
/// acknowledged write.
fn begin(kept: &mut Option<PgConn>, address: &PostgresAddress) -> Result<(PgConn, Timestamp), StoreError> {
    let text = format!("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {NOW}");
    if let Some(mut conn) = kept.take() {
        match conn.query_number(&text) {
            Ok(now) => return Ok((conn, Timestamp::from_micros(now))),
            Err(error) => {
                // If the ROLLBACK fails too, the connection was lost while it was idle, and a new one is opened below.
                if conn.batch("ROLLBACK").is_ok() {
                    return Err(error);
                }
            }
        }
    }
    let mut conn = PgConn::open(address, ConnectionPurpose::Read)?;
    let now = conn.query_number(&text)?;
    Ok((conn, Timestamp::from_micros(now)))
}
