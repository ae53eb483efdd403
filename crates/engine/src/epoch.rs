//! What runners know of fences that this installation has lost: an older copy of its database gives numbers again that
//! somebody has had. A runner's disk was not copied back with it.

use std::time::Duration;

use berth_core::deployment::report;
use berth_core::environment::fence::{Fence, Heard, Witness, heard_epoch};
use berth_core::event::EventKind;
use berth_core::id::EnvironmentId;
use berth_store::tables::instance;
use berth_store::{Context, Reader, StoreError, Tx, incarnation};

use super::remote::{Far, refused};
use super::whole::{Head, Whole};
use crate::error::EngineError;
use crate::events::runner_event;

const LOST: &str = "a runner has seen a higher epoch of fences than this database knows: it may be an older copy that was \
                    put back. New fences are above all before; look at what really runs";
/// A database that is away for longer than this has other troubles.
const RAISES_MAX: usize = 600;
const RAISE_PAUSE: Duration = Duration::from_secs(1);
/// What is said in events fits the numbers of JSON.
const EPOCH_SAID_MAX: i64 = 1 << 32;

impl Far {
    /// What a runner has seen. When this answers, no fence is given any more that it has seen a higher one of, by any server.
    pub async fn hears(&self, witness: Witness) -> Result<(), EngineError> {
        // What changes nothing holds nobody up: to write, the whole installation is waited for.
        let look = |db: &mut Reader<'_>| Ok::<_, EngineError>((instance::epoch(db)?, db.now()));
        let (own, now) = self.services.store.read(None, look).await?;
        let heard = witness.epoch().min(EPOCH_SAID_MAX);
        match heard_epoch(own, witness, now) {
            Heard::Known => return Ok(()),
            Heard::Absurd { most } => return Err(self.disbelieves(heard, own, most).await?),
            Heard::Above(_) => {}
        }
        let (org, runner) = (self.who.org, self.who.runner.clone());
        // Connections to PostgreSQL look at the row; for SQLite the directory remembers it, too.
        let dir = (!self.services.store.is_shared()).then(|| self.services.config.data_dir.clone());
        let done = self.services.store.transact(Context::system(None), move |tx| {
            let heard_of = instance::heard(tx, witness)?;
            if let Heard::Above(epoch) = heard_of {
                if let Some(dir) = dir {
                    incarnation::note_epoch(&dir, epoch)
                        .map_err(|error| StoreError::Unavailable(error.to_string()))?;
                }
                let event = runner_event(EventKind::EpochRaised, &runner)
                    .with("heard", heard)
                    .with("previous", own)
                    .with("epoch", epoch)
                    .with("detail", LOST);
                tx.within(org, |tx| tx.record(event))?;
            }
            Ok::<_, EngineError>(heard_of)
        });
        match done.await? {
            Heard::Known => Ok(()),
            Heard::Above(epoch) => {
                tracing::error!(runner = %self.who.runner.id, heard, own, epoch, "the epoch was raised: {LOST}");
                Ok(())
            }
            Heard::Absurd { most } => Err(self.disbelieves(heard, own, most).await?),
        }
    }

    /// The environment is in doubt already. What follows is for whoever takes it over: their fence has to be above that one.
    /// The runner said it once: the server goes on trying.
    pub(super) async fn hears_of_lost(&self, fence: Fence) {
        let Err(error) = self.hears(Witness::Fence(fence)).await else { return };
        tracing::error!(?error, %fence, runner = %self.who.runner.id, "the epoch could not be raised above a lost fence");
        if !matches!(error, EngineError::Store(_)) {
            return;
        }
        let again = Far { services: self.services.clone(), who: self.who.clone() };
        tokio::spawn(async move {
            for _ in 0..RAISES_MAX {
                let pause = tokio::time::sleep(RAISE_PAUSE);
                if again.services.shutdown.run_until_cancelled(pause).await.is_none()
                    || again.hears(Witness::Fence(fence)).await.is_ok()
                {
                    return;
                }
            }
            tracing::error!(%fence, "the epoch is still not above a lost fence: run `berth admin raise-epoch`");
        });
    }

    /// The alarm, and what is said to the runner. It is not let in: if it is right, what it would be given is wrong.
    async fn disbelieves(&self, heard: i64, own: i64, most: i64) -> Result<EngineError, EngineError> {
        let detail = format!(
            "this runner says that it has seen epoch {heard} of fences; this server is in {own}, and believes a runner up to \
             {most}. If the database is a much older copy, stop every server and run `berth admin raise-epoch` until the \
             epoch is above {heard}. If it is not, the work directory of this runner is of another installation: give it \
             an empty one"
        );
        let runner = &self.who.runner;
        // It tries again and again; neither log nor history is filled with that.
        if self.services.engine.refused.check_key(&runner.id).is_ok() {
            tracing::error!(runner = %runner.id, heard, own, most, "a runner was refused: {detail}");
            let event = runner_event(EventKind::EpochRefused, runner)
                .with("heard", heard)
                .with("epoch", own)
                .with("detail", detail.as_str());
            let context = Context::system(Some(self.who.org));
            self.services.store.transact(context, move |tx| tx.record(event)).await?;
        }
        Ok(refused(detail))
    }
}

impl Whole {
    /// A runner has refused the fence of its attempt, because it knows a higher one, or another holder with that one. True:
    /// nobody here does.
    pub(super) fn doubt_fence(&mut self, tx: &mut Tx<'_>, known: Fence) -> Result<bool, EngineError> {
        let Head::Environment { lock, deployment } = &mut self.head else { return Ok(false) };
        let Some(decision) = report::refused(lock, deployment.fence, known, &tx.moment()?) else {
            return Ok(false);
        };
        **lock = lock.after(&decision);
        tx.commit(decision)?;
        Ok(true)
    }
}

impl Head {
    /// The environment that is changed, and under which fence.
    pub(super) fn holder(&self) -> Option<(EnvironmentId, Fence)> {
        match self {
            Head::Environment { deployment, .. } => Some((deployment.environment, deployment.fence)),
            Head::Stages { .. } => None,
        }
    }
}
