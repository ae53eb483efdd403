//! The rules of the lock and of a run under random commands.

mod agents;
mod calls;
mod drills;
mod exploration;
mod regressions;
mod run_regressions;
mod runs;
mod sequences;
