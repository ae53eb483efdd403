//! Prometheus metrics of requests, locks, queues and the database.
//!
//! They have a listen address of their own, off by default: they reveal the load of all organizations and do not belong
//! on the public port. No label contains a user-chosen name.

mod listen;
mod requests;
mod scrape;

pub use listen::serve;
pub(crate) use requests::RequestMetrics;

use std::sync::Arc;

use crate::jobs::BackgroundJobs;

/// The sources of the metrics.
#[derive(Clone)]
pub struct ServerMetrics {
    pub(crate) jobs: Arc<BackgroundJobs>,
    pub(crate) requests: Arc<RequestMetrics>,
}
