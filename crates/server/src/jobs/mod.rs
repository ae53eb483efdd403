//! Background jobs: each handles what is due in the store when it is woken, and at least once per interval.

pub(crate) mod analyze;
mod expire;
pub(crate) mod fix_prs;
mod lead;
mod logs;
pub mod registry_builds;
mod retention;
mod seal;
mod stages;
mod sweep;
mod sync;

pub use sweep::sweep;

use std::sync::Arc;

use crate::error::AppError;
use berth_engine::Services;

use crate::auth::rate_limit::Rates;
use crate::config::Config;
use crate::integrations::webhooks::Notify;
use crate::worker::{self, Job as _};
use analyze::Analyses;
use fix_prs::{FixEnds, Fixes};
pub(crate) use lead::Lead;
use registry_builds::Registries;
use sync::Syncs;

/// The background jobs of a server and their shared state.
pub struct Jobs {
    pub(crate) services: Arc<Services>,
    pub(crate) config: Arc<Config>,
    pub(crate) rates: Arc<Rates>,
    /// Whether this server runs the jobs of the installation.
    pub(crate) lead: Lead,
    pub(crate) syncs: Arc<Syncs>,
    pub(crate) registries: Arc<Registries>,
    pub(crate) fixes: Arc<Fixes>,
    pub(crate) notify: Arc<Notify>,
    pub(crate) analyses: Arc<Analyses>,
}

impl Jobs {
    pub(crate) fn new(services: Arc<Services>, config: Arc<Config>, rates: Arc<Rates>) -> Self {
        Self {
            lead: Lead::default(),
            syncs: Arc::new(Syncs::new(services.clone(), config.clone())),
            registries: Arc::new(Registries::new(services.clone(), config.clone())),
            fixes: Arc::new(Fixes::new(services.clone(), config.clone())),
            notify: Arc::new(Notify::new(
                services.clone(),
                config.public_url.clone(),
                config.webhook_behind_max,
            )),
            analyses: Arc::new(Analyses::new(services.clone())),
            services,
            config,
            rates,
        }
    }
}

/// Runs until the server stops.
pub async fn run(jobs: Arc<Jobs>) {
    let (services, stop) = (&jobs.services, &jobs.services.shutdown);
    let stop_git = async {
        stop.cancelled().await;
        services.git.stop();
    };
    tokio::join!(
        stop_git,
        worker::supervise("lead", stop, || lead::renew_lead(jobs.clone())),
        worker::supervise("listen", stop, || lead::listen(services.clone())),
        worker::supervise("ready steps", stop, || berth_engine::refresh_ready_queue(services.clone())),
        worker::run(Arc::new(logs::FlushLogs(services.clone())), stop.clone()),
        worker::run(Arc::new(logs::FollowLogs(services.clone())), stop.clone()),
        worker::run(Arc::new(seal::SealLogs(services.clone())), stop.clone()),
        jobs.lead.run(Arc::new(sweep::Sweep(jobs.clone())), stop),
        jobs.lead.run(Arc::new(retention::LogRetention(jobs.clone())), stop),
        jobs.lead.run(Arc::new(retention::ArtifactRetention(jobs.clone())), stop),
        jobs.lead.run(Arc::new(retention::EventRetention(jobs.clone())), stop),
        jobs.lead.run(Arc::new(expire::Expire(services.clone())), stop),
        jobs.lead.run(Arc::new(stages::StopDeployments::new(services.clone())), stop),
        jobs.lead.run(Arc::new(stages::StartDeployments::new(services.clone())), stop),
        jobs.lead.run(jobs.syncs.clone(), stop),
        jobs.lead.run(jobs.registries.clone(), stop),
        jobs.lead.run(jobs.fixes.clone(), stop),
        jobs.lead.run(Arc::new(FixEnds::new(jobs.fixes.clone())), stop),
        jobs.lead.run(jobs.notify.clone(), stop),
        jobs.lead.run(jobs.analyses.clone(), stop),
    );
    // Flush the last output of steps.
    logs::flush(services).await;
}

/// Runs each job that changes records once, for tests.
pub async fn tick(jobs: &Jobs) -> Result<(), AppError> {
    let services = &jobs.services;
    expire::expire(services).await?;
    worker::run_once(&*jobs.syncs).await?;
    worker::run_once(&*jobs.registries).await?;
    worker::run_once(&*jobs.fixes).await?;
    worker::run_once(&*jobs.analyses).await?;
    stages::stop(services).await?;
    stages::start_and_wait(services).await
}

/// Polls fix pull requests once, for tests.
pub async fn notice_fix_ends(jobs: &Jobs) -> Result<(), AppError> {
    FixEnds::new(jobs.fixes.clone()).turn().await.map(drop)
}
