//! Simulations that check the rules of `berth-core`.
//!
//! [`locks`] has commands as data, a generator, a function that applies a command to the rules, and an oracle that
//! checks every step. [`drill`] does the same with clients, runners and servers that crash, pause, repeat messages
//! and lie. [`runs`] checks the run of a deployment like [`locks`] checks the lock. Everything is derived from a
//! seed.

pub mod drill;
pub mod locks;
pub mod random;
pub mod runs;
