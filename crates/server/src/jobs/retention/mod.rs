//! Retention: removes logs, artifacts and events that are older than the settings allow.

mod artifacts;
mod events;
mod logs;

pub(super) use artifacts::ArtifactRetention;
pub(super) use events::EventRetention;
pub(super) use logs::LogRetention;
