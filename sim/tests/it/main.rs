//! The rules of the lock, under commands nobody thought of.

mod drills;
mod exploration;
mod plants;
mod regressions;
mod sequences;
