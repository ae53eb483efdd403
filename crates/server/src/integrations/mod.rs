//! Clients of external systems.

pub mod action_links;
pub(crate) mod chat;
pub mod forges;
pub mod mail;
pub mod oidc;
pub(crate) mod webhooks;
