//! Use cases, one method each. They take a proof of authorization (`Authorized`), except those that authenticate the
//! caller.

mod analyses;
mod answer;
mod approvals;
mod approvers;
mod commits;
mod deliveries;
mod deployed;
mod deployments;
mod environments;
mod events;
mod fixes;
mod follow;
mod follow_log;
mod history;
mod insights;
mod invitations;
mod logs;
mod members;
mod organizations;
mod passwords;
mod pipelines;
mod plan;
mod registries;
mod registry_builds;
mod repositories;
mod runner_calls;
mod runners;
mod secrets;
mod sign_in;
mod throttle;
mod tokens;
mod validate;
mod wait;
mod webhooks;

pub use analyses::NewSettings;
pub use answer::{Answer, Outcome, Page};
pub use approvals::ApprovalFilter;
pub use deployments::{DeploymentFilter, NewDeployment, NewRollback, OfPipeline, SoakEnd};
pub use environments::{ClaimAsked, DeployAsked, ForceAsked, NumberedPage, Place};
pub use events::EventFilter;
pub use insights::DeliveryAsked;
pub use invitations::{NewInvitation, SignUp};
pub use logs::{Download, LogAsked, LogPart, SearchFrom};
pub use members::NewServiceAccount;
pub(crate) use members::default_name;
pub use organizations::OrganizationChange;
pub(crate) use organizations::subject as organization_subject;
pub use passwords::{ResetLink, issue_reset_link};
pub use pipelines::{NewPipeline, PipelineFilter};
pub use plan::{PlanAsked, PlanFacts, PlanOf, plan_definition};
pub use registries::{NewRegistry, RegistryChange};
pub use registry_builds::BuildLogPart;
pub use repositories::{NewRepository, RepositoryChange};
pub use secrets::{NewScope, NewSecret, SecretChange};
pub use sign_in::{LoginAttempt, SignedIn};
pub use tokens::NewToken;
pub use tokens::issue as issue_token;
pub use wait::Waiting;
pub use webhooks::{NewWebhook, WebhookChange};

use std::net::SocketAddr;
use std::sync::Arc;

use berth_api::Replay;
use berth_core::access::ActionPermit;
use berth_engine::admission::AdmissionControl;
use berth_engine::artifacts::ArtifactStore;
use berth_engine::limits::{DEFINITIONS_AT_ONCE, DEFINITIONS_WAITING_MAX};
use berth_engine::logs::LogStore;
use berth_engine::vault::SecretVault;
use berth_store::idempotency::{self, Earlier, OnceKey, StoredAnswer};
use berth_store::{Context, Reader, Store, Tx};
use tokio_util::sync::CancellationToken;

use crate::auth::authorize::{self, Authorized, Standing};
use crate::auth::callers::Callers;
use crate::auth::passwords::Passwords;
use crate::auth::rate_limit::Rates;
use crate::config::Config;
use crate::error::AppError;
use crate::jobs::Jobs;
use crate::jobs::registry_builds::Builder;
use crate::metrics::{Metrics, Requests};
use crate::streams::Streams;
use crate::tls::Tls;
use berth_engine::Services;

pub struct App {
    pub(crate) services: Arc<Services>,
    pub(crate) config: Arc<Config>,
    pub(crate) rates: Arc<Rates>,
    pub(crate) passwords: Passwords,
    /// Cache of API tokens and their owners.
    pub(crate) callers: Callers,
    /// Limits concurrent parsing of definitions.
    pub(crate) parsing: AdmissionControl,
    pub(crate) streams: Streams,
    pub(crate) jobs: Arc<Jobs>,
    /// Request metrics.
    pub(crate) requests: Arc<Requests>,
    tls: Option<Arc<Tls>>,
    /// Cache of commit counts.
    behind: deployed::Behind,
}

impl App {
    /// Cancelling `shutdown` ends streams and background jobs.
    pub fn new(store: Store, vault: SecretVault, config: Config, shutdown: CancellationToken) -> Self {
        let services = Arc::new(Services::new(store, vault, config.services(), shutdown));
        let (rates, config) = (Arc::new(Rates::new(config.request_limit())), Arc::new(config));
        Self {
            jobs: Arc::new(Jobs::new(services.clone(), config.clone(), rates.clone())),
            services,
            rates,
            passwords: Passwords::new(config.password_cost),
            callers: Callers::default(),
            parsing: AdmissionControl::new(DEFINITIONS_AT_ONCE, DEFINITIONS_WAITING_MAX),
            streams: Streams::new(config.streams_per_token_max),
            requests: Arc::default(),
            tls: None,
            behind: deployed::Behind::default(),
            config,
        }
    }

    /// Sets the builder of step registries. Without one, registries stay pending.
    #[must_use]
    pub fn building_with(self, builder: Arc<dyn Builder>) -> Self {
        self.jobs.registries.build_with(builder);
        self
    }

    /// Sets the actual listen address, as the configured port may be 0.
    #[must_use]
    pub fn listening_at(mut self, address: SocketAddr) -> Self {
        Arc::make_mut(&mut self.config).listen = address;
        self
    }

    /// Makes this server terminate TLS itself.
    #[must_use]
    pub fn with_tls(self, tls: Arc<Tls>) -> Self {
        Self { tls: Some(tls), ..self }
    }

    pub fn tls(&self) -> Option<&Arc<Tls>> {
        self.tls.as_ref()
    }

    pub fn services(&self) -> &Arc<Services> {
        &self.services
    }

    pub fn jobs(&self) -> &Arc<Jobs> {
        &self.jobs
    }

    pub fn metrics(&self) -> Metrics {
        Metrics { jobs: self.jobs.clone(), requests: self.requests.clone() }
    }

    pub fn store(&self) -> &Store {
        &self.services.store
    }

    pub fn vault(&self) -> &Arc<SecretVault> {
        &self.services.vault
    }

    pub fn logs(&self) -> &LogStore {
        &self.services.logs
    }

    pub fn artifacts(&self) -> &ArtifactStore {
        &self.services.artifacts
    }

    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Runs a write transaction, or returns the stored response if the idempotency key was used before.
    ///
    /// Authorization is checked again inside the transaction, because the caller may have lost access while the request
    /// body was received. `work` gets the caller's current standing.
    async fn change<P, T>(
        &self,
        who: &Authorized<P>,
        once: Option<OnceKey>,
        work: impl FnOnce(&mut Tx<'_>, &Standing) -> Result<Answer<T>, AppError> + Send + 'static,
    ) -> Result<Outcome<T>, AppError>
    where
        P: ActionPermit,
        T: Replay + Send + 'static,
    {
        self.rule(who, once, |tx, standing| work(tx, standing).map(Ruled::Yes)).await
    }

    /// Like [`App::change`], for rules that can refuse a request and still write changes.
    async fn rule<P, T>(
        &self,
        who: &Authorized<P>,
        once: Option<OnceKey>,
        work: impl FnOnce(&mut Tx<'_>, &Standing) -> Result<Ruled<T>, AppError> + Send + 'static,
    ) -> Result<Outcome<T>, AppError>
    where
        P: ActionPermit,
        T: Replay + Send + 'static,
    {
        let principal = who.principal().clone();
        let done = self.transact(who.context(), once, move |tx| {
            let standing = authorize::standing(tx, &principal)?;
            if !standing.role.may(P::ACTION) {
                return Err(AppError::forbidden(P::ACTION));
            }
            work(tx, &standing)
        });
        let done = done.await;
        if let Some(denied) = done.as_ref().err().and_then(|error| error.denied(P::ACTION)) {
            self.record_denied(who.principal(), who.org(), denied).await;
        }
        done
    }

    async fn transact<T>(
        &self,
        context: Context,
        once: Option<OnceKey>,
        work: impl FnOnce(&mut Tx<'_>) -> Result<Ruled<T>, AppError> + Send + 'static,
    ) -> Result<Outcome<T>, AppError>
    where
        T: Replay + Send + 'static,
    {
        let done = self.services.store.transact(context, move |tx| {
            if let Some(once) = &once {
                match idempotency::find(tx, once)? {
                    Earlier::Same(answer) => {
                        idempotency::vouch(tx)?;
                        return Ok(Ok(Outcome::Replayed(answer)));
                    }
                    Earlier::Different => return Err(answer::key_reused()),
                    Earlier::None => {}
                }
            }
            match (work(tx)?, once) {
                (Ruled::No(refusal), _) => Ok(Err(refusal)),
                (Ruled::Yes(answer), None) => Ok(Ok(Outcome::Fresh(answer))),
                (Ruled::Yes(answer), Some(once)) => {
                    let stored = answer.stored()?;
                    idempotency::remember(tx, &once, &stored)?;
                    let written = (!T::SHOWS_ONCE).then_some(stored.body);
                    Ok(Ok(Outcome::Fresh(Answer { written, ..answer })))
                }
            }
        });
        done.await?
    }

    /// Returns the stored response for this idempotency key, for use cases that need it before they start.
    async fn earlier(
        &self,
        context: Context,
        once: Option<OnceKey>,
    ) -> Result<Option<StoredAnswer>, AppError> {
        let Some(once) = once else { return Ok(None) };
        let found = self.services.store.transact(context, move |tx| {
            let found = idempotency::find(tx, &once)?;
            if matches!(found, Earlier::Same(_)) {
                idempotency::vouch(tx)?;
            }
            Ok::<_, AppError>(found)
        });
        match found.await? {
            Earlier::None => Ok(None),
            Earlier::Same(answer) => Ok(Some(answer)),
            Earlier::Different => Err(answer::key_reused()),
        }
    }

    async fn read<P, T: Send + 'static>(
        &self,
        who: &Authorized<P>,
        work: impl FnOnce(&mut Reader<'_>) -> Result<T, AppError> + Send + 'static,
    ) -> Result<T, AppError> {
        self.services.store.read(Some(who.org()), work).await
    }
}

/// The result of a rule. `No` is committed too, because the rule may also have applied changes that were due, such as
/// an expiry.
enum Ruled<T> {
    Yes(Answer<T>),
    No(AppError),
}

/// Checks `If-Match` for records without a state machine of their own.
fn check_version(current: i64, expected: Option<i64>) -> Result<(), AppError> {
    match expected {
        Some(version) if version != current => {
            Err(berth_core::decision::CommandRefusal::PreconditionFailed { current }.into())
        }
        _ => Ok(()),
    }
}
