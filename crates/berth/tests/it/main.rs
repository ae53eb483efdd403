//! Integration tests of the `berth` binary: it is started, called over sockets, attacked, killed and restarted on the
//! same files.

mod accounts;
mod calls;
mod cli;
mod client;
mod crash;
mod demo;
mod docs;
mod engine;
mod gates;
mod given_interface;
mod harness;
mod history;
mod hostile;
mod isolation;
mod keys;
mod kit;
mod linear;
mod local;
mod manual_changes;
mod plan;
mod proxies;
mod random;
mod registry;
mod replicas;
mod runner;
mod soak;
mod start;
mod stop;
mod upkeep;
mod user;
mod walk;
mod webhooks;
mod without_bubblewrap;
