//! Simulations that check the rules of `berth-core`.
//!
//! [`locks`] has commands as data, a generator for them, a function that applies a command to the rules, and an oracle
//! that checks every step. [`drill`] uses them to simulate clients, runners and servers that crash, pause, repeat
//! messages and lie. [`runs`] checks the run of a deployment in the same way as [`locks`] checks the lock. A seed
//! determines everything.

pub mod drill;
pub mod locks;
pub mod random;
pub mod runs;
