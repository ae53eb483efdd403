//! Berth's server: use cases (`app`), HTTP (`http`), background jobs (`jobs`) and clients for other systems
//! (`integrations`).

pub mod admin;
pub mod app;
pub mod auth;
pub mod config;
pub mod error;
pub mod http;
pub mod integrations;
pub mod jobs;
mod keep_alive;
pub mod limits;
pub mod metrics;
pub mod serve;
pub mod setup;
mod streams;
pub mod tls;
pub mod upkeep;
mod wire;
mod worker;
