//! Records of deployments: for each its row, how it is loaded and how it is written.

pub mod deployment;
pub mod run;
pub mod stage;
