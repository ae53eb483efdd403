//! Simulations that check the rules of `berth-core`.
//!
//! [`locks`] defines commands as data, generates them, applies them to the rules, and has an oracle that checks every
//! step. [`drill`] uses all of this to simulate clients, runners and servers that crash, pause, repeat messages and
//! lie. [`agents`] simulates agents that crash while they hold environments. [`runs`] checks the run of a deployment in the same way as [`locks`] checks the lock. A seed determines
//! everything.

pub mod agents;
pub mod drill;
pub mod locks;
pub mod random;
pub mod runs;
