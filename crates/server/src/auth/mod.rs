//! Authentication and authorization.

pub mod authorize;
pub(crate) mod callers;
pub mod instance_admin;
pub mod passwords;
pub mod rate_limit;
pub mod tokens;
pub mod totp;
