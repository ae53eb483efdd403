//! Polls the server for work and starts a thread for each assignment.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use berth_api::runner::{
    AcquireParams, AttemptAssignment, AttemptOrder, FailureCause, Isolation, LinkError, StepReport,
    StepRunOutcome,
};

use crate::attempt::{self, AttemptResult, failed_outcome};
use crate::backoff::Backoff;
use crate::heartbeat::boot_time;
use crate::random;
use crate::runner::RunnerShared;
use crate::stop_signal::StopSignal;

/// Runs until the runner has shut down and every step has ended.
pub(crate) fn run(shared: &Arc<RunnerShared>) {
    let mut dispatcher = Dispatcher { nonces: Vec::new(), workers: Vec::new() };
    let mut backoff = Backoff::new();
    while let Some(free) = shared.wait_for_free_slot() {
        dispatcher.workers.retain(|worker| !worker.is_finished());
        // Reuse the nonces of a request until the server has responded, so that the server can repeat a response that
        // was lost.
        dispatcher.nonces.truncate(free);
        while dispatcher.nonces.len() < free {
            match random::random_hex() {
                Ok(nonce) => dispatcher.nonces.push(nonce),
                Err(error) => {
                    tracing::error!(%error, "cannot generate nonces; retrying");
                    shared.pause(backoff.next());
                }
            }
        }
        let request = AcquireParams {
            boot: shared.settings.boot.clone(),
            nonces: dispatcher.nonces.clone(),
            labels: shared.settings.labels.clone(),
        };
        let (began, sent) = (Instant::now(), boot_time());
        match shared.link.acquire(&request, shared.settings.acquire_wait) {
            Ok(assignments) => {
                backoff = Backoff::new();
                // Discard the nonces even if there are no assignments: the server may have granted a step and ended its
                // attempt right away.
                dispatcher.nonces.clear();
                let is_empty = assignments.is_empty();
                for assignment in assignments {
                    // While draining, hand the assignment back, so that another runner can take it.
                    if shared.is_draining() {
                        hand_back(shared, &assignment);
                    } else {
                        dispatcher.start_worker(shared, LeasedAssignment::new(assignment, sent));
                    }
                }
                // Pause if the link returns at once instead of long polling, to avoid a busy loop.
                if is_empty && began.elapsed() < Duration::from_millis(5) {
                    shared.pause(Duration::from_millis(50).min(shared.settings.acquire_wait));
                }
            }
            Err(error) => {
                tracing::warn!(%error, "cannot poll for work; retrying");
                shared.pause(backoff.next());
            }
        }
    }
    for worker in dispatcher.workers {
        if worker.join().is_err() {
            tracing::error!("step thread panicked");
        }
    }
}

struct Dispatcher {
    /// Nonces of the current request, which the server has not responded to yet.
    nonces: Vec<String>,
    workers: Vec<JoinHandle<()>>,
}

impl Dispatcher {
    fn start_worker(&mut self, shared: &Arc<RunnerShared>, leased: LeasedAssignment) {
        shared.take_slot();
        let (of_worker, attempt) = (shared.clone(), leased.assignment.attempt.clone());
        let worker = std::thread::Builder::new().name("runner-step".into()).spawn(move || {
            run_worker(&of_worker, leased);
            of_worker.free_slot();
        });
        match worker {
            Ok(worker) => self.workers.push(worker),
            Err(error) => {
                shared.free_slot();
                // The attempt gets no heartbeats, so the server will declare it lost.
                tracing::error!(step = %attempt.step_id, %error, "cannot start step thread");
            }
        }
    }
}

/// Hands back an assignment that arrived while the runner was draining. It is reported as never started.
fn hand_back(shared: &Arc<RunnerShared>, assignment: &AttemptAssignment) {
    let outcome = StepRunOutcome::never_started("the runner is draining".into());
    report_until_received(shared, assignment, None, outcome, Isolation::None, 0);
}

/// An assignment and the start of its lease.
struct LeasedAssignment {
    assignment: AttemptAssignment,
    /// A CLOCK_BOOTTIME value, which also advances during suspend. Never later than the start of the lease on the
    /// server.
    leased_at: Duration,
}

impl LeasedAssignment {
    /// `sent` is the time at which the runner sent the request whose response contained the assignment.
    fn new(assignment: AttemptAssignment, sent: Duration) -> Self {
        let leased_at = sent.saturating_sub(Duration::from_millis(assignment.granted_ms_ago));
        Self { assignment, leased_at }
    }
}

/// Executes an assignment. If the response to its report contains another assignment, executes that as well, and so on.
fn run_worker(shared: &Arc<RunnerShared>, first: LeasedAssignment) {
    let mut next = Some(first);
    while let Some(LeasedAssignment { assignment, leased_at }) = next {
        let control = match StopSignal::new() {
            Ok(control) => Arc::new(control),
            Err(error) => {
                let outcome = StepRunOutcome::never_started(format!("cannot prepare the step: {error}"));
                report_until_received(shared, &assignment, None, outcome, Isolation::None, 0);
                return;
            }
        };
        if !shared.register_attempt(&assignment.attempt, &control) {
            return;
        }
        tracing::debug!(step = %assignment.attempt.step_id, number = assignment.attempt.number, "step started");
        let finished =
            catch_unwind(AssertUnwindSafe(|| attempt::execute(shared, &assignment, &control, leased_at)));
        let AttemptResult { outcome, isolation, log_bytes, dirs } =
            finished.unwrap_or_else(|_| AttemptResult {
                outcome: failed_outcome(
                    FailureCause::Invalid,
                    "internal error of the runner; see its log".into(),
                ),
                isolation: Isolation::None,
                log_bytes: 0,
                dirs: None,
            });
        next = report_until_received(shared, &assignment, Some(&control), outcome, isolation, log_bytes);
        shared.unregister_attempt(&assignment.attempt);
        if let Some(spool) = &shared.settings.spool {
            spool.record_end(&assignment.attempt.nonce);
        }
        if let Some(dirs) = dirs {
            shared.cleanup.remove(&dirs);
        }
    }
}

/// Repeats the report until the server has received it. Returns the next assignment, if the server granted one. Without
/// `control`, no further work is requested, so `None` is returned.
fn report_until_received(
    shared: &Arc<RunnerShared>,
    assignment: &AttemptAssignment,
    control: Option<&StopSignal>,
    outcome: StepRunOutcome,
    isolation: Isolation,
    log_bytes: u64,
) -> Option<LeasedAssignment> {
    let is_stale = || control.is_some_and(StopSignal::is_stale);
    // Do not request the next step while draining or shutting down, because this runner would drop it. A repeated
    // report requests the next step under the same nonce: if the response that granted the step was lost, no other
    // runner would execute it.
    let wants_next = control.is_some() && !shared.is_shutting_down() && !shared.is_draining();
    let report = StepReport {
        attempt: assignment.attempt.clone(),
        outcome,
        isolation,
        network: (isolation != Isolation::None).then_some(assignment.network),
        exposed: if isolation == Isolation::None {
            Vec::new()
        } else {
            shared.settings.confinement.exposed_paths()
        },
        log_bytes,
        next_nonce: if wants_next { random::random_hex().ok() } else { None },
        boot: shared.settings.boot.clone(),
        labels: shared.settings.labels.clone(),
    };
    let mut backoff = Backoff::new();
    // A heartbeat also returns "stale" once the server has received this report. If the response to the report was
    // lost, so was the next assignment, so repeat the report to get it.
    let mut may_be_heard = false;
    while !is_stale() || (may_be_heard && report.next_nonce.is_some()) {
        let sent = boot_time();
        match shared.link.report(&report) {
            Ok(answer) => {
                let is_kept = answer.order != AttemptOrder::Stale;
                tracing::debug!(step = %assignment.attempt.step_id, is_kept, "step reported");
                return answer.next.map(|next| LeasedAssignment::new(next, sent));
            }
            Err(error @ (LinkError::Refused(_) | LinkError::LogGap { .. })) => {
                tracing::error!(step = %assignment.attempt.step_id, %error, "report refused");
                return None;
            }
            Err(LinkError::Unavailable(text)) => {
                may_be_heard = true;
                if shared.is_past_deadline() {
                    tracing::error!(step = %assignment.attempt.step_id, error = text, "report not delivered before shutdown");
                    return None;
                }
                shared.pause(backoff.next());
            }
        }
    }
    None
}
