//! Tests of the runner's public API, against an in-memory server.

mod builtin;
mod containers;
mod fixture;
#[cfg(feature = "kubernetes")]
mod kubernetes;
mod leftovers;
mod link;
mod log;
mod protocol;
mod registry;
mod sandbox;
mod script;
mod sources;
mod stop;
mod transfer;
mod user;
