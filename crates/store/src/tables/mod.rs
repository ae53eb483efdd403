//! Tables. Each module reads and writes the rows of one record type, and contains the queries for it.

pub mod action_link;
pub mod agent;
pub mod analysis;
pub mod analysis_settings;
pub mod approval;
pub mod artifact_object;
pub mod attempt;
pub mod change_authors;
pub mod chat_destination;
pub mod chat_message;
pub mod cli_login;
pub mod commit;
pub mod commit_status;
pub mod current_deployment;
pub mod delivery;
pub mod deployment;
pub mod deployment_list;
pub mod environment;
pub mod event;
pub mod event_retention;
pub mod fix_pull_request;
pub mod forge_account;
pub mod forge_app;
pub mod forge_app_setup;
pub mod forge_connection;
pub mod forge_deployment;
pub mod gauges;
pub mod grant;
pub mod hook_delivery;
pub mod image_pin;
pub mod instance;
pub mod instance_admin;
pub mod invitation;
pub mod key;
pub mod lease;
pub mod log_object;
pub mod member;
pub mod notification;
pub mod notification_rule;
pub mod organization;
pub mod organization_removal;
pub mod password_reset;
pub mod pipeline;
pub(crate) mod pipeline_search;
pub mod plan;
pub mod provider_identity;
pub mod provider_login;
pub mod pull_request;
pub mod pull_request_claim;
pub mod pull_request_command;
pub mod registry;
pub mod registry_build;
pub mod repository;
pub mod retention;
pub mod run;
pub mod runner;
pub mod schedule;
pub mod second_factor;
pub mod secret;
pub mod server;
pub mod session;
pub mod sign_in;
pub mod signing_key;
pub mod slack_connection;
pub mod stage;
pub mod stage_end;
pub mod team;
pub mod ticket;
pub mod token;
pub mod user;
pub mod webhook;

use std::fmt::Display;

use crate::sql::value::{SqlValue, text};

/// Number of rows per page when a whole table is read.
pub(crate) const PAGE_ROWS: i64 = 500;

/// The id after which a page starts. Without `after` it is the empty string, which sorts before every id.
pub(crate) fn first_after(after: Option<impl Display>) -> SqlValue {
    after.map_or_else(|| "".into(), text)
}
