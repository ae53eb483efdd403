//! Stop: attempts of this process that somebody cancelled are told so.

use berth_store::query::environments::Running;

use crate::app::App;

pub(super) fn stop(app: &App, running: &[Running]) {
    let attempts = app.runner.attempts();
    for cancelled in running.iter().filter(|it| it.is_cancelling) {
        if let Some(attempt) = attempts.get(&cancelled.nonce)
            && attempt.cancel()
        {
            tracing::info!(deployment = %attempt.deployment, "deployment told to stop");
        }
    }
}
