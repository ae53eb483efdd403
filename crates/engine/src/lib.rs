//! The engine plans and starts deployments, grants their steps to runners and records the runners' reports.
//!
//! The database is the only authority: in-memory state is a cache, and notifications only trigger a new read.
//! [`Services`] holds the handles that the modules share. The engine does not depend on HTTP.

mod acquire;
pub mod admission;
mod aggregate;
pub mod analysis_requests;
pub mod artifacts;
mod assign;
pub mod authors;
mod begin;
mod beginnings;
mod bell;
mod calls;
pub mod credential;
mod declare;
pub mod definitions;
pub mod egress;
mod engine;
mod epoch;
pub mod error;
pub mod events;
pub mod gates;
pub mod git;
mod git_credentials;
mod grant;
mod late;
pub mod limits;
mod link;
mod loaded;
pub mod logs;
mod lost;
mod net;
mod people;
mod places;
mod plans;
mod prepare;
mod ready_queue;
mod recount;
mod remote;
mod report;
mod rollback;
pub mod services;
pub mod stage_deployments;
mod stages;
mod unfit;
pub mod vault;
pub mod wire;

pub use aggregate::DeploymentAggregate;
pub use begin::{begin_environment_deployments, begin_stage_deployments};
pub use calls::valid_exposed_paths;
pub use declare::{declare_environments, delete_environments};
pub use engine::EngineState;
pub use grant::matches_labels;
pub use link::EmbeddedLink;
pub use loaded::LoadedDeployment;
pub use lost::{AttemptWatches, end_all, reap};
pub use people::{VotingMembers, electorate, people_behind, tally, voter};
pub use plans::RunCache;
pub use ready_queue::refresh as refresh_ready_queue;
pub use recount::recount;
pub use remote::{RemoteCall, PreviousProcess, RunnerCaller};
pub use rollback::{RollbackPlan, RollbackRequest};
pub use services::{Services, ServicesConfig, check_organizations};
pub use stages::{propagate_cancellations, enter_stages};
