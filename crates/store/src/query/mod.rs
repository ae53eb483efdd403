//! Queries over deployments, their runs and attempts.

pub mod attempts;
pub mod deployed;
pub mod deployments;
pub mod insights;
pub mod measured;
pub mod runs;
