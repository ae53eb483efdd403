//! The analyser as its callers see it.

mod diffs;
mod docs;
mod fixes;
mod hostile;
mod logs;
mod property;
