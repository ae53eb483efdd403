//! Histogram of commit latencies, for metrics.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds of the histogram buckets, in microseconds. Slower commits appear in the total count only.
pub const BOUNDS_US: [u64; 12] =
    [250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 1_000_000, 5_000_000];

#[derive(Debug, Default)]
pub struct CommitHistogram {
    buckets: [AtomicU64; BOUNDS_US.len()],
    count: AtomicU64,
    sum_us: AtomicU64,
    jobs: AtomicU64,
}

/// A snapshot of the histogram.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CommitStats {
    /// Number of commits that took no longer than the bound at the same index.
    pub within: [u64; BOUNDS_US.len()],
    pub count: u64,
    pub sum_us: u64,
    /// Number of write jobs. One commit can contain several.
    pub jobs: u64,
    /// Number of write jobs that are waiting in the queue.
    pub waiting: u64,
    /// Number of times that a thread has waited for the database server. 0 on SQLite.
    pub round_trips: u64,
}

impl CommitHistogram {
    pub(crate) fn record_commit(&self, took: Duration, jobs: usize) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        if let Some(place) = BOUNDS_US.iter().position(|bound| us <= *bound) {
            self.buckets[place].fetch_add(1, Ordering::Relaxed);
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        self.sum_us.fetch_add(us, Ordering::Relaxed);
        self.jobs.fetch_add(jobs as u64, Ordering::Relaxed);
    }

    pub(crate) fn snapshot(&self, waiting: usize) -> CommitStats {
        let mut within = [0; BOUNDS_US.len()];
        let mut sum = 0;
        for (place, bucket) in self.buckets.iter().enumerate() {
            sum += bucket.load(Ordering::Relaxed);
            within[place] = sum;
        }
        CommitStats {
            within,
            count: self.count.load(Ordering::Relaxed),
            sum_us: self.sum_us.load(Ordering::Relaxed),
            jobs: self.jobs.load(Ordering::Relaxed),
            waiting: waiting as u64,
            round_trips: 0,
        }
    }
}
