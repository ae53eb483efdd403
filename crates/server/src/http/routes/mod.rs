//! Handlers, one file per resource. They read the input, call a use case and convert the result.

pub(super) mod analyses;
pub(super) mod approvals;
pub(super) mod auth;
pub(super) mod deployed;
pub(super) mod deployments;
pub(super) mod environments;
pub(super) mod events;
pub(super) mod fixes;
pub(super) mod grants;
pub(super) mod health;
pub(super) mod invitations;
pub(super) mod logs;
pub(super) mod members;
pub(super) mod organizations;
pub(super) mod pipelines;
pub(super) mod providers;
pub(super) mod queue;
pub(super) mod registries;
pub(super) mod repositories;
pub(super) mod runner;
pub(super) mod runners;
pub(super) mod secrets;
pub(super) mod sessions;
pub(super) mod teams;
pub(super) mod tokens;
pub(super) mod webhooks;
