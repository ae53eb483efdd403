//! Report: how an attempt ended is written down, however long the store takes to be there.

use berth_core::deployment::report::{self, Order, Outcome};

use super::attempt::Attempt;
use super::backoff::Backoff;
use super::decide;
use crate::app::App;

/// Once the server stops, the next start sees to what could not be written.
const TRIES_AT_SHUTDOWN_MAX: usize = 3;

pub(super) async fn report(app: &App, attempt: &Attempt, outcome: Outcome) {
    let mut backoff = Backoff::new();
    let mut tries_at_shutdown = 0;
    loop {
        let (deployment, nonce, said) = (attempt.deployment, attempt.nonce.clone(), outcome.clone());
        let rule = move |lock: &_, moment: &_| report::report(lock, deployment, &nonce, &said, moment);
        match decide(app, attempt.org, attempt.environment, rule).await {
            Ok(order) => {
                let is_kept = order == Some(Order::Continue);
                return tracing::info!(%deployment, ?outcome, is_kept, "deployment ended");
            }
            Err(error) => {
                tracing::error!(?error, %deployment, "the end of a deployment could not be written; it is tried again");
            }
        }
        if !app.shutdown.is_cancelled() {
            app.shutdown.run_until_cancelled(tokio::time::sleep(backoff.pause())).await;
            continue;
        }
        tries_at_shutdown += 1;
        if tries_at_shutdown == TRIES_AT_SHUTDOWN_MAX {
            return;
        }
        tokio::time::sleep(Backoff::new().pause()).await;
    }
}
