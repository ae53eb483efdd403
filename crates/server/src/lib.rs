//! Berth's server: use cases (`app`), HTTP (`http`), the accept loop (`serve`) and background work (`work`).

pub mod access;
pub mod admin;
mod analysis;
pub mod app;
pub mod artifacts;
pub mod config;
pub mod credential;
pub mod demo;
pub mod egress;
pub mod engine;
pub mod error;
mod fixes;
pub mod forge;
pub mod gate;
pub mod git;
pub mod http;
pub mod limits;
pub mod logs;
mod notify;
pub mod rate;
pub mod registries;
pub mod serve;
pub mod setup;
mod streams;
pub mod upkeep;
pub mod vault;
pub mod work;
