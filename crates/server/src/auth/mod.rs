//! Authentication and authorization: who calls, and what they may do.

pub mod authorize;
pub(crate) mod callers;
pub mod passwords;
pub mod rate_limit;
pub mod tokens;
