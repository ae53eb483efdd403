//! Writes commit statuses to forges: one per commit, pipeline, and stage or environment. GitHub and GitLab also get a
//! deployment of their own for each deployment of a stage or environment.
//!
//! [`StatusFanOut`] follows the audit log with a cursor per organization. For each deployment that an event is about, it
//! stores the status that the deployment's present state calls for. [`StatusWriter`] sends the stored statuses and
//! deployments that the forge does not have yet. A crash loses nothing: events after the stored cursor are read again,
//! and what was sent but not recorded is sent again, which changes nothing on the forge.

mod deployments;
mod fan_out;
mod outcome;
mod write;
mod write_deployment;

use std::collections::HashMap;
use std::sync::Arc;

use berth_core::id::{OrgId, RepositoryId};
use berth_engine::Services;
use berth_engine::admission::{AdmissionCapacity, AdmissionControl, AdmissionPermit};
use parking_lot::Mutex;

use crate::config::AppConfig;
use crate::error::AppError;
use crate::worker::{BackgroundJob, LOOK_EVERY, TurnResult};

/// Maximum number of statuses and deployments being written at the same time: in total, and per organization.
const WRITES_AT_ONCE: AdmissionCapacity = AdmissionCapacity::new(4, 2);
/// The same per repository, so that they are written in order.
const WRITES_PER_REPOSITORY: AdmissionCapacity = AdmissionCapacity::new(4, 1);

/// Background job that determines which statuses commits should have.
pub(crate) struct StatusFanOut {
    services: Arc<Services>,
    config: Arc<AppConfig>,
    /// Sequence number of the last event read for each organization. With this cache, the cursor need not be stored
    /// for every event that changes no status.
    positions: Mutex<HashMap<OrgId, i64>>,
}

impl StatusFanOut {
    pub(crate) fn new(services: Arc<Services>, config: Arc<AppConfig>) -> Self {
        Self { services, config, positions: Mutex::default() }
    }
}

impl BackgroundJob for StatusFanOut {
    const NAME: &'static str = "commit statuses";

    async fn turn(&self) -> Result<TurnResult, AppError> {
        let has_more = fan_out::read_events(self).await?;
        Ok(if has_more { TurnResult::Again } else { TurnResult::Idle })
    }

    async fn wait(&self) {
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Background job that writes statuses and deployments to forges.
pub(crate) struct StatusWriter {
    services: Arc<Services>,
    config: Arc<AppConfig>,
    /// Limits each organization, so that a hanging forge does not delay other organizations.
    organizations: AdmissionControl<OrgId>,
    repositories: AdmissionControl<RepositoryId>,
}

impl StatusWriter {
    pub(crate) fn new(services: Arc<Services>, config: Arc<AppConfig>) -> Self {
        Self {
            services,
            config,
            organizations: AdmissionControl::without_queue(WRITES_AT_ONCE),
            repositories: AdmissionControl::without_queue(WRITES_PER_REPOSITORY),
        }
    }
}

/// What a lane holds while it writes for a repository.
struct WritePermit {
    org: OrgId,
    repository: RepositoryId,
    _permits: (AdmissionPermit, AdmissionPermit),
}

impl StatusWriter {
    /// Enters the first of these repositories that may be written to now.
    fn enter_first(&self, due: Vec<(OrgId, RepositoryId)>) -> Option<WritePermit> {
        due.into_iter().find_map(|(org, repository)| {
            let of_repository = self.repositories.try_enter(repository)?;
            Some(WritePermit {
                org,
                repository,
                _permits: (of_repository, self.organizations.try_enter(org)?),
            })
        })
    }
}

impl BackgroundJob for StatusWriter {
    const NAME: &'static str = "commit status writes";
    const LANES: usize = WRITES_AT_ONCE.total;

    async fn turn(&self) -> Result<TurnResult, AppError> {
        let has_status = write::write_next(self).await?;
        let has_deployment = write_deployment::write_next(self).await?;
        Ok(if has_status || has_deployment { TurnResult::Again } else { TurnResult::Idle })
    }

    async fn wait(&self) {
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
