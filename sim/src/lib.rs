//! Proves the rules of `berth-core`, or breaks them.
//!
//! [`locks`] holds commands as data, a generator, the function that puts a command to the rules, and an oracle that
//! looks at every step. [`drill`] lets clients, runners and servers do the same things while they crash, pause,
//! repeat themselves and lie. [`runs`] does for the run of a deployment what [`locks`] does for the lock. Everything
//! follows from a seed.

pub mod chance;
pub mod drill;
pub mod locks;
pub mod runs;
