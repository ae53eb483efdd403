//! `TestLink`: the server's side of the runner protocol, in memory. It grants the steps that a test provides, records
//! all calls, and can simulate outages.

mod calls;

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use berth_api::runner::{AttemptAssignment, AttemptOrder, LinkError, StepReport};

/// Maximum time that a test waits for a condition.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

#[derive(Default)]
pub(crate) struct TestLink {
    state: Mutex<LinkState>,
    changed: Condvar,
}

#[derive(Default)]
struct LinkState {
    waiting: VecDeque<AttemptAssignment>,
    /// Granted assignments by nonce, so that a repeated request gets the same response.
    granted: HashMap<String, AttemptAssignment>,
    /// For each step, the steps that are granted in the responses to its reports, so that they run on the same thread.
    chains: HashMap<String, VecDeque<AttemptAssignment>>,
    logs: BTreeMap<String, Vec<u8>>,
    reports: Vec<StepReport>,
    /// Steps whose report got a response.
    answered: HashSet<String>,
    orders: HashMap<String, (AttemptOrder, Option<String>)>,
    artifacts: BTreeMap<String, Vec<u8>>,
    /// Targets of symlinks that checkouts contain, by name.
    symlinks: BTreeMap<String, String>,
    /// Built registries by digest. Each is a list of file names and contents.
    registries: BTreeMap<String, Vec<(String, String)>>,
    /// Digests of the fetched registries, in the order of the fetches.
    fetched_digests: Vec<String>,
    faults: Vec<String>,
    heartbeats: usize,
    /// For every request for work, its nonces and whether it got a response.
    acquires: Vec<(Vec<String>, bool)>,
    /// Every report received, including those that got no response.
    received_reports: Vec<StepReport>,
    is_unavailable: bool,
    /// If set, a checkout blocks until it is no longer wanted.
    has_slow_sources: bool,
    /// Number of checkouts.
    checkouts: usize,
    /// If set, checkouts fail.
    checkout_error: Option<LinkError>,
    /// Number of log chunks that are stored although their responses are lost.
    lost_log_responses: usize,
    /// Number of reports that are received although their responses are lost.
    lost_report_responses: usize,
    /// If set, the response to every log chunk is this error.
    log_error: Option<LinkError>,
    log_failures: usize,
    /// If set, log chunks get no response.
    is_log_held: bool,
    /// If set, the server becomes unavailable once a log has this length.
    unavailable_at_log_bytes: Option<usize>,
    /// If set, reports get no response.
    is_report_held: bool,
    /// Digests by image.
    pins: BTreeMap<String, String>,
}

impl TestLink {
    pub(crate) fn enqueue(&self, assignment: AttemptAssignment) {
        self.change(|state| state.waiting.push_back(assignment));
    }

    /// Grants the steps in `rest` one after another, on the same thread as `first`.
    pub(crate) fn enqueue_chain(&self, first: &str, rest: Vec<AttemptAssignment>) {
        self.change(|state| {
            let mut before = first.to_owned();
            for assignment in rest {
                let id = assignment.attempt.step_id.clone();
                state.chains.entry(before).or_default().push_back(assignment);
                before = id;
            }
        });
    }

    pub(crate) fn set_order(&self, step: &str, order: AttemptOrder, reason: Option<&str>) {
        self.change(|state| {
            state.orders.insert(step.to_owned(), (order, reason.map(str::to_owned)));
        });
    }

    pub(crate) fn set_unavailable(&self, is_away: bool) {
        self.change(|state| {
            state.is_unavailable = is_away;
            state.unavailable_at_log_bytes = None;
        });
    }

    pub(crate) fn block_checkouts(&self) {
        self.change(|state| state.has_slow_sources = true);
    }

    pub(crate) fn fail_checkouts(&self, error: Option<LinkError>) {
        self.change(|state| state.checkout_error = error);
    }

    pub(crate) fn count_checkouts(&self) -> usize {
        self.lock().checkouts
    }

    pub(crate) fn set_unavailable_at_log_bytes(&self, bytes: usize) {
        self.change(|state| state.unavailable_at_log_bytes = Some(bytes));
    }

    pub(crate) fn lose_log_responses(&self, count: usize) {
        self.change(|state| state.lost_log_responses = count);
    }

    pub(crate) fn lose_report_responses(&self, count: usize) {
        self.change(|state| state.lost_report_responses = count);
    }

    pub(crate) fn fail_log(&self, error: Option<LinkError>) {
        self.change(|state| state.log_error = error);
    }

    /// Removes the end of a log, as if the server that had it was lost.
    pub(crate) fn lose_log_after(&self, step: &str, length: usize) {
        self.change(|state| state.logs.entry(step.to_owned()).or_default().truncate(length));
    }

    pub(crate) fn hold_log(&self, is_held: bool) {
        self.change(|state| state.is_log_held = is_held);
    }

    pub(crate) fn hold_reports(&self, is_held: bool) {
        self.change(|state| state.is_report_held = is_held);
    }

    pub(crate) fn is_unavailable(&self) -> bool {
        self.lock().is_unavailable
    }

    pub(crate) fn wait_for_report(&self, step: &str) -> StepReport {
        self.wait(&format!("the report of {step}"), |state| {
            state.reports.iter().find(|report| report.attempt.step_id == step).cloned()
        })
    }

    pub(crate) fn has_report(&self, step: &str) -> bool {
        self.lock().reports.iter().any(|report| report.attempt.step_id == step)
    }

    pub(crate) fn wait_for_reports(&self, count: usize) -> Vec<StepReport> {
        self.wait(&format!("{count} reports"), |state| {
            (state.reports.len() >= count).then(|| state.reports.clone())
        })
    }

    pub(crate) fn wait_for_heartbeats(&self, count: usize) {
        self.wait(&format!("{count} heartbeats"), |state| (state.heartbeats >= count).then_some(()));
    }

    /// Waits until `count` requests for work got a response (or got none, if `is_answered` is false). Returns all
    /// requests: their nonces, and whether they got a response.
    pub(crate) fn wait_for_acquires(&self, count: usize, is_answered: bool) -> Vec<(Vec<String>, bool)> {
        self.wait(&format!("{count} questions"), |state| {
            let found = state.acquires.iter().filter(|(_, answered)| *answered == is_answered).count();
            (found >= count).then(|| state.acquires.clone())
        })
    }

    /// Waits until a step was reported `count` times, and returns these reports. Includes reports that got no response.
    pub(crate) fn wait_for_report_attempts(&self, step: &str, count: usize) -> Vec<StepReport> {
        self.wait(&format!("{count} tries to report {step}"), |state| {
            let said = state.received_reports.iter().filter(|report| report.attempt.step_id == step);
            let said: Vec<StepReport> = said.cloned().collect();
            (said.len() >= count).then_some(said)
        })
    }

    pub(crate) fn wait_for_log_failures(&self, count: usize) {
        self.wait(&format!("{count} chunks not taken"), |state| (state.log_failures >= count).then_some(()));
    }

    pub(crate) fn wait_for_log(&self, step: &str, part: &str) {
        self.wait(&format!("{part:?} in the log of {step}"), |state| {
            let log = state.logs.get(step)?;
            String::from_utf8_lossy(log).contains(part).then_some(())
        });
    }

    pub(crate) fn log_of(&self, step: &str) -> Vec<u8> {
        self.lock().logs.get(step).cloned().unwrap_or_default()
    }

    pub(crate) fn text_of(&self, step: &str) -> String {
        String::from_utf8_lossy(&self.log_of(step)).into_owned()
    }

    pub(crate) fn store_artifact(&self, name: &str, content: &[u8]) {
        self.change(|state| drop(state.artifacts.insert(name.to_owned(), content.to_vec())));
    }

    pub(crate) fn set_symlink(&self, name: &str, target: &str) {
        self.change(|state| drop(state.symlinks.insert(name.to_owned(), target.to_owned())));
    }

    pub(crate) fn stored_artifacts(&self) -> BTreeMap<String, Vec<u8>> {
        self.lock().artifacts.clone()
    }

    pub(crate) fn offer_registry(&self, digest: &str, files: &[(&str, &str)]) {
        let owned = files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        self.change(|state| {
            state.registries.insert(digest.to_owned(), owned);
        });
    }

    pub(crate) fn fetched_registries(&self) -> Vec<String> {
        self.lock().fetched_digests.clone()
    }

    pub(crate) fn pins(&self) -> BTreeMap<String, String> {
        self.lock().pins.clone()
    }

    /// Fails if there were gaps or overlaps in logs, or duplicate reports.
    pub(crate) fn check_no_faults(&self) {
        assert_eq!(self.lock().faults, Vec::<String>::new());
    }

    fn lock(&self) -> MutexGuard<'_, LinkState> {
        self.state.lock().expect("not poisoned")
    }

    fn change(&self, change: impl FnOnce(&mut LinkState)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    fn wait<T>(&self, what: &str, find: impl Fn(&LinkState) -> Option<T>) -> T {
        let until = Instant::now() + PATIENCE;
        let mut state = self.lock();
        loop {
            if let Some(found) = find(&state) {
                return found;
            }
            let left = until.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "waited in vain for {what}; reports: {:?}", state.reports);
            state = self.changed.wait_timeout(state, left).expect("not poisoned").0;
        }
    }

    fn lock_if_available(&self) -> Result<MutexGuard<'_, LinkState>, LinkError> {
        let state = self.lock();
        if state.is_unavailable { Err(LinkError::Unavailable("away".into())) } else { Ok(state) }
    }
}
