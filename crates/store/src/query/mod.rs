//! Read models: lists and pages.

pub mod attempts;
pub mod deployed;
pub mod deployments;
pub mod environments;
pub mod findable;
pub mod insights;
pub mod measured;
pub mod runs;

pub mod analyses {
    pub use crate::tables::analysis::*;
    pub use crate::tables::fix_pull_request::{open_after, opening};
}
pub mod everywhere {
    pub use crate::tables::environment::environments;
    pub use crate::tables::instance::epoch;
    pub use crate::tables::key::{root_key, root_keys};
    pub use crate::tables::organization::organizations;
    pub use crate::tables::pipeline::active_pipelines;
    pub use crate::tables::registry_build::{Built, built};
    pub use crate::tables::retention::{LeftBehind, Logged, left_behind, logged};
}
pub mod registries {
    pub use crate::tables::registry::*;
    pub use crate::tables::registry_build::{builds, under_way};
}
pub mod webhooks {
    pub use crate::tables::delivery::{deliveries, due, next, pending};
    pub use crate::tables::webhook::{Behind, all, behind, everywhere};
}
pub(crate) use crate::pagination::counted;
pub use crate::pagination::{Batch, COUNTED_MAX, From, Slice};
pub use crate::tables::approval as approvals;
pub use crate::tables::event as events;
pub use crate::tables::invitation as invitations;
pub use crate::tables::member as members;
pub use crate::tables::pipeline as pipelines;
pub use crate::tables::repository as repositories;
pub use crate::tables::runner as runners;
pub use crate::tables::secret as secrets;
pub use crate::tables::token as tokens;
