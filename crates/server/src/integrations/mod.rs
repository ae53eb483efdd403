//! Other systems that the server talks to.

pub mod forges;
pub(crate) mod webhooks;
