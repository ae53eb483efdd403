//! Serves the requests of remote runners. A runner is identified by its credential, and its attempts are looked up in
//! the database. Nothing that a runner sends is trusted, except for the random part of a nonce.

use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use berth_api::remote::{HeartbeatRequest, LogReceipt};
use berth_api::runner::{
    AttemptInstruction, AttemptOrder, LinkError, ReportReceipt, StepReport, StepRunOutcome,
};
use berth_core::deployment::run::AttemptOutcome;
use berth_core::id::OrgId;
use berth_core::runner::{Runner, SLOTS_MAX, parse_runner_key, runner_key};
use berth_store::tables::{attempt, runner};
use berth_store::{StoreError, TxContext};
use tokio::time::Instant;

use super::grant::{WorkRequest, grant_from_deployment};
use super::lost_attempts::LIVE_MAX;
use super::report::{AttemptLocator, NextStepRequest, renew};
use super::runner_calls::{self, ORDERS_PAUSE};
use crate::artifacts::ArtifactError;
use crate::error::EngineError;
use crate::services::Services;

/// Minimum time between two updates of a runner's last-seen time, in seconds.
const SEEN_EVERY_S: i64 = 3;
/// Maximum length of the values that a runner generates: nonces and boot ids.
const WORD_CHARS_MAX: usize = 64;

/// An authenticated runner.
#[derive(Clone)]
pub struct RunnerCaller {
    pub org: OrgId,
    pub runner: Runner,
}

/// A request from a remote runner.
pub struct RemoteCall {
    pub services: Arc<Services>,
    pub caller: RunnerCaller,
}

/// The previous process of a runner, and the nonces of the attempts it had started. None of these attempts is running
/// any more.
pub struct PreviousProcess {
    pub boot: String,
    pub begun: Vec<String>,
}

impl RemoteCall {
    pub async fn heartbeat(self, sent: HeartbeatRequest) -> Result<Vec<AttemptInstruction>, EngineError> {
        let runner = self.process_key(&sent.beat.boot)?;
        let wait = Duration::from_millis(sent.wait_ms).min(self.services.config.runner_times.heartbeat);
        let deadline = Instant::now() + wait;
        if sent.beat.attempts.len() > usize::try_from(SLOTS_MAX).unwrap_or(usize::MAX) {
            return Err(invalid_state("a heartbeat names too many attempts".into()));
        }
        self.record_seen(sent.beat.is_draining).await?;
        let (org, id) = (self.caller.org, self.caller.runner.id);
        let nonces: Vec<String> = sent.beat.attempts.into_iter().map(|it| it.nonce).collect();
        let (own, strange) = self
            .blocking(move |services| {
                let mut own = Vec::new();
                let mut strange = Vec::new();
                for nonce in nonces {
                    match find_runner_attempt(services, org, id, &nonce)? {
                        Some(found) => own.push(found),
                        None => strange.push(AttemptInstruction {
                            nonce,
                            order: AttemptOrder::Stale,
                            reason: None,
                        }),
                    }
                }
                renew(services, &own)?;
                Ok::<_, EngineError>((own, strange))
            })
            .await??;
        loop {
            let heard = self.services.engine.notifier.count();
            let (runner, named) = (runner.clone(), own.clone());
            let mut told =
                self.blocking(move |services| runner_calls::orders(services, &runner, &named)).await??;
            told.extend(strange.iter().cloned());
            let is_urgent = told.iter().any(|it| it.order != AttemptOrder::Continue);
            if is_urgent || Instant::now() >= deadline {
                return Ok(told);
            }
            tokio::time::sleep(ORDERS_PAUSE).await;
            if !self.wait_for_notification(heard, deadline).await {
                return Ok(told);
            }
        }
    }

    /// Appends to a log. Masks secret values that the runner failed to mask.
    pub async fn append_log(
        self,
        nonce: String,
        offset: u64,
        mut bytes: Vec<u8>,
    ) -> Result<LogReceipt, EngineError> {
        let receipt = |order, resend_from| LogReceipt { order, resend_from };
        let Some(it) = self.find_attempt(&nonce).await? else {
            return Ok(receipt(AttemptOrder::Stale, None));
        };
        self.load_masker(&it).await?;
        if self.services.engine.maskers.mask_in_place(&nonce, offset, &mut bytes) {
            tracing::warn!(runner = %self.caller.runner.id, deployment = %it.deployment, "runner failed to mask a secret");
        }
        let done = self.blocking(move |services| runner_calls::append(services, &it, offset, &bytes)).await?;
        match done {
            Err(LinkError::LogGap { length }) => Ok(receipt(AttemptOrder::Continue, Some(length))),
            done => done.map(|order| receipt(order, None)).map_err(to_engine_error),
        }
    }

    pub async fn report(self, mut report: StepReport) -> Result<ReportReceipt, EngineError> {
        let runner = self.process_key(&report.boot)?;
        let nonce = report.attempt.nonce.clone();
        let Some(it) = self.find_attempt(&nonce).await? else {
            return Ok(ReportReceipt { order: AttemptOrder::Stale, next: None });
        };
        self.load_masker(&it).await?;
        let ends = !matches!(
            report.outcome,
            StepRunOutcome::Waiting { .. } | StepRunOutcome::ApprovalRequired { .. }
        );
        report.outcome = self.services.engine.maskers.mask_outcome(&nonce, report.outcome);
        let labels = self.caller.runner.labels.iter().map(ToString::to_string).collect();
        let next = report.next_nonce.as_deref().map(|nonce| self.qualify_nonce(nonce)).transpose()?;
        let next =
            next.map(|nonce| NextStepRequest { nonce, runner, lost_ms: self.caller.runner.lost_ms, labels });
        let done = self.blocking(move |services| {
            runner_calls::check_artifacts(services, &it, &report.outcome)?;
            runner_calls::report(services, it, &report, next)
        });
        let done = done.await?;
        let (done, lost_fence) = done.map_err(to_engine_error)?;
        if let Some(lost) = lost_fence {
            self.handle_lost_fence(lost).await;
        }
        if ends {
            self.services.engine.maskers.remove(&nonce);
        }
        done.next.iter().for_each(|it| self.services.engine.maskers.insert(it));
        Ok(done)
    }

    /// Returns the source of the pinned commit as a compressed archive.
    pub async fn source(self, nonce: &str) -> Result<File, EngineError> {
        let it = self.find_live_attempt(nonce).await?;
        let services = self.services.clone();
        let packed = self.services.transfers.run(self.caller.org, move || {
            let dir = services.artifacts.scratch_dir().map_err(artifact_link_error)?;
            runner_calls::checkout(&services, &it, dir.path())?;
            crate::artifacts::pack_source(dir.path()).map_err(artifact_link_error)
        });
        packed.await?.map_err(to_engine_error)
    }

    /// Returns an artifact of an earlier step as a compressed archive.
    pub async fn artifact(self, nonce: &str, name: String) -> Result<File, EngineError> {
        let it = self.find_live_attempt(nonce).await?;
        let found = self.blocking(move |services| {
            let digest = runner_calls::artifact_digest(services, &it, &name)?;
            services.artifacts.open_packed(it.org, &digest).map_err(artifact_link_error)
        });
        found.await?.map_err(to_engine_error)
    }

    pub async fn registry(self, nonce: &str, digest: String) -> Result<File, EngineError> {
        let it = self.find_live_attempt(nonce).await?;
        let found = self.blocking(move |services| {
            runner_calls::registry_name(services, &it, &digest)?;
            services.artifacts.open_packed(it.org, &digest).map_err(artifact_link_error)
        });
        found.await?.map_err(to_engine_error)
    }

    /// Checks that the attempt is live. Called before a large upload is received.
    pub async fn check_attempt(&self, nonce: &str) -> Result<(), EngineError> {
        self.find_live_attempt(nonce).await.map(drop)
    }

    /// Stores an uploaded artifact. Its path in the archive is taken from the plan, not from the runner.
    pub async fn keep_artifact(self, nonce: &str, name: String, packed: File) -> Result<String, EngineError> {
        let it = self.find_live_attempt(nonce).await?;
        let services = self.services.clone();
        let kept = self.services.transfers.run(self.caller.org, move || {
            let path = runner_calls::artifact_path(&services, &it, &name)?;
            services.artifacts.receive(it.org, &packed, &path).map_err(artifact_link_error)
        });
        Ok(kept.await?.map_err(to_engine_error)?.digest)
    }

    /// Registers a new process of this runner and ends the attempts of the previous one.
    pub async fn hello(
        &self,
        said: runner::RunnerHandshake,
        left: Option<PreviousProcess>,
    ) -> Result<(), EngineError> {
        check_id_chars(&said.boot)?;
        let (org, id, boot) = (self.caller.org, self.caller.runner.id, said.boot.clone());
        let context = TxContext::system(Some(org));
        self.services.store.transact(context, move |tx| runner::put_handshake(tx, id, &said)).await?;
        let Some(left) = left.filter(|left| left.boot != boot) else { return Ok(()) };
        let before = runner_key(id, &left.boot);
        let live = self
            .services
            .store
            .read(None, move |db| attempt::list_live_of_runner(db, &before, LIVE_MAX))
            .await?;
        for it in live {
            // The runner durably records each attempt before starting it, so an attempt that it did not record never
            // started.
            let outcome = match left.begun.contains(&it.nonce) {
                true => AttemptOutcome::Lost,
                false => AttemptOutcome::never_started("its runner shut down before it started".into()),
            };
            tracing::warn!(runner = %id, deployment = %it.deployment, ?outcome, "runner restarted; ending an attempt of its previous process");
            super::lost_attempts::report_ended(&self.services, it, outcome).await?;
        }
        Ok(())
    }

    pub async fn goodbye(&self, boot: String) -> Result<(), EngineError> {
        self.process_key(&boot)?;
        let id = self.caller.runner.id;
        let context = TxContext::system(Some(self.caller.org));
        Ok(self.services.store.transact(context, move |tx| runner::put_shutdown(tx, id, &boot)).await?)
    }

    /// Returns the key under which this runner process is recorded in its attempts. Fails if another process of the
    /// runner has connected since.
    pub(super) fn process_key(&self, boot: &str) -> Result<String, EngineError> {
        match self.caller.runner.process_key() {
            Some(mark) if self.caller.runner.boot.as_deref() == Some(boot) => Ok(mark),
            _ => Err(invalid_state(
                "another process of this runner is connected, or this one has not said hello; restart it"
                    .into(),
            )),
        }
    }

    /// Prefixes the nonce with the runner's id, so that it cannot collide with a nonce of another runner.
    pub(super) fn qualify_nonce(&self, nonce: &str) -> Result<String, EngineError> {
        check_id_chars(nonce)?;
        Ok(runner_key(self.caller.runner.id, nonce))
    }

    async fn find_attempt(&self, nonce: &str) -> Result<Option<AttemptLocator>, EngineError> {
        let (org, id, nonce) = (self.caller.org, self.caller.runner.id, nonce.to_owned());
        self.blocking(move |services| find_runner_attempt(services, org, id, &nonce)).await?
    }

    /// Returns the live attempt with this nonce. Fails if the attempt has ended, because an ended attempt no longer
    /// gives access to anything.
    pub(super) async fn find_live_attempt(&self, nonce: &str) -> Result<AttemptLocator, EngineError> {
        let id = self.caller.runner.id;
        if parse_runner_key(nonce) != Some(id) {
            return Err(unknown());
        }
        let nonce = nonce.to_owned();
        let found = self
            .services
            .store
            .read(Some(self.caller.org), move |db| attempt::find_live_by_nonce(db, &nonce))
            .await?;
        found
            .filter(|it| parse_runner_key(&it.runner) == Some(id))
            .map(AttemptLocator::from)
            .ok_or_else(unknown)
    }

    /// Loads the secret values of an attempt for masking, if the server was restarted since the attempt was granted.
    async fn load_masker(&self, it: &AttemptLocator) -> Result<(), EngineError> {
        if self.services.engine.maskers.contains(&it.nonce) {
            return Ok(());
        }
        let (it, runner) = (it.clone(), self.caller.runner.process_key().unwrap_or_default());
        let lost_ms = self.caller.runner.lost_ms;
        let again = self.blocking(move |services| {
            let (of, nonces) = (runner.clone(), [it.nonce]);
            let live = services
                .store
                .read_blocking(None, move |db| attempt::list_live_of_runner(db, &of, LIVE_MAX))?;
            // Do not look for a grant if the attempt has ended.
            if !live.iter().any(|live| live.nonce == nonces[0]) {
                return Ok(());
            }
            let asking = WorkRequest {
                runner: &runner,
                lost_ms,
                org: Some(it.org),
                nonces: &nonces,
                labels: &[],
                only_existing: true,
            };
            let given = grant_from_deployment(services, it.org, it.deployment, &asking)?;
            let same = given.granted.iter().filter(|granted| granted.attempt.nonce == nonces[0]);
            same.for_each(|it| {
                super::assign::assign(it).iter().for_each(|it| services.engine.maskers.insert(it));
            });
            Ok::<_, EngineError>(())
        });
        again.await?
    }

    pub(super) async fn record_seen(&self, is_draining: bool) -> Result<(), EngineError> {
        let (it, boot) = (&self.caller.runner, self.caller.runner.boot.clone().unwrap_or_default());
        let (id, before) = (it.id, (it.seen_at, it.is_draining));
        let org = Some(self.caller.org);
        let now = self.services.store.read(org, |db| Ok::<_, StoreError>(db.now())).await?;
        let is_fresh = before.0.is_some_and(|seen| now.seconds_since(seen) < SEEN_EVERY_S);
        if is_fresh && before.1 == is_draining {
            return Ok(());
        }
        let seen = move |tx: &mut berth_store::Tx<'_>| runner::put_heartbeat(tx, id, &boot, now, is_draining);
        Ok(self.services.store.transact(TxContext::system(org), seen).await?)
    }

    /// Waits for a notification, at most until `until`. Returns false if the server is shutting down.
    async fn wait_for_notification(&self, heard: u64, until: Instant) -> bool {
        let rung = tokio::time::timeout_at(until, self.services.engine.notifier.wait_async(heard));
        self.services.shutdown.run_until_cancelled(rung).await.is_some()
    }

    pub(super) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Services) -> T + Send + 'static,
    ) -> Result<T, EngineError> {
        let services = self.services.clone();
        tokio::task::spawn_blocking(move || work(&services))
            .await
            .map_err(|_| EngineError::bug("a call panicked"))
    }
}

/// Finds an attempt of this runner.
fn find_runner_attempt(
    services: &Services,
    org: OrgId,
    id: berth_core::id::RunnerId,
    nonce: &str,
) -> Result<Option<AttemptLocator>, EngineError> {
    if parse_runner_key(nonce) != Some(id) {
        return Ok(None);
    }
    let nonce = nonce.to_owned();
    let found = services.store.read_blocking(Some(org), move |db| attempt::find_by_nonce(db, &nonce))?;
    Ok(found.filter(|it| parse_runner_key(&it.runner) == Some(id)).map(AttemptLocator::from))
}

fn check_id_chars(text: &str) -> Result<(), EngineError> {
    match (1..=WORD_CHARS_MAX).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric()) {
        true => Ok(()),
        false => Err(invalid_state("a nonce or boot id has 1 to 64 letters and digits".into())),
    }
}

pub(super) fn invalid_state(text: String) -> EngineError {
    EngineError::new(berth_api::problem::Code::InvalidState, text)
}

fn unknown() -> EngineError {
    invalid_state("there is no such attempt".into())
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
pub(super) fn artifact_link_error(error: ArtifactError) -> LinkError {
    match error.is_temporary() {
        true => LinkError::Unavailable(error.to_string()),
        false => LinkError::Refused(error.to_string()),
    }
}

pub(super) fn to_engine_error(error: LinkError) -> EngineError {
    match error {
        LinkError::Refused(text) => invalid_state(text),
        LinkError::LogGap { .. } => invalid_state(error.to_string()),
        LinkError::Unavailable(text) => {
            tracing::warn!(text, "runner request failed");
            EngineError::busy("the server cannot process this request right now; try again")
        }
    }
}
