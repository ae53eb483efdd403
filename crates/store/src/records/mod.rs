//! Rows of deployments, their runs and stages: loading and writing.

pub mod deployment;
pub mod run;
pub mod stage;
