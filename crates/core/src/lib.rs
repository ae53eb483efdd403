//! The domain rules of Berth.
//!
//! Everything here is a pure function of state, command and time: no I/O, no clock, no randomness, no async code.
//! `clippy.toml` bans calls that would violate this.

pub mod access;
pub mod agent;
pub mod analysis;
pub mod approval;
pub mod chat;
pub mod client_info;
pub mod commit_status;
pub mod decision;
pub mod deployment;
pub mod environment;
pub mod event;
pub mod expression;
pub mod forge;
pub mod forge_deployment;
pub mod id;
pub mod insights;
pub mod mask;
pub mod memory_store;
pub mod name;
pub mod notification;
pub mod pipeline;
pub mod registry;
pub mod repository;
pub mod runner;
pub mod secret;
pub mod step;
pub mod time;
pub mod webhook;
pub mod window;
pub mod wording;
