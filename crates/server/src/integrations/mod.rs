//! Clients of external systems.

pub mod forges;
pub mod oidc;
pub(crate) mod webhooks;
