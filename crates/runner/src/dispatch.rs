//! Asks for work, and gives each assignment a thread.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use berth_api::runner::{Acquire, Assignment, FailureCause, Isolation, LinkError, Order, Outcome, Report};

use crate::attempt::{self, Finished, failed};
use crate::backoff::Backoff;
use crate::chance;
use crate::control::Control;
use crate::pulse::boot_time;
use crate::runner::Shared;

/// Until the runner ends; comes back when every step has.
pub(crate) fn run(shared: &Arc<Shared>) {
    let mut places = Places { nonces: Vec::new(), workers: Vec::new() };
    let mut backoff = Backoff::new();
    while let Some(free) = shared.wait_for_place() {
        places.workers.retain(|worker| !worker.is_finished());
        // A question keeps its nonces until it is answered: an answer that got lost is given again.
        places.nonces.truncate(free);
        while places.nonces.len() < free {
            match chance::name() {
                Ok(nonce) => places.nonces.push(nonce),
                Err(error) => {
                    tracing::error!("no random numbers: {error}");
                    shared.pause(backoff.next());
                }
            }
        }
        let asked = Acquire {
            boot: shared.settings.boot.clone(),
            nonces: places.nonces.clone(),
            labels: shared.settings.labels.clone(),
        };
        let (began, sent) = (Instant::now(), boot_time());
        match shared.link.acquire(&asked, shared.settings.acquire_wait) {
            Ok(assignments) => {
                backoff = Backoff::new();
                // Also one that brought nothing is spent: the server may have granted it and ended the attempt at once.
                places.nonces.clear();
                let is_empty = assignments.is_empty();
                for assignment in assignments {
                    // It was asked for before: whoever else can have it is not kept waiting.
                    if shared.is_draining() {
                        hand_back(shared, &assignment);
                    } else {
                        places.give(shared, Leased::new(assignment, sent));
                    }
                }
                // A link that does not wait is not asked without a pause.
                if is_empty && began.elapsed() < Duration::from_millis(5) {
                    shared.pause(Duration::from_millis(50).min(shared.settings.acquire_wait));
                }
            }
            Err(error) => {
                tracing::warn!("cannot ask for work: {error}");
                shared.pause(backoff.next());
            }
        }
    }
    for worker in places.workers {
        if worker.join().is_err() {
            tracing::error!("a thread of a step has panicked");
        }
    }
}

struct Places {
    /// Of a question that is not answered yet.
    nonces: Vec<String>,
    workers: Vec<JoinHandle<()>>,
}

impl Places {
    fn give(&mut self, shared: &Arc<Shared>, leased: Leased) {
        shared.take_place();
        let (of_worker, attempt) = (shared.clone(), leased.assignment.attempt.clone());
        let worker = std::thread::Builder::new().name("runner-step".into()).spawn(move || {
            work(&of_worker, leased);
            of_worker.free_place();
        });
        match worker {
            Ok(worker) => self.workers.push(worker),
            Err(error) => {
                shared.free_place();
                // The server gives the attempt up when nobody gives a sign of life for it.
                tracing::error!(step = %attempt.step_id, "cannot start a thread for a step: {error}");
            }
        }
    }
}

/// What came while the runner takes nothing more: nothing of it ever ran.
fn hand_back(shared: &Arc<Shared>, assignment: &Assignment) {
    let outcome = Outcome::never_started("its runner takes nothing more".into());
    report(shared, assignment, None, outcome, Isolation::None, 0);
}

/// Work, and since when it is counted on.
struct Leased {
    assignment: Assignment,
    /// On the clock that goes on while the machine sleeps. Never later than the server's own count begins.
    since: Duration,
}

impl Leased {
    /// `sent` is when the question was, to which it is the answer.
    fn new(assignment: Assignment, sent: Duration) -> Self {
        let since = sent.saturating_sub(Duration::from_millis(assignment.granted_ms_ago));
        Self { assignment, since }
    }
}

/// One step, and then whatever the answer to its report brings.
fn work(shared: &Arc<Shared>, first: Leased) {
    let mut next = Some(first);
    while let Some(Leased { assignment, since }) = next {
        let control = match Control::new() {
            Ok(control) => Arc::new(control),
            Err(error) => {
                let outcome = Outcome::never_started(format!("cannot prepare the step: {error}"));
                report(shared, &assignment, None, outcome, Isolation::None, 0);
                return;
            }
        };
        if !shared.begin(&assignment.attempt, &control) {
            return;
        }
        tracing::debug!(step = %assignment.attempt.step_id, number = assignment.attempt.number, "step begins");
        let finished =
            catch_unwind(AssertUnwindSafe(|| attempt::execute(shared, &assignment, &control, since)));
        let Finished { outcome, isolation, log_bytes, place } = finished.unwrap_or_else(|_| Finished {
            outcome: failed(FailureCause::Invalid, "the runner has a fault, see its log".into()),
            isolation: Isolation::None,
            log_bytes: 0,
            place: None,
        });
        next = report(shared, &assignment, Some(&control), outcome, isolation, log_bytes);
        shared.finish(&assignment.attempt);
        if let Some(spool) = &shared.settings.spool {
            spool.over(&assignment.attempt.nonce);
        }
        if let Some(place) = place {
            shared.cleanup.remove(&place);
        }
    }
}

/// Reports how it ended until the server has heard it, and returns what comes next; nothing does without a `control`.
fn report(
    shared: &Arc<Shared>,
    assignment: &Assignment,
    control: Option<&Control>,
    outcome: Outcome,
    isolation: Isolation,
    log_bytes: u64,
) -> Option<Leased> {
    let is_stale = || control.is_some_and(Control::is_stale);
    // Whoever drops the next step must not ask for one. What was asked for once is asked for again: the answer that
    // grants it may have got lost, and nobody else would execute it.
    let wants_next = control.is_some() && !shared.is_ending() && !shared.is_draining();
    let report = Report {
        attempt: assignment.attempt.clone(),
        outcome,
        isolation,
        network: (isolation != Isolation::None).then_some(assignment.network),
        exposed: if isolation == Isolation::None {
            Vec::new()
        } else {
            shared.settings.confinement.exposed()
        },
        log_bytes,
        next_nonce: if wants_next { chance::name().ok() } else { None },
        boot: shared.settings.boot.clone(),
        labels: shared.settings.labels.clone(),
    };
    let mut backoff = Backoff::new();
    // Stale is also what the heartbeat is told of an attempt whose end was heard: then the answer got lost, and with it
    // perhaps what comes next. Only the answer itself tells.
    let mut may_be_heard = false;
    while !is_stale() || (may_be_heard && report.next_nonce.is_some()) {
        let sent = boot_time();
        match shared.link.report(&report) {
            Ok(answer) => {
                let is_kept = answer.order != Order::Stale;
                tracing::debug!(step = %assignment.attempt.step_id, is_kept, "step reported");
                return answer.next.map(|next| Leased::new(next, sent));
            }
            Err(LinkError::Refused(text)) => {
                tracing::error!(step = %assignment.attempt.step_id, "the report is refused: {text}");
                return None;
            }
            Err(LinkError::Unavailable(text)) => {
                may_be_heard = true;
                if shared.has_to_end() {
                    tracing::error!(step = %assignment.attempt.step_id, "the report did not arrive: {text}");
                    return None;
                }
                shared.pause(backoff.next());
            }
        }
    }
    None
}
