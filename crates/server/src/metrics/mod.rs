//! Prometheus metrics of requests, locks, queues and the database.
//!
//! They have a separate listen address, which is off by default: the metrics reveal the load of all organizations and
//! do not belong on the public port. No label contains a name that users chose.

mod listen;
mod requests;
mod scrape;

pub use listen::serve;
pub(crate) use requests::RequestMetrics;

use std::sync::Arc;

use crate::jobs::BackgroundJobs;

/// The objects that the metrics are read from.
#[derive(Clone)]
pub struct ServerMetrics {
    pub(crate) jobs: Arc<BackgroundJobs>,
    pub(crate) requests: Arc<RequestMetrics>,
}
