//! The use cases, one method each. Every one of them asks for the proof that its caller may do it.

mod answer;
mod events;
mod follow;
mod history;
mod members;
mod organizations;
mod pipelines;
mod sign_in;
mod tokens;
mod wire;

pub use answer::{Answer, Outcome, Page};
pub use events::EventFilter;
pub use members::NewMember;
pub(crate) use members::default_name;
pub(crate) use organizations::subject as organization_subject;
pub(crate) use pipelines::checked as checked_definition;
pub use pipelines::{NewPipeline, PipelineFilter, diagnostic as wire_diagnostic};
pub use sign_in::{LoginAttempt, SignedIn};
pub use tokens::NewToken;
pub(crate) use tokens::issue as issue_token;

use berth_api::Replay;
use berth_store::idempotency::{self, Earlier, OnceKey};
use berth_store::{Context, Reader, Store, Tx};
use tokio_util::sync::CancellationToken;

use crate::access::Authorized;
use crate::config::Config;
use crate::credential::password::Passwords;
use crate::error::AppError;
use crate::keys::Keys;
use crate::rate::Rates;
use crate::streams::Streams;

pub struct App {
    pub(crate) store: Store,
    pub(crate) keys: Keys,
    pub(crate) config: Config,
    pub(crate) rates: Rates,
    pub(crate) passwords: Passwords,
    pub(crate) streams: Streams,
    /// Cancelled when the server stops: streams and background work end on it.
    pub shutdown: CancellationToken,
}

impl App {
    pub fn new(store: Store, keys: Keys, config: Config) -> Self {
        let (rates, streams) = (Rates::new(config.rate_limit), Streams::new(config.streams_per_token_max));
        let (passwords, shutdown) = (Passwords::new(), CancellationToken::new());
        Self { store, keys, config, rates, passwords, streams, shutdown }
    }

    /// For programs that have their own reason to stop, such as a signal.
    #[must_use]
    pub fn stopped_by(self, shutdown: CancellationToken) -> Self {
        Self { shutdown, ..self }
    }

    pub fn store(&self) -> &Store {
        &self.store
    }

    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Runs a change, or gives the stored answer when the same request was answered before.
    async fn change<P, T>(
        &self,
        who: &Authorized<P>,
        once: Option<OnceKey>,
        work: impl FnOnce(&mut Tx<'_>) -> Result<Answer<T>, AppError> + Send + 'static,
    ) -> Result<Outcome<T>, AppError>
    where
        T: Replay + Send + 'static,
    {
        self.transact(who.context(), once, work).await
    }

    async fn transact<T>(
        &self,
        context: Context,
        once: Option<OnceKey>,
        work: impl FnOnce(&mut Tx<'_>) -> Result<Answer<T>, AppError> + Send + 'static,
    ) -> Result<Outcome<T>, AppError>
    where
        T: Replay + Send + 'static,
    {
        self.store
            .transact(context, move |tx| {
                let Some(once) = once else { return work(tx).map(Outcome::Fresh) };
                match idempotency::find(tx, &once)? {
                    Earlier::Same(answer) => return Ok(Outcome::Replayed(answer)),
                    Earlier::Different => return Err(answer::key_reused()),
                    Earlier::None => {}
                }
                let answer = work(tx)?;
                idempotency::remember(tx, &once, &answer.stored()?)?;
                Ok(Outcome::Fresh(answer))
            })
            .await
    }

    async fn read<P, T: Send + 'static>(
        &self,
        who: &Authorized<P>,
        work: impl FnOnce(&mut Reader<'_>) -> Result<T, AppError> + Send + 'static,
    ) -> Result<T, AppError> {
        self.store.read(Some(who.org()), work).await
    }
}

/// `If-Match` for records that are not part of a machine.
fn check_version(current: i64, expected: Option<i64>) -> Result<(), AppError> {
    match expected {
        Some(version) if version != current => {
            Err(berth_core::decision::Refusal::PreconditionFailed { current }.into())
        }
        _ => Ok(()),
    }
}
