//! Clients of external systems.

pub mod forges;
pub(crate) mod webhooks;
