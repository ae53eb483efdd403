//! The real program: started, asked over real sockets, attacked, killed, and started again on the same files.

mod calls;
mod cli;
mod client;
mod crash;
mod demo;
mod engine;
mod gates;
mod harness;
mod history;
mod hostile;
mod keys;
mod kit;
mod linear;
mod plan;
mod random;
mod registry;
mod replicas;
mod runner;
mod start;
mod stop;
mod upgrade;
mod upkeep;
mod walk;
mod webhooks;
