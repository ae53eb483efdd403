//! Prometheus metrics of requests, locks, queues and the database.
//!
//! They have a listen address of their own, off by default: they reveal the load of all organizations and do not belong
//! on the public port. No label contains a user-chosen name.

mod listen;
mod requests;
mod scrape;

pub use listen::serve;
pub(crate) use requests::Requests;

use std::sync::Arc;

use crate::jobs::Jobs;

/// The sources of the metrics.
#[derive(Clone)]
pub struct Metrics {
    pub(crate) jobs: Arc<Jobs>,
    pub(crate) requests: Arc<Requests>,
}
