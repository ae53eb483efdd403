//! Integration tests of the `berth` binary: it is started, called over sockets, attacked, killed, and restarted on the
//! same files.

mod accounts;
mod audit_log;
mod cli;
mod client;
mod crash;
mod custom_steps;
mod demo;
mod docs;
mod engine;
mod first_steps;
mod gates;
mod given_interface;
mod harness;
mod hostile;
mod isolation;
mod keys;
mod linear;
mod local_run;
mod machine;
mod manual_changes;
mod plan;
mod private_files;
mod proxies;
mod random;
mod registry;
mod registry_scaffold;
mod replicas;
mod runner;
mod shutdown;
mod soak;
mod startup;
mod step_user;
mod upkeep;
mod webhooks;
mod without_bubblewrap;
