//! Fix pull requests that were asked for are made: one commit on one new branch, and where there is a forge, a pull
//! request. A person merges it, nobody else.
//!
//! What is so stands in the store. A server that is killed in the middle does the same again: the commit is the same,
//! and a branch or pull request that is there already is taken as it is.

mod ends;
mod evidence;
mod make;

pub(crate) use ends::{FixEnds, notice};

use std::sync::Arc;

use berth_core::pipeline::state::Pipeline;
use berth_core::repository::Repository;
use berth_engine::admission::Admission;
use berth_engine::git::Credential;
use berth_engine::limits::FIXES_AT_ONCE;
use berth_store::pagination::Batch;
use berth_store::tables::fix_pull_request;
use tokio::sync::{Notify, oneshot};

use crate::config::Config;
use crate::error::AppError;
use crate::integrations::forges::{Client, Place};
use crate::worker::{Job, Turn, woken};
use berth_engine::Services;

/// Looked up at once: one of each organization, of more organizations than are worked for at once.
const OPENING: Batch = Batch { total: 64, share: 1 };

/// Makes fix pull requests.
pub(crate) struct Fixes {
    services: Arc<Services>,
    config: Arc<Config>,
    /// One at a time for each organization: a forge that hangs holds up no other one.
    under_way: Admission,
    asked: Notify,
}

impl Fixes {
    pub(crate) fn new(services: Arc<Services>, config: Arc<Config>) -> Self {
        Self { services, config, under_way: Admission::without_queue(FIXES_AT_ONCE), asked: Notify::new() }
    }

    /// Somebody wants one now.
    pub(crate) fn nudge(&self) {
        self.asked.notify_one();
    }
}

impl Job for Fixes {
    const NAME: &'static str = "fix pull requests";
    const LANES: usize = FIXES_AT_ONCE.total;

    async fn turn(&self) -> Result<Turn, AppError> {
        Ok(if next(self).await? { Turn::Again } else { Turn::Idle })
    }

    async fn wait(&self) {
        woken(&self.asked).await;
    }
}

/// Makes the one that has waited for longest, of an organization of which none is under way. `false`: there is none.
async fn next(fixes: &Fixes) -> Result<bool, AppError> {
    let waiting =
        fixes.services.store.read(None, |db| Ok::<_, AppError>(fix_pull_request::opening(db, OPENING)?));
    let mut waiting = waiting.await?.into_iter();
    let free = waiting.find_map(|(org, id)| Some((fixes.under_way.try_enter(org)?, org, id)));
    let Some((_pass, org, id)) = free else { return Ok(false) };
    make::make(fixes, org, id).await
}

/// Where a fix is to be merged.
fn base(pipeline: &Pipeline, repository: &Repository) -> Option<String> {
    pipeline.outline.tracks.clone().or_else(|| repository.seen.default_branch.clone())
}

/// The forge of a repository; `None`: it is plain git to us, or there is no token for its API.
fn client(fixes: &Fixes, repository: &Repository, credential: Option<&Credential>) -> Option<Client> {
    let (forge, at) = Place::of(&repository.url, &fixes.config.forges)?;
    let token = credential.and_then(Credential::token)?;
    Some(Client { egress: fixes.services.egress.clone(), forge, at, token })
}

/// On a thread of its own: a forge that hangs must not keep a stopping server.
async fn asking<T: Send + 'static>(ask: impl FnOnce() -> T + Send + 'static) -> Result<T, AppError> {
    let (tell, answer) = oneshot::channel();
    let started = std::thread::Builder::new().name("forge".into()).spawn(move || {
        // Nobody listens any more when the server is stopping.
        let _ = tell.send(ask());
    });
    started.map_err(|error| AppError::bug(format!("cannot start a thread: {error}")))?;
    answer.await.map_err(|_| AppError::bug("asking a forge broke"))
}
