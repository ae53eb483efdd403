//! The engine plans and starts deployments, grants their steps to runners and records the runners' reports.
//!
//! The database is the only source of truth: in-memory state is a cache, and a notification only causes the database to
//! be read again. [`Services`] contains the handles that all modules share. The engine does not depend on HTTP.

mod acquire;
pub mod admission;
mod aggregate;
pub mod analysis_requests;
pub mod artifacts;
mod assign;
pub mod authors;
mod begin;
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
pub mod id_tokens;
mod late_output;
pub mod limits;
mod link;
mod loaded;
pub mod logs;
mod lost_attempts;
mod masking;
mod notifier;
mod prepare;
mod ready_queue;
mod recount;
mod remote;
mod report;
mod rollback;
mod run_cache;
mod runner_calls;
pub mod services;
mod slots;
pub mod stage_deployments;
mod stages;
mod starts;
mod unfit_cache;
pub mod vault;
mod voters;
pub mod wire;

pub use aggregate::DeploymentAggregate;
pub use begin::{begin_environment_deployments, begin_stage_deployments};
pub use declare::{declare_environments, delete_environments};
pub use engine::EngineState;
pub use grant::matches_labels;
pub use link::EmbeddedLink;
pub use loaded::LoadedDeployment;
pub use lost_attempts::{AttemptWatches, end_all, reap};
pub use ready_queue::refresh as refresh_ready_queue;
pub use recount::recount;
pub use remote::{PreviousProcess, RemoteCall, RunnerCaller};
pub use rollback::{RollbackPlan, RollbackRequest};
pub use run_cache::RunCache;
pub use runner_calls::valid_exposed_paths;
pub use services::{Services, ServicesConfig, check_organizations};
pub use stages::{enter_stages, propagate_cancellations};
pub use voters::{VotingMembers, approval_target, electorate, people_behind, tally, voter};
