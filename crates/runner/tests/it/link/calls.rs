//! The calls of the runner.

use std::collections::VecDeque;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, Instant};

use berth_api::runner::{
    AcquireParams, AttemptAssignment, AttemptInstruction, AttemptOrder, AttemptRef, LinkError, ReportReceipt,
    RunnerHeartbeat, RunnerLink, StepReport, WantedCheck,
};

use super::{LinkState, PATIENCE, TestLink};

/// Poll interval.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

impl LinkState {
    fn grant(&mut self, nonce: &str, mut assignment: AttemptAssignment) -> AttemptAssignment {
        nonce.clone_into(&mut assignment.attempt.nonce);
        self.granted.insert(nonce.to_owned(), assignment.clone());
        assignment
    }

    fn instruction_for(&self, attempt: &AttemptRef) -> Option<AttemptInstruction> {
        let (order, reason) = self.orders.get(&attempt.step_id)?.clone();
        (order != AttemptOrder::Continue).then(|| AttemptInstruction {
            nonce: attempt.nonce.clone(),
            order,
            reason,
        })
    }

    fn order_for(&self, attempt: &AttemptRef) -> AttemptOrder {
        self.orders.get(&attempt.step_id).map_or(AttemptOrder::Continue, |(order, _)| *order)
    }
}

impl RunnerLink for TestLink {
    fn acquire(&self, asked: &AcquireParams, wait: Duration) -> Result<Vec<AttemptAssignment>, LinkError> {
        let until = Instant::now() + wait;
        let mut state = self.lock();
        let is_away = state.is_unavailable;
        state.acquires.push((asked.nonces.clone(), !is_away));
        self.changed.notify_all();
        if is_away {
            return Err(LinkError::Unavailable("away".into()));
        }
        loop {
            let mut given = Vec::new();
            for nonce in &asked.nonces {
                if let Some(earlier) = state.granted.get(nonce) {
                    given.push(earlier.clone());
                } else if let Some(assignment) = state.waiting.pop_front() {
                    given.push(state.grant(nonce, assignment));
                }
            }
            let left = until.saturating_duration_since(Instant::now());
            if !given.is_empty() || left.is_zero() {
                return Ok(given);
            }
            state = self.changed.wait_timeout(state, left).expect("not poisoned").0;
        }
    }

    fn heartbeat(
        &self,
        beat: &RunnerHeartbeat,
        wait: Duration,
    ) -> Result<Vec<AttemptInstruction>, LinkError> {
        let until = Instant::now() + wait;
        let mut state = self.lock_if_available()?;
        state.heartbeats += 1;
        self.changed.notify_all();
        loop {
            let told: Vec<AttemptInstruction> =
                beat.attempts.iter().filter_map(|attempt| state.instruction_for(attempt)).collect();
            let left = until.saturating_duration_since(Instant::now());
            if !told.is_empty() || left.is_zero() {
                return Ok(told);
            }
            if state.is_unavailable {
                return Err(LinkError::Unavailable("away".into()));
            }
            state = self.changed.wait_timeout(state, left).expect("not poisoned").0;
        }
    }

    fn append_log(&self, attempt: &AttemptRef, offset: u64, bytes: &[u8]) -> Result<AttemptOrder, LinkError> {
        self.wait("an answer to a chunk", |state| (!state.is_log_held).then_some(()));
        let mut state = self.lock();
        let away = state.is_unavailable.then(|| LinkError::Unavailable("away".into()));
        if let Some(error) = away.or(state.log_error.clone()) {
            state.log_failures += 1;
            self.changed.notify_all();
            return Err(error);
        }
        let order = state.order_for(attempt);
        if bytes.len() > berth_runner::LOG_CHUNK_BYTES_MAX {
            state.faults.push(format!("a chunk of {} bytes", bytes.len()));
        }
        let offset = usize::try_from(offset).expect("small");
        let step = attempt.step_id.clone();
        let log = state.logs.entry(step).or_default();
        let mut fault = None;
        if offset > log.len() {
            return Err(LinkError::LogGap { length: log.len() as u64 });
        }
        if offset == log.len() {
            log.extend_from_slice(bytes);
        } else if log.get(offset..offset + bytes.len()) != Some(bytes) {
            fault = Some(format!("bytes at {offset} of a log of {}", log.len()));
        }
        let length = log.len();
        state.faults.extend(fault);
        if state.unavailable_at_log_bytes.is_some_and(|limit| length >= limit) {
            state.is_unavailable = true;
        }
        let is_lost = state.lost_log_responses > 0;
        state.lost_log_responses = state.lost_log_responses.saturating_sub(1);
        drop(state);
        self.changed.notify_all();
        if is_lost { Err(LinkError::Unavailable("the answer got lost".into())) } else { Ok(order) }
    }

    fn report(&self, report: &StepReport) -> Result<ReportReceipt, LinkError> {
        self.change(|state| state.received_reports.push(report.clone()));
        let mut state = self.lock_if_available()?;
        let order = state.order_for(&report.attempt);
        let step = report.attempt.step_id.clone();
        let length = state.logs.get(&step).map_or(0, Vec::len) as u64;
        if length != report.log_bytes {
            let fault = format!("{step}: {} bytes reported, {length} there", report.log_bytes);
            state.faults.push(fault);
        }
        if state.reports.iter().any(|earlier| earlier.attempt.nonce == report.attempt.nonce) {
            // A report may only be repeated if it got no response.
            if state.answered.contains(&step) {
                state.faults.push(format!("{step} is reported twice"));
            }
        } else {
            state.reports.push(report.clone());
        }
        let next = report.next_nonce.as_ref().and_then(|nonce| match state.granted.get(nonce) {
            Some(earlier) => Some(earlier.clone()),
            None => {
                let next = state.chains.get_mut(&step).and_then(VecDeque::pop_front)?;
                Some(state.grant(nonce, next))
            }
        });
        drop(state);
        self.changed.notify_all();
        self.wait("a held answer", |state| (!state.is_report_held).then_some(()));
        let mut state = self.lock();
        if state.lost_report_responses > 0 {
            state.lost_report_responses -= 1;
            drop(state);
            self.changed.notify_all();
            return Err(LinkError::Unavailable("the answer got lost".into()));
        }
        state.answered.insert(step);
        drop(state);
        self.changed.notify_all();
        Ok(ReportReceipt { order, next })
    }

    fn pin_image(&self, _: &AttemptRef, image: &str, digest: &str) -> Result<String, LinkError> {
        let mut state = self.lock_if_available()?;
        Ok(state.pins.entry(image.to_owned()).or_insert_with(|| digest.to_owned()).clone())
    }

    fn checkout(&self, _: &AttemptRef, into: &Path, wanted: WantedCheck<'_>) -> Result<(), LinkError> {
        let mut state = self.lock_if_available()?;
        if state.has_slow_sources {
            let until = Instant::now() + PATIENCE;
            while wanted() && Instant::now() < until {
                state = self.changed.wait_timeout(state, POLL_INTERVAL).expect("not poisoned").0;
            }
            return Err(LinkError::Unavailable("a transfer was not finished".into()));
        }
        state.checkouts += 1;
        if let Some(error) = &state.checkout_error {
            return Err(error.clone());
        }
        let symlinks = state.symlinks.clone();
        drop(state);
        for (name, target) in symlinks {
            symlink(target, into.join(name)).map_err(|e| LinkError::Refused(e.to_string()))?;
        }
        std::fs::write(into.join("README"), "checked out\n").map_err(|e| LinkError::Refused(e.to_string()))
    }

    fn fetch_artifact(
        &self,
        _: &AttemptRef,
        name: &str,
        into: &Path,
        _: WantedCheck<'_>,
    ) -> Result<(), LinkError> {
        let state = self.lock_if_available()?;
        let content = state.artifacts.get(name).ok_or(LinkError::Refused(format!("there is no `{name}`")))?;
        std::fs::write(into.join(name), content).map_err(|e| LinkError::Refused(e.to_string()))
    }

    fn fetch_registry(
        &self,
        _: &AttemptRef,
        digest: &str,
        into: &Path,
        _: WantedCheck<'_>,
    ) -> Result<(), LinkError> {
        let mut state = self.lock_if_available()?;
        state.fetched_digests.push(digest.to_owned());
        let files =
            state.registries.get(digest).ok_or(LinkError::Refused("there is no such registry".into()))?;
        for (name, text) in files {
            let path = into.join(name);
            std::fs::create_dir_all(path.parent().expect("parent")).expect("directory");
            std::fs::write(&path, text).expect("file");
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("mode");
        }
        Ok(())
    }

    fn keep_artifact(
        &self,
        _: &AttemptRef,
        name: &str,
        (workspace, path): (&Path, &str),
        _: WantedCheck<'_>,
    ) -> Result<String, LinkError> {
        let content = std::fs::read(workspace.join(path)).map_err(|e| LinkError::Refused(e.to_string()))?;
        let digest = format!("digest-of-{}-bytes", content.len());
        self.lock_if_available()?.artifacts.insert(name.to_owned(), content);
        Ok(digest)
    }
}
