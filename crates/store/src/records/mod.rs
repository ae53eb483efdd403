//! Records: for each noun its row, how it is loaded and how it is written.

pub mod analysis;
pub mod analysis_settings;
pub mod approval;
pub mod change_authors;
pub mod delivery;
pub mod deployment;
pub mod environment;
pub mod event_retention;
pub mod fix_pull_request;
pub mod instance;
pub mod invitation;
pub mod key;
pub mod lease;
pub mod member;
pub mod organization;
pub mod password_reset;
pub mod pipeline;
pub mod plan;
pub mod registry;
pub mod registry_build;
pub mod repository;
pub mod retention;
pub mod rollout;
pub mod run;
pub mod runner;
pub mod secret;
pub mod sign_in;
pub mod stage;
pub mod ticket;
pub mod token;
pub mod user;
pub mod webhook;

pub use crate::tables::session;
