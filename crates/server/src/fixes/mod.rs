//! Fix pull requests that were asked for are made: one commit on one new branch, and where there is a forge, a pull
//! request. A person merges it, nobody else.
//!
//! What is so stands in the store. A server that is killed in the middle does the same again: the commit is the same,
//! and a branch or pull request that is there already is taken as it is.

pub(crate) mod ends;
mod evidence;
mod make;

use std::sync::Arc;
use std::time::Duration;

use berth_core::pipeline::state::Pipeline;
use berth_core::repository::Repository;
use berth_store::query::{Batch, analyses};
use tokio::sync::{Notify, oneshot};

use crate::app::App;
use crate::error::AppError;
use crate::forge::{Client, Place};
use crate::gate::Gate;
use crate::git::Credential;
use crate::limits::FIXES_AT_ONCE;

const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Looked up at once: one of each organization, of more organizations than are worked for at once.
const OPENING: Batch = Batch { total: 64, share: 1 };
/// Made in one turn of the crank.
const TURN_MAX: usize = 1_000;

/// What is known about fixes in this process.
pub(crate) struct Fixes {
    /// One at a time for each organization: a forge that hangs holds up no other one.
    under_way: Gate,
    asked: Notify,
}

impl Default for Fixes {
    fn default() -> Self {
        Self { under_way: Gate::without_queue(FIXES_AT_ONCE), asked: Notify::new() }
    }
}

impl Fixes {
    /// Somebody wants one now.
    pub(crate) fn nudge(&self) {
        self.asked.notify_one();
    }
}

pub(crate) async fn fixes(app: Arc<App>) {
    let lanes = (0..FIXES_AT_ONCE.total).map(|_| lane(&app));
    futures_util::future::join_all(lanes).await;
}

async fn lane(app: &App) {
    while !app.shutdown.is_cancelled() {
        match next(app).await {
            Ok(true) => continue,
            Ok(false) => {}
            Err(error) => {
                tracing::warn!(?error, "a fix could not be proposed; it is tried again in a second");
            }
        }
        let nudged = tokio::time::timeout(LOOK_EVERY, app.fixes.asked.notified());
        app.shutdown.run_until_cancelled(nudged).await;
    }
}

/// Everything that was asked for.
pub(crate) async fn all(app: &App) -> Result<(), AppError> {
    for _ in 0..TURN_MAX {
        if !next(app).await? {
            break;
        }
    }
    Ok(())
}

/// Makes the one that has waited for longest, of an organization of which none is under way. `false`: there is none.
async fn next(app: &App) -> Result<bool, AppError> {
    let waiting = app.store.read(None, |db| Ok::<_, AppError>(analyses::opening(db, OPENING)?));
    let mut waiting = waiting.await?.into_iter();
    let free = waiting.find_map(|(org, id)| Some((app.fixes.under_way.try_enter(org)?, org, id)));
    let Some((_pass, org, id)) = free else { return Ok(false) };
    make::make(app, org, id).await
}

/// Where a fix is to be merged.
fn base(pipeline: &Pipeline, repository: &Repository) -> Option<String> {
    pipeline.outline.tracks.clone().or_else(|| repository.seen.default_branch.clone())
}

/// The forge of a repository; `None`: it is plain git to us, or there is no token for its API.
fn client(app: &App, repository: &Repository, credential: Option<&Credential>) -> Option<Client> {
    let (forge, at) = Place::of(&repository.url, &app.config.forges)?;
    let token = credential.and_then(Credential::token)?;
    Some(Client { egress: app.egress.clone(), forge, at, token })
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
