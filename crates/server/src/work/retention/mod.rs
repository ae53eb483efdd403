//! Retention: what is old goes, where the settings say so.

mod artifacts;
mod events;
mod logs;

pub use artifacts::retain_artifacts;
pub use events::retain_events;
pub use logs::retain;

use std::sync::Arc;

use crate::app::App;

/// Runs until the server stops.
pub(super) async fn retains(app: Arc<App>) {
    tokio::join!(logs::retains(app.clone()), artifacts::retains(app.clone()), events::retains(app));
}
