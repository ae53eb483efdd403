//! Request and response bodies of the REST API, including problem details.
//!
//! Wire types are deliberate copies of domain types: a field reaches clients only if it is added here.

pub mod agent;
pub mod analysis;
pub mod approval;
pub mod approval_changes;
pub mod artifact;
pub mod auth;
pub mod chat;
pub mod cli_login;
pub mod commit;
pub mod connection;
pub mod container;
pub mod deployed;
pub mod deployment;
pub mod environment;
pub mod event;
pub mod fix;
pub mod forge_account;
pub mod forge_app;
pub mod grant;
pub mod identity;
pub mod insights;
pub mod invitation;
pub mod log;
pub mod login;
pub mod member;
pub mod notification;
pub mod organization;
pub mod page;
pub mod pipeline;
pub mod plan;
pub mod problem;
pub mod pull_request;
pub mod registry;
pub mod remote;
pub mod repository;
pub mod runner;
pub mod runners;
pub mod secret;
pub mod session;
pub mod team;
pub mod token;
pub mod webhook;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A single record.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Data<T> {
    pub data: T,
}

/// A response body that can be stored and replayed for a repeated idempotency key.
pub trait ReplayableBody: Serialize {
    /// Whether the body contains a value that is returned only once.
    const SHOWS_ONCE: bool = false;

    /// The body for a replay, without values that are returned only once.
    fn to_replay_json(&self) -> serde_json::Result<String>
    where
        Self: Sized,
    {
        serde_json::to_string(&Data { data: self })
    }
}
