//! Lead: of several servers over one database, one does the background work.
//!
//! The lease is a row, renewed in the store's time. A server that cannot renew it stops long before it runs out, on its own
//! clock. Work that is doubled all the same, because a server was asleep, finds rows that say no: every loop may run twice.

use std::sync::Arc;
use std::time::Duration;

use berth_store::records::lease;
use tokio::sync::watch;
use tokio::time::Instant;

use super::keep_on;
use crate::app::App;
use crate::error::AppError;

const NAME: &str = "background work";
const LEASE_S: i64 = 10;
const RENEW_EVERY: Duration = Duration::from_secs(2);
const RENEW_MAX: Duration = Duration::from_secs(2);
/// After the last renewal, counted from when it was sent. With what a renewal takes it is less than the lease.
const LEADS_MAX: Duration = Duration::from_secs(5);

const HEAR_PAUSE: Duration = Duration::from_millis(20);

/// Whether this server leads.
pub(crate) struct Lead(watch::Sender<bool>);

impl Default for Lead {
    fn default() -> Self {
        Self(watch::Sender::new(false))
    }
}

impl Lead {
    pub(crate) fn leads(&self) -> bool {
        *self.0.borrow()
    }
}

/// Runs until the server stops.
pub(super) async fn leads(app: Arc<App>) {
    if !app.store.is_shared() {
        app.lead.0.send_replace(true);
        return app.shutdown.cancelled().await;
    }
    let mut until = Instant::now();
    while !app.shutdown.is_cancelled() {
        let asked = Instant::now();
        match tokio::time::timeout(RENEW_MAX, take(&app)).await {
            Ok(Ok(true)) => until = asked + LEADS_MAX,
            Ok(Ok(false)) => until = asked,
            Ok(Err(error)) => tracing::warn!(?error, "the lease of the background work could not be renewed"),
            Err(_) => tracing::warn!("the lease of the background work could not be renewed in time"),
        }
        let now = Instant::now();
        let changed =
            app.lead.0.send_if_modified(|leads| std::mem::replace(leads, now < until) != (now < until));
        if changed {
            tracing::info!(leads = now < until, "background work of the installation");
        }
        let pause = if now < until { RENEW_EVERY.min(until - now) } else { RENEW_EVERY };
        app.shutdown.run_until_cancelled(tokio::time::sleep(pause)).await;
    }
    // Another one need not wait until it has run out.
    let boot = app.engine.boot().to_owned();
    let left = app.store.transact_lease(move |tx| Ok::<_, AppError>(lease::leave(tx, NAME, &boot)?));
    let _ = tokio::time::timeout(RENEW_MAX, left).await;
}

async fn take(app: &App) -> Result<bool, AppError> {
    let boot = app.engine.boot().to_owned();
    app.store.transact_lease(move |tx| Ok::<_, AppError>(lease::take(tx, NAME, &boot, LEASE_S)?)).await
}

/// Begins whenever this server leads, and ends when it does not.
pub(super) async fn while_leading<F>(name: &str, app: &Arc<App>, work: fn(Arc<App>) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let mut leads = app.lead.0.subscribe();
    loop {
        let begun = app.shutdown.run_until_cancelled(leads.wait_for(|leads| *leads)).await;
        let leads_now = matches!(begun, Some(Ok(_)));
        drop(begun);
        if !leads_now {
            return;
        }
        tokio::select! {
            () = keep_on(name, app, work) => return,
            _ = leads.wait_for(|leads| !*leads) => {}
        }
    }
}

/// What another server has committed is looked at as if it had been committed here.
pub(super) async fn hears(app: Arc<App>) {
    let Some(mut nudged) = app.store.nudged() else { return };
    while let Some(Ok(())) = app.shutdown.run_until_cancelled(nudged.changed()).await {
        app.nudge();
        // What others commit in a short while is looked at in one go.
        app.shutdown.run_until_cancelled(tokio::time::sleep(HEAR_PAUSE)).await;
    }
}
