//! Background jobs. When woken, and at least once per interval, each job handles the work that is due according to the
//! database.

pub(crate) mod analyze;
mod expire;
pub(crate) mod fix_prs;
mod forge_statuses;
mod leader;
mod logs;
mod notifications;
mod object_storage;
pub(crate) mod provider_checks;
pub(crate) mod pull_requests;
pub mod registry_builds;
mod retention;
mod seal;
mod signing_keys;
mod stages;
mod sweep;
pub(crate) mod sync;

pub use expire::renew_leases;
pub use signing_keys::rotate as rotate_signing_keys;
pub use sweep::sweep;

use std::sync::Arc;

use crate::error::AppError;
use berth_engine::Services;

use crate::auth::rate_limit::RateLimits;
use crate::config::AppConfig;
use crate::integrations::oidc::ProviderSet;
use crate::integrations::webhooks::WebhookNotifier;
use crate::worker::{self, BackgroundJob as _};
use analyze::AnalysisJob;
use fix_prs::{FixEnds, FixPullRequestJob};
use forge_statuses::{StatusFanOut, StatusWriter};
pub(crate) use leader::LeaderState;
use notifications::{ChatSender, NotificationFanOut, NotificationMailer};
use provider_checks::ProviderCheckJob;
use pull_requests::PullRequestJob;
use registry_builds::RegistryJob;
use sync::SyncJob;

/// The background jobs of a server and their shared state.
pub struct BackgroundJobs {
    pub(crate) services: Arc<Services>,
    pub(crate) config: Arc<AppConfig>,
    pub(crate) rates: Arc<RateLimits>,
    /// Whether this server is the leader, which runs the jobs that only one server may run.
    pub(crate) lead: LeaderState,
    /// The identity providers that people log in with.
    pub(crate) providers: Arc<ProviderSet>,
    pub(crate) provider_checks: Arc<ProviderCheckJob>,
    pub(crate) syncs: Arc<SyncJob>,
    pub(crate) registries: Arc<RegistryJob>,
    pub(crate) fixes: Arc<FixPullRequestJob>,
    pub(crate) pull_requests: Arc<PullRequestJob>,
    pub(crate) statuses: Arc<StatusFanOut>,
    pub(crate) status_writes: Arc<StatusWriter>,
    pub(crate) notifications: Arc<NotificationFanOut>,
    pub(crate) mailer: Arc<NotificationMailer>,
    pub(crate) chats: Arc<ChatSender>,
    pub(crate) notify: Arc<WebhookNotifier>,
    pub(crate) analyses: Arc<AnalysisJob>,
}

impl BackgroundJobs {
    pub(crate) fn new(services: Arc<Services>, config: Arc<AppConfig>, rates: Arc<RateLimits>) -> Self {
        let providers = Arc::new(ProviderSet::new(&config.providers, &services.egress));
        Self {
            lead: LeaderState::default(),
            provider_checks: Arc::new(ProviderCheckJob::new(services.clone(), providers.clone())),
            providers,
            syncs: Arc::new(SyncJob::new(services.clone(), config.clone())),
            registries: Arc::new(RegistryJob::new(services.clone(), config.clone())),
            pull_requests: Arc::new(PullRequestJob::new(services.clone(), config.clone())),
            fixes: Arc::new(FixPullRequestJob::new(services.clone(), config.clone())),
            statuses: Arc::new(StatusFanOut::new(services.clone(), config.clone())),
            status_writes: Arc::new(StatusWriter::new(services.clone(), config.clone())),
            notifications: Arc::new(NotificationFanOut::new(services.clone(), config.clone())),
            mailer: Arc::new(NotificationMailer::new(services.clone(), config.clone())),
            chats: Arc::new(ChatSender::new(services.clone(), config.clone())),
            notify: Arc::new(WebhookNotifier::new(
                services.clone(),
                config.public_url.clone(),
                config.webhook_behind_max,
            )),
            analyses: Arc::new(AnalysisJob::new(services.clone())),
            services,
            config,
            rates,
        }
    }
}

/// Runs all background jobs until the server stops.
pub async fn run(jobs: Arc<BackgroundJobs>) {
    let (services, stop) = (&jobs.services, &jobs.services.shutdown);
    let stop_git = async {
        stop.cancelled().await;
        services.git.stop();
    };
    tokio::join!(
        stop_git,
        worker::supervise("lead", stop, || leader::renew_lease(jobs.clone())),
        worker::supervise("listen", stop, || leader::listen(services.clone())),
        worker::supervise("ready steps", stop, || berth_engine::refresh_ready_queue(services.clone())),
        worker::run(Arc::new(logs::FlushLogs(services.clone())), stop.clone()),
        worker::run(Arc::new(logs::FollowLogs(services.clone())), stop.clone()),
        worker::run(Arc::new(seal::SealLogs(services.clone())), stop.clone()),
        worker::run(Arc::new(object_storage::PutLogs(services.clone())), stop.clone()),
        jobs.lead.run(Arc::new(object_storage::SealAbandonedLogs(services.clone())), stop),
        jobs.lead.run(Arc::new(object_storage::RemoveOrphans(services.clone())), stop),
        jobs.lead.run(Arc::new(sweep::SweepJob(jobs.clone())), stop),
        jobs.lead.run(Arc::new(signing_keys::SigningKeyRotation(services.clone())), stop),
        jobs.lead.run(Arc::new(retention::LogRetention(jobs.clone())), stop),
        jobs.lead.run(Arc::new(retention::ArtifactRetention(jobs.clone())), stop),
        jobs.lead.run(Arc::new(retention::EventRetention(jobs.clone())), stop),
        jobs.lead.run(Arc::new(expire::ExpireJob(services.clone())), stop),
        jobs.lead.run(Arc::new(stages::StopDeployments::new(services.clone())), stop),
        jobs.lead.run(Arc::new(stages::StartDeployments::new(services.clone())), stop),
        jobs.lead.run(jobs.syncs.clone(), stop),
        jobs.lead.run(jobs.registries.clone(), stop),
        jobs.lead.run(jobs.fixes.clone(), stop),
        jobs.lead.run(jobs.pull_requests.clone(), stop),
        jobs.lead.run(Arc::new(FixEnds::new(jobs.fixes.clone())), stop),
        jobs.lead.run(jobs.statuses.clone(), stop),
        jobs.lead.run(jobs.status_writes.clone(), stop),
        jobs.lead.run(jobs.notifications.clone(), stop),
        jobs.lead.run(jobs.mailer.clone(), stop),
        jobs.lead.run(jobs.chats.clone(), stop),
        jobs.lead.run(jobs.notify.clone(), stop),
        jobs.lead.run(jobs.provider_checks.clone(), stop),
        jobs.lead.run(jobs.analyses.clone(), stop),
    );
    // Fsync the last output of steps, and pass it on to other servers.
    logs::flush(services).await;
    if object_storage::put(services).await.is_err() {
        tracing::error!("putting logs into object storage panicked");
    }
}

/// For tests: makes one pass through the jobs that apply timers, sync repositories, build registries, create fix pull
/// requests, act on pull requests, analyze failures, and stop and start deployments.
pub async fn tick(jobs: &BackgroundJobs) -> Result<(), AppError> {
    let services = &jobs.services;
    expire::expire(services).await?;
    worker::run_once(&*jobs.syncs).await?;
    worker::run_once(&*jobs.registries).await?;
    worker::run_once(&*jobs.fixes).await?;
    worker::run_once(&*jobs.pull_requests).await?;
    worker::run_once(&*jobs.analyses).await?;
    stages::stop_deployments(services).await?;
    stages::start_and_wait(services).await
}

/// For tests: reads all events for commit statuses, and writes those that are due.
pub async fn write_commit_statuses(jobs: &BackgroundJobs) -> Result<(), AppError> {
    worker::run_once(&*jobs.statuses).await?;
    worker::run_once(&*jobs.status_writes).await
}

/// For tests: reads all events after the stored cursor for notifications, as after a restart.
pub async fn create_notifications(jobs: &BackgroundJobs) -> Result<(), AppError> {
    worker::run_once(&NotificationFanOut::new(jobs.services.clone(), jobs.config.clone())).await
}

/// For tests: sends all notifications that are due by email.
pub async fn send_notification_mails(jobs: &BackgroundJobs) -> Result<(), AppError> {
    worker::run_once(&*jobs.mailer).await
}

/// For tests: sends all messages to chats that are due.
pub async fn send_chat_messages(jobs: &BackgroundJobs) -> Result<(), AppError> {
    worker::run_once(&*jobs.chats).await
}

/// For tests: removes orphaned objects, also recent ones.
pub async fn remove_orphaned_objects(jobs: &BackgroundJobs) -> Result<usize, AppError> {
    object_storage::remove_orphans(&jobs.services, -1).await
}

/// For tests: checks once whether fix pull requests were merged or closed.
pub async fn notice_fix_ends(jobs: &BackgroundJobs) -> Result<(), AppError> {
    FixEnds::new(jobs.fixes.clone()).turn().await.map(drop)
}

/// For tests: asks identity providers about all accounts that are due.
pub async fn check_providers(jobs: &BackgroundJobs) -> Result<(), AppError> {
    worker::run_once(&*jobs.provider_checks).await
}
