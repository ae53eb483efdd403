//! What travels: the request and answer bodies of the REST API, and the problem body.
//!
//! Wire types are copies of domain types on purpose. A field reaches clients only when somebody writes it here.

pub mod analysis;
pub mod approval;
pub mod auth;
pub mod deployed;
pub mod deployment;
pub mod environment;
pub mod event;
pub mod fix;
pub mod insights;
pub mod invitation;
pub mod log;
pub mod member;
pub mod organization;
pub mod page;
pub mod pipeline;
pub mod plan;
pub mod problem;
pub mod registry;
pub mod remote;
pub mod repository;
pub mod runner;
pub mod runners;
pub mod secret;
pub mod session;
pub mod token;
pub mod webhook;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A single record.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Data<T> {
    pub data: T,
}

/// An answer that can be kept for a repeated request.
pub trait Replay: Serialize {
    /// There is something in it that is shown only once.
    const SHOWS_ONCE: bool = false;

    /// The record without what is shown only once.
    fn replayed(&self) -> serde_json::Result<String>
    where
        Self: Sized,
    {
        serde_json::to_string(&Data { data: self })
    }
}
