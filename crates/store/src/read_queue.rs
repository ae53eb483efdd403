//! The bounded queue from which the reader threads take their work.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, PoisonError};

use crate::error::StoreError;
use crate::job::ReadJob;

/// Maximum number of queued reads; further ones are refused.
const QUEUE_READS_MAX: usize = 4_096;

#[derive(Default)]
pub(crate) struct ReadQueue {
    waiting: Mutex<QueuedReads>,
    wake: Condvar,
}

#[derive(Default)]
struct QueuedReads {
    reads: VecDeque<ReadJob>,
    is_closed: bool,
}

impl ReadQueue {
    pub(crate) fn send(&self, look: ReadJob) -> Result<(), StoreError> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.reads.len() >= QUEUE_READS_MAX {
            return Err(StoreError::Unavailable("the read queue is full".into()));
        }
        waiting.reads.push_back(look);
        drop(waiting);
        self.wake.notify_one();
        Ok(())
    }

    /// Blocks until a read is queued. Returns `None` once the queue is closed and empty.
    pub(crate) fn next(&self) -> Option<ReadJob> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(look) = waiting.reads.pop_front() {
                return Some(look);
            }
            if waiting.is_closed {
                return None;
            }
            waiting = self.wake.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub(crate) fn close(&self) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).is_closed = true;
        self.wake.notify_all();
    }
}
