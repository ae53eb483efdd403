//! Detects that the database was restored from an older backup. Such a database would issue fences that are already in
//! use. Runners store the highest fence they have seen on their own disks, which are not restored with the database.

use std::time::Duration;

use berth_core::deployment::environment::report;
use berth_core::environment::fence::{EpochEvidence, EvidenceVerdict, Fence, judge_evidence};
use berth_core::event::EventKind;
use berth_core::id::EnvironmentId;
use berth_store::tables::instance;
use berth_store::{ReadTx, StoreError, Tx, TxContext, incarnation};

use super::aggregate::DeploymentAggregate;
use super::loaded::LoadedDeployment;
use super::remote::{RemoteCall, invalid_state};
use crate::error::EngineError;
use crate::events::runner_event;

const LOST: &str = "a runner has seen a higher fence epoch than this database has: the database may be an older copy. New fences are above all earlier ones; check what is really running";
/// How many times raising the epoch is retried: once per second for 10 minutes. After that, an admin has to raise it.
const RAISES_MAX: usize = 600;
const RAISE_PAUSE: Duration = Duration::from_secs(1);
/// Maximum epoch that is written to events. The value is exactly representable as a JSON number.
const EPOCH_SAID_MAX: i64 = 1 << 32;

impl RemoteCall {
    /// Raises the epoch, if necessary, above the highest epoch or fence that a runner has seen. Once this succeeds,
    /// servers only issue fences above it.
    pub async fn handle_epoch_evidence(&self, witness: EpochEvidence) -> Result<(), EngineError> {
        // Read without a write lock first, because the write below locks the whole installation.
        let look = |db: &mut ReadTx<'_>| Ok::<_, EngineError>((instance::load_epoch(db)?, db.now()));
        let (own, now) = self.services.store.read(None, look).await?;
        let heard = witness.epoch().min(EPOCH_SAID_MAX);
        match judge_evidence(own, witness, now) {
            EvidenceVerdict::Known => return Ok(()),
            EvidenceVerdict::Absurd { most } => return Err(self.refuse_evidence(heard, own, most).await?),
            EvidenceVerdict::Above(_) => {}
        }
        let (org, runner) = (self.caller.org, self.caller.runner.clone());
        // With PostgreSQL, every connection checks the epoch in the database. With SQLite, the epoch is also stored in
        // the data directory.
        let dir = (!self.services.store.is_shared()).then(|| self.services.config.data_dir.clone());
        let done = self.services.store.transact(TxContext::system(None), move |tx| {
            let heard_of = instance::process_witness(tx, witness)?;
            if let EvidenceVerdict::Above(epoch) = heard_of {
                if let Some(dir) = dir {
                    incarnation::store_epoch(&dir, epoch)
                        .map_err(|error| StoreError::Unavailable(error.to_string()))?;
                }
                let event = runner_event(EventKind::EpochRaised, &runner)
                    .with("heard", heard)
                    .with("previous", own)
                    .with("epoch", epoch)
                    .with("detail", LOST);
                tx.within_org(org, |tx| tx.record(event))?;
            }
            Ok::<_, EngineError>(heard_of)
        });
        match done.await? {
            EvidenceVerdict::Known => Ok(()),
            EvidenceVerdict::Above(epoch) => {
                tracing::error!(runner = %self.caller.runner.id, heard, own, epoch, "the epoch was raised: {LOST}");
                Ok(())
            }
            EvidenceVerdict::Absurd { most } => Err(self.refuse_evidence(heard, own, most).await?),
        }
    }

    /// Raises the epoch above a fence that the database has lost, so that the next session gets a higher one. The
    /// environment is already marked as unknown. The runner reports the fence only once, so the server itself retries
    /// on store errors.
    pub(super) async fn handle_lost_fence(&self, fence: Fence) {
        let Err(error) = self.handle_epoch_evidence(EpochEvidence::Fence(fence)).await else { return };
        tracing::error!(?error, %fence, runner = %self.caller.runner.id, "raising the epoch above a lost fence failed");
        if !matches!(error, EngineError::Store(_)) {
            return;
        }
        let again = RemoteCall { services: self.services.clone(), caller: self.caller.clone() };
        tokio::spawn(async move {
            for _ in 0..RAISES_MAX {
                let pause = tokio::time::sleep(RAISE_PAUSE);
                if again.services.shutdown.run_until_cancelled(pause).await.is_none()
                    || again.handle_epoch_evidence(EpochEvidence::Fence(fence)).await.is_ok()
                {
                    return;
                }
            }
            tracing::error!(%fence, "epoch is still not above a lost fence; run `berth admin raise-epoch`");
        });
    }

    /// Records an event and returns the error for the runner. The runner gets no work, because if the epoch it reports
    /// is real, this database is outdated and the work would be wrong.
    async fn refuse_evidence(&self, heard: i64, own: i64, most: i64) -> Result<EngineError, EngineError> {
        let detail = format!(
            "this runner reports fence epoch {heard}, but this server is at epoch {own} and accepts at most {most}. If the database is a much older copy, stop every server and run `berth admin raise-epoch` until the \
             epoch is above {heard}. Otherwise, the work directory of this runner belongs to another installation: use an empty one"
        );
        let runner = &self.caller.runner;
        // The runner retries continuously, so limit the entries in the server log and the audit log.
        if self.services.engine.refused.check_key(&runner.id).is_ok() {
            tracing::error!(runner = %runner.id, heard, own, most, "runner refused: {detail}");
            let event = runner_event(EventKind::EpochRefused, runner)
                .with("heard", heard)
                .with("epoch", own)
                .with("detail", detail.as_str());
            let context = TxContext::system(Some(self.caller.org));
            self.services.store.transact(context, move |tx| tx.record(event)).await?;
        }
        Ok(invalid_state(detail))
    }
}

impl DeploymentAggregate {
    /// Marks the environment as unknown. Called after a runner refused the fence of its attempt, because it has seen a
    /// higher fence (`known`), or the same fence for a different session. Returns true if this server does not know the
    /// fence `known`.
    pub(super) fn record_unknown_fence(
        &mut self,
        tx: &mut Tx<'_>,
        known: Fence,
    ) -> Result<bool, EngineError> {
        let LoadedDeployment::Environment { lock, deployment } = &mut self.deployment else {
            return Ok(false);
        };
        let Some(decision) =
            report::record_refused_fence(lock, deployment.target.fence, known, &tx.moment()?)
        else {
            return Ok(false);
        };
        **lock = lock.after(&decision);
        tx.commit(decision)?;
        Ok(true)
    }
}

impl LoadedDeployment {
    /// Returns the environment that the deployment changes, and the deployment's fence.
    pub(super) fn environment_fence(&self) -> Option<(EnvironmentId, Fence)> {
        match self {
            LoadedDeployment::Environment { deployment, .. } => {
                Some((deployment.target.environment, deployment.target.fence))
            }
            LoadedDeployment::Stages { .. } => None,
        }
    }
}
