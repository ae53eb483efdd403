//! One look at everything.

use std::collections::BTreeMap;

use berth_core::runner::State;
use berth_store::commits::BOUNDS_US;
use berth_store::query::measured::{Measured, measured};

use super::requests::seconds;
use super::text::Text;
use crate::app::App;
use crate::error::AppError;

/// All of them, so that a state nobody is in is a zero and not a gap.
const RUNNER_STATES: [(State, &str); 5] = [
    (State::Pending, "pending"),
    (State::Online, "online"),
    (State::Draining, "draining"),
    (State::Offline, "offline"),
    (State::Lost, "lost"),
];

pub(super) async fn scrape(app: &App) -> String {
    let mut text = Text::default();
    text.about("berth_build_info", "gauge", "The version that runs.");
    text.sample("berth_build_info", &[("version", env!("CARGO_PKG_VERSION"))], 1);
    let leads = u8::from(app.jobs.lead.leads());
    text.single("berth_leader", "gauge", "Whether this server does the background work.", leads);
    if let Ok(info) = rustix::fs::statvfs(&app.config.data_dir) {
        let free = info.f_bavail * info.f_frsize;
        text.single("berth_data_free_bytes", "gauge", "Free space where the data directory is.", free);
    }
    app.requests.write(&mut text);
    commits(app, &mut text);
    let looked = app.services.store.read(None, |db| Ok::<_, AppError>((measured(db)?, db.now()))).await;
    let is_up = u8::from(looked.is_ok());
    text.single("berth_database_up", "gauge", "Whether the database answers.", is_up);
    match looked {
        Ok((found, now)) => {
            let mut states: BTreeMap<&str, u64> = RUNNER_STATES.iter().map(|(_, word)| (*word, 0)).collect();
            for runner in &found.runners {
                let state = runner.state(now, &app.config.runner_times);
                let word =
                    RUNNER_STATES.iter().find(|(known, _)| *known == state).map_or("other", |(_, word)| word);
                *states.entry(word).or_default() += 1;
            }
            stands(&mut text, &found, &states);
        }
        Err(error) => tracing::warn!(?error, "the database cannot be measured"),
    }
    text.finish()
}

fn commits(app: &App, text: &mut Text) {
    let counted = app.services.store.commits();
    let name = "berth_database_commit_duration_seconds";
    text.about(name, "histogram", "How long commits took, with everything that was in them.");
    let within = BOUNDS_US.iter().zip(counted.within).map(|(bound, within)| (seconds(*bound), within));
    text.histogram(name, &[], within, counted.count, seconds(counted.sum_us));
    let help = "Changes that were committed, or rolled back; several share a commit.";
    text.single("berth_database_changes_total", "counter", help, counted.jobs);
    let help = "Changes that wait for a writer.";
    text.single("berth_database_queue_length", "gauge", help, counted.waiting);
}

fn stands(text: &mut Text, found: &Measured, runners: &BTreeMap<&str, u64>) {
    let gauges = [
        ("berth_sessions_held", "Environments that somebody holds.", found.held_sessions),
        ("berth_tickets_waiting", "Places in lines for environments.", found.waiting_tickets),
        ("berth_steps_running", "Steps that run now.", found.running_steps),
        (
            "berth_deployments_ready",
            "Deployments of which a step waits for a runner or its time.",
            found.ready_deployments,
        ),
        (
            "berth_deployments_queued",
            "Deployments that wait to be let into a stage.",
            found.queued_deployments,
        ),
        ("berth_webhooks_failing", "Webhooks whose last delivery failed.", found.failing_webhooks),
        ("berth_webhooks_inactive", "Webhooks that are switched off.", found.silent_webhooks),
    ];
    for (name, help, value) in gauges {
        text.single(name, "gauge", help, value);
    }
    let help = "Events in the histories of all organizations.";
    text.single("berth_events_total", "counter", help, found.events);
    text.about("berth_runners", "gauge", "Runners on other machines, by state.");
    for (state, count) in runners {
        text.sample("berth_runners", &[("state", state)], count);
    }
}
