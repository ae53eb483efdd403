//! Authentication and authorization.

pub mod authorize;
pub(crate) mod callers;
pub mod passwords;
pub mod rate_limit;
pub mod tokens;
pub mod totp;
