//! What Prometheus is told: how many requests of which kind, how the locks fare, what waits, and how the database does.
//!
//! On an address of its own, which is off unless somebody sets it: numbers say how busy others are, and the port people
//! use is for people. No label holds a name that somebody chose.

mod listen;
mod requests;
mod scrape;

pub use listen::serve;
pub(crate) use requests::Requests;

use std::sync::Arc;

use crate::jobs::Jobs;

/// What the metrics are read from.
#[derive(Clone)]
pub struct Metrics {
    pub(crate) jobs: Arc<Jobs>,
    pub(crate) requests: Arc<Requests>,
}
