//! Leader election: if several servers share a database, one of them runs the background jobs that only one server may
//! run.
//!
//! The leader holds a lease: a database row with an expiry in database time. A server that cannot renew its lease stops
//! its jobs well before the lease expires, measured by the server's own clock. A suspended server may still run a job
//! at the same time as the new leader. That is safe: row versions reject outdated changes, and every job is safe to run
//! twice.
//!
//! In the same transactions, every server records that it is running and which schema it knows. Contract migrations
//! wait for older servers.

use std::sync::Arc;
use std::time::Duration;

use berth_engine::Services;
use berth_store::tables::{lease, server};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::BackgroundJobs;
use crate::error::AppError;
use crate::worker::{self, BackgroundJob};

const NAME: &str = "background work";
const LEASE_S: i64 = 10;
const RENEW_EVERY: Duration = Duration::from_secs(2);
const RENEW_MAX: Duration = Duration::from_secs(2);
/// How long this server stays the leader after it sent its last successful renewal. Shorter than the lease, even
/// including the time that a renewal takes.
const LEADS_MAX: Duration = Duration::from_secs(5);

const LISTEN_PAUSE: Duration = Duration::from_millis(20);

/// Whether this server is the leader.
pub(crate) struct LeaderState(watch::Sender<bool>);

impl Default for LeaderState {
    fn default() -> Self {
        Self(watch::Sender::new(false))
    }
}

impl LeaderState {
    pub(crate) fn is_leader(&self) -> bool {
        *self.0.borrow()
    }

    /// Runs a job while this server is the leader.
    pub(super) async fn run<J: BackgroundJob>(&self, job: Arc<J>, shutdown: &CancellationToken) {
        let mut leads = self.0.subscribe();
        loop {
            let begun = shutdown.run_until_cancelled(leads.wait_for(|leads| *leads)).await;
            let leads_now = matches!(begun, Some(Ok(_)));
            drop(begun);
            if !leads_now {
                return;
            }
            tokio::select! {
                () = worker::run(job.clone(), shutdown.clone()) => return,
                _ = leads.wait_for(|leads| !*leads) => {}
            }
        }
    }
}

/// Acquires and renews the lease until the server stops.
pub(super) async fn renew_lease(jobs: Arc<BackgroundJobs>) {
    if !jobs.services.store.is_shared() {
        jobs.lead.0.send_replace(true);
        return jobs.services.shutdown.cancelled().await;
    }
    sweep_servers(&jobs).await;
    let mut until = Instant::now();
    while !jobs.services.shutdown.is_cancelled() {
        let asked = Instant::now();
        match tokio::time::timeout(RENEW_MAX, take_lease(&jobs)).await {
            Ok(Ok(true)) => until = asked + LEADS_MAX,
            Ok(Ok(false)) => until = asked,
            Ok(Err(error)) => tracing::warn!(?error, "cannot renew the leader lease"),
            Err(_) => tracing::warn!("timed out renewing the leader lease"),
        }
        let now = Instant::now();
        let changed =
            jobs.lead.0.send_if_modified(|leads| std::mem::replace(leads, now < until) != (now < until));
        if changed {
            tracing::info!(leads = now < until, "leadership changed");
        }
        let pause = if now < until { RENEW_EVERY.min(until - now) } else { RENEW_EVERY };
        jobs.services.shutdown.run_until_cancelled(tokio::time::sleep(pause)).await;
    }
    // Release the lease, so that another server does not have to wait until it expires.
    let boot = jobs.services.engine.boot().to_owned();
    let left = jobs.services.store.transact_lease(move |tx| {
        server::delete(tx, &boot)?;
        Ok::<_, AppError>(lease::release(tx, NAME, &boot)?)
    });
    let _ = tokio::time::timeout(RENEW_MAX, left).await;
}

async fn take_lease(jobs: &BackgroundJobs) -> Result<bool, AppError> {
    let boot = jobs.services.engine.boot().to_owned();
    jobs.services
        .store
        .transact_lease(move |tx| {
            server::put_heartbeat(tx, &boot, env!("CARGO_PKG_VERSION"))?;
            Ok::<_, AppError>(lease::acquire(tx, NAME, &boot, LEASE_S)?)
        })
        .await
}

async fn sweep_servers(jobs: &BackgroundJobs) {
    let swept = jobs.services.store.transact_lease(|tx| Ok::<_, AppError>(server::delete_stopped(tx)?)).await;
    if let Err(error) = swept {
        tracing::warn!(?error, "cannot remove the records of stopped servers");
    }
}

/// Wakes the engine when another server has committed a transaction.
pub(super) async fn listen(services: Arc<Services>) {
    let Some(mut nudged) = services.store.watch_remote_commits() else { return };
    while let Some(Ok(())) = services.shutdown.run_until_cancelled(nudged.changed()).await {
        services.wake_engine();
        // Debounce: transactions committed in quick succession are handled together.
        services.shutdown.run_until_cancelled(tokio::time::sleep(LISTEN_PAUSE)).await;
    }
}
