//! Connects the embedded runner to the server. Implements the runner protocol with in-process calls.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use berth_api::runner::{
    AcquireParams, AttemptAssignment, AttemptInstruction, AttemptOrder, AttemptRef, LinkError, ReportReceipt,
    RunnerHeartbeat, RunnerLink, StepReport, WantedCheck,
};

use super::grant::WorkRequest;
use super::report::{AttemptLocator, NextStepRequest, renew};
use super::runner_calls::{self, ORDERS_PAUSE, parse_attempt, unavailable, unknown_attempt};
use crate::artifacts::ArtifactError;
use crate::services::Services;

pub struct EmbeddedLink {
    services: Arc<Services>,
}

impl EmbeddedLink {
    pub fn new(services: Arc<Services>) -> Self {
        Self { services }
    }

    /// Returns the name of the embedded runner, which is unique to this server process.
    pub fn boot(&self) -> &str {
        self.services.engine.boot()
    }
}

impl RunnerLink for EmbeddedLink {
    fn acquire(&self, asked: &AcquireParams, wait: Duration) -> Result<Vec<AttemptAssignment>, LinkError> {
        let deadline = Instant::now() + wait;
        let asking = WorkRequest {
            runner: &asked.boot,
            lost_ms: Some(self.services.config.runner_times.lost_ms()),
            org: None,
            nonces: &asked.nonces,
            labels: &asked.labels,
            only_existing: false,
        };
        loop {
            let heard = self.services.engine.notifier.count();
            if self.services.shutdown.is_cancelled() {
                return Ok(Vec::new());
            }
            let alone = self.services.check_isolation_blocking().map_err(unavailable)?;
            let given = match alone {
                Ok(()) => runner_calls::poll_once(&self.services, &asking).map_err(unavailable)?,
                Err(why) => {
                    tracing::error!("this server runs no steps: {why}");
                    None
                }
            };
            if let Some(work) = given {
                return Ok(work);
            }
            if Instant::now() >= deadline {
                return Ok(Vec::new());
            }
            self.services
                .engine
                .notifier
                .wait(heard, deadline.min(Instant::now() + runner_calls::next_poll_delay(&self.services)));
        }
    }

    fn heartbeat(
        &self,
        beat: &RunnerHeartbeat,
        wait: Duration,
    ) -> Result<Vec<AttemptInstruction>, LinkError> {
        let deadline = Instant::now() + wait;
        let attempts: Vec<AttemptLocator> = beat.attempts.iter().filter_map(parse_attempt).collect();
        renew(&self.services, &attempts).map_err(unavailable)?;
        loop {
            let heard = self.services.engine.notifier.count();
            let told = runner_calls::orders(&self.services, &beat.boot, &attempts).map_err(unavailable)?;
            let is_urgent = told.iter().any(|it| it.order != AttemptOrder::Continue);
            if is_urgent || Instant::now() >= deadline {
                return Ok(told);
            }
            std::thread::sleep(ORDERS_PAUSE);
            self.services.engine.notifier.wait(heard, deadline);
        }
    }

    fn append_log(&self, attempt: &AttemptRef, offset: u64, bytes: &[u8]) -> Result<AttemptOrder, LinkError> {
        runner_calls::append(
            &self.services,
            &parse_attempt(attempt).ok_or_else(unknown_attempt)?,
            offset,
            bytes,
        )
    }

    fn report(&self, report: &StepReport) -> Result<ReportReceipt, LinkError> {
        let attempt = parse_attempt(&report.attempt).ok_or_else(unknown_attempt)?;
        let next = report.next_nonce.clone().map(|nonce| NextStepRequest {
            nonce,
            runner: report.boot.clone(),
            lost_ms: Some(self.services.config.runner_times.lost_ms()),
            labels: report.labels.clone(),
        });
        runner_calls::report(&self.services, attempt, report, next).map(|(told, _)| told)
    }

    fn pin_image(&self, attempt: &AttemptRef, image: &str, digest: &str) -> Result<String, LinkError> {
        let it = parse_attempt(attempt).ok_or_else(unknown_attempt)?;
        crate::images::pin_image(&self.services, &it, image, digest)
    }

    fn checkout(&self, attempt: &AttemptRef, into: &Path, _: WantedCheck<'_>) -> Result<(), LinkError> {
        runner_calls::checkout(&self.services, &parse_attempt(attempt).ok_or_else(unknown_attempt)?, into)
    }

    fn fetch_artifact(
        &self,
        attempt: &AttemptRef,
        name: &str,
        into: &Path,
        _: WantedCheck<'_>,
    ) -> Result<(), LinkError> {
        let it = parse_attempt(attempt).ok_or_else(unknown_attempt)?;
        let digest = runner_calls::artifact_digest(&self.services, &it, name)?;
        let done = self.services.artifacts.unpack(it.org, &digest, into);
        done.map_err(|error| link_error(&format!("artifact \"{name}\""), &error))
    }

    fn fetch_registry(
        &self,
        attempt: &AttemptRef,
        digest: &str,
        into: &Path,
        _: WantedCheck<'_>,
    ) -> Result<(), LinkError> {
        let it = parse_attempt(attempt).ok_or_else(unknown_attempt)?;
        let registry = runner_calls::registry_name(&self.services, &it, digest)?;
        let done = self.services.artifacts.unpack(it.org, digest, into);
        done.map_err(|error| {
            let text = format!("registry \"{registry}\": {error}");
            if error.is_temporary() { LinkError::Unavailable(text) } else { LinkError::Refused(text) }
        })
    }

    fn keep_artifact(
        &self,
        attempt: &AttemptRef,
        name: &str,
        (workspace, path): (&Path, &str),
        _: WantedCheck<'_>,
    ) -> Result<String, LinkError> {
        let it = parse_attempt(attempt).ok_or_else(unknown_attempt)?;
        let kept = self.services.artifacts.store_path(it.org, workspace, path);
        Ok(kept.map_err(|error| link_error(&format!("artifact \"{name}\""), &error))?.digest)
    }
}

fn link_error(what: &str, error: &ArtifactError) -> LinkError {
    let text = format!("{what}: {error}");
    // A full or failing disk of this machine does not recover soon enough, unlike object storage.
    match error {
        ArtifactError::Storage(_) if error.is_temporary() => LinkError::Unavailable(text),
        _ => LinkError::Refused(text),
    }
}
