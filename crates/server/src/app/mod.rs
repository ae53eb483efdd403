//! The use cases, one method each. Every one of them asks for the proof that its caller may do it.

mod alone;
mod analyses;
mod answer;
mod approvals;
mod approvers;
mod commits;
mod declared;
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
pub(crate) mod rollouts;
mod runner_calls;
mod runners;
mod secrets;
mod sign_in;
mod throttle;
mod tokens;
mod validate;
mod wait;
mod webhooks;
pub(crate) mod wire;

pub use alone::check_organizations;
pub use analyses::NewSettings;
pub use answer::{Answer, Outcome, Page};
pub use approvals::ApprovalFilter;
pub(crate) use declared::{adopt, declare as declare_environments};
pub(crate) use deployed::adopt_stages;
pub use deployments::{DeploymentFilter, NewDeployment, NewRollback, OfPipeline, SoakEnd};
pub use environments::{ClaimAsked, DeployAsked, ForceAsked, NumberedPage, Place};
pub use events::EventFilter;
pub(crate) use events::to_wire as wire_event;
pub use insights::DeliveryAsked;
pub use invitations::{NewInvitation, SignUp};
pub use logs::{Download, LogAsked, LogPart, SearchFrom};
pub use members::NewServiceAccount;
pub(crate) use members::default_name;
pub use organizations::OrganizationChange;
pub(crate) use organizations::subject as organization_subject;
pub use passwords::{ResetLink, issue_reset_link};
pub use pipelines::{NewPipeline, PipelineFilter, diagnostic as wire_diagnostic};
pub(crate) use pipelines::{check_slug, checked as checked_definition};
pub use plan::{PlanAsked, PlanFacts, PlanOf, plan_definition};
pub(crate) use registries::about as about_registry;
pub use registries::{NewRegistry, RegistryChange};
pub use registry_builds::BuildLogPart;
pub(crate) use repositories::about as about_repository;
pub use repositories::{NewRepository, RepositoryChange};
pub(crate) use runners::about as about_runner;
pub use secrets::{NewScope, NewSecret, SecretChange};
pub use sign_in::{LoginAttempt, SignedIn};
pub use tokens::NewToken;
pub(crate) use tokens::issue as issue_token;
pub use wait::Waiting;
pub use webhooks::{NewWebhook, WebhookChange};

use std::net::SocketAddr;
use std::sync::Arc;

use berth_api::Replay;
use berth_core::access::Permit;
use berth_store::idempotency::{self, Earlier, OnceKey, StoredAnswer};
use berth_store::{Context, Reader, Store, Tx};
use tokio_util::sync::CancellationToken;

use crate::access::{self, Authorized, Standing};
use crate::analysis::Analyses;
use crate::artifacts::Artifacts;
use crate::config::Config;
use crate::credential::callers::Callers;
use crate::credential::password::Passwords;
use crate::egress::{self, Egress, Policy};
use crate::engine::Engine;
use crate::error::AppError;
use crate::fixes::Fixes;
use crate::gate::Gate;
use crate::git::Mirrors;
use crate::limits::{
    DEFINITIONS_AT_ONCE, DEFINITIONS_WAITING_MAX, LOG_READS_AT_ONCE, LOG_READS_WAITING_MAX,
    TRANSFERS_AT_ONCE, TRANSFERS_WAITING_MAX,
};
use crate::logs::LogStore;
use crate::metrics::Requests;
use crate::notify::Notify;
use crate::rate::Rates;
use crate::registries::{Builder, Registries};
use crate::streams::Streams;
use crate::tls::Tls;
use crate::vault::Vault;
use crate::work::{Lead, Syncs};

pub struct App {
    pub(crate) store: Store,
    pub(crate) vault: Arc<Vault>,
    pub(crate) config: Config,
    pub(crate) rates: Rates,
    pub(crate) passwords: Passwords,
    /// Whom tokens speak for.
    pub(crate) callers: Callers,
    /// Where definitions are parsed.
    pub(crate) parsing: Gate,
    pub(crate) streams: Streams,
    pub(crate) logs: LogStore,
    /// Where logs are searched and cut into lines.
    pub(crate) reading: Gate,
    pub(crate) artifacts: Artifacts,
    /// Where sources and artifacts are packed for runners on other machines, and unpacked.
    pub(crate) transfers: Gate,
    /// Moves deployments.
    pub(crate) engine: Engine,
    /// Copies of repositories.
    pub(crate) git: Mirrors,
    pub(crate) syncs: Syncs,
    /// Looks at registries and has them built.
    pub(crate) registries: Registries,
    /// The one way out for requests of the server itself.
    pub(crate) egress: Egress,
    /// Proposes fixes.
    pub(crate) fixes: Fixes,
    /// Tells webhooks what happened.
    pub(crate) notify: Notify,
    /// Looks into failures.
    pub(crate) analyses: Analyses,
    /// For whoever measures.
    pub(crate) requests: Requests,
    /// Whether this server does the background work.
    pub(crate) lead: Lead,
    tls: Option<Arc<Tls>>,
    /// How far what is deployed is behind.
    behind: deployed::Behind,
    /// Cancelled when the server stops: streams and background work end on it.
    pub shutdown: CancellationToken,
}

impl App {
    pub fn new(mut store: Store, vault: Vault, config: Config) -> Self {
        store.calls_lost_after(i64::try_from(config.runner_times.lost.as_secs()).unwrap_or(i64::MAX));
        let (rates, streams) = (Rates::new(&config), Streams::new(config.streams_per_token_max));
        let (passwords, shutdown) = (Passwords::new(config.password_cost), CancellationToken::new());
        let parsing = Gate::new(DEFINITIONS_AT_ONCE, DEFINITIONS_WAITING_MAX);
        let reading = Gate::new(LOG_READS_AT_ONCE, LOG_READS_WAITING_MAX);
        let (vault, engine) = (Arc::new(vault), Engine::new());
        let dir = config.data_dir.join("logs");
        let logs = if store.is_shared() { LogStore::shared(dir) } else { LogStore::new(dir) };
        let artifacts = Artifacts::new(config.data_dir.join("artifacts"));
        let (git, syncs) =
            (Mirrors::new(&config.data_dir, &config.own_dir, config.git_max), Syncs::default());
        let registries = Registries::new(&config.data_dir, &config.build_dir());
        let policy = Policy { allowed: config.egress_allow.clone() };
        let egress = Egress::new(policy, egress::of_the_system(), config.webhook_max);
        let notify = Notify::default();
        Self {
            store,
            vault,
            config,
            rates,
            passwords,
            callers: Callers::default(),
            parsing,
            streams,
            logs,
            reading,
            artifacts,
            transfers: Gate::new(TRANSFERS_AT_ONCE, TRANSFERS_WAITING_MAX),
            engine,
            git,
            syncs,
            registries,
            egress,
            fixes: Fixes::default(),
            notify,
            analyses: Analyses::default(),
            requests: Requests::default(),
            lead: Lead::default(),
            tls: None,
            behind: deployed::Behind::default(),
            shutdown,
        }
    }

    /// What builds registries. Without it they wait.
    #[must_use]
    pub fn building_with(self, builder: Arc<dyn Builder>) -> Self {
        Self { registries: self.registries.building_with(builder), ..self }
    }

    /// For programs that have their own reason to stop, such as a signal.
    #[must_use]
    pub fn stopped_by(self, shutdown: CancellationToken) -> Self {
        Self { shutdown, ..self }
    }

    /// Where it listens, where the configuration leaves the port to the system.
    #[must_use]
    pub fn listening_at(mut self, address: SocketAddr) -> Self {
        self.config.listen = address;
        self
    }

    /// Connections are encrypted by this server itself.
    #[must_use]
    pub fn with_tls(self, tls: Arc<Tls>) -> Self {
        Self { tls: Some(tls), ..self }
    }

    pub fn tls(&self) -> Option<&Arc<Tls>> {
        self.tls.as_ref()
    }

    pub fn store(&self) -> &Store {
        &self.store
    }

    pub fn vault(&self) -> &Arc<Vault> {
        &self.vault
    }

    pub fn logs(&self) -> &LogStore {
        &self.logs
    }

    pub fn artifacts(&self) -> &Artifacts {
        &self.artifacts
    }

    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Something was committed that may let a deployment start, or tells one to stop: the engine looks now. Without
    /// this it looks within a second.
    pub(crate) fn nudge(&self) {
        self.engine.nudge();
    }

    /// Runs a change, or gives the stored answer when the same request was answered before.
    ///
    /// The caller's right is looked at again inside the transaction: a body may take its time, and somebody may have
    /// been removed meanwhile. `work` gets the standing of that moment.
    async fn change<P, T>(
        &self,
        who: &Authorized<P>,
        once: Option<OnceKey>,
        work: impl FnOnce(&mut Tx<'_>, &Standing) -> Result<Answer<T>, AppError> + Send + 'static,
    ) -> Result<Outcome<T>, AppError>
    where
        P: Permit,
        T: Replay + Send + 'static,
    {
        self.rule(who, once, |tx, standing| work(tx, standing).map(Ruled::Yes)).await
    }

    /// As [`App::change`], for rules that may say no and still have changed something.
    async fn rule<P, T>(
        &self,
        who: &Authorized<P>,
        once: Option<OnceKey>,
        work: impl FnOnce(&mut Tx<'_>, &Standing) -> Result<Ruled<T>, AppError> + Send + 'static,
    ) -> Result<Outcome<T>, AppError>
    where
        P: Permit,
        T: Replay + Send + 'static,
    {
        let principal = who.principal().clone();
        let done = self.transact(who.context(), once, move |tx| {
            let standing = access::standing(tx, &principal)?;
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
        let done = self.store.transact(context, move |tx| {
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

    /// The answer an earlier request with this key got, for use cases that must know before they begin.
    async fn earlier(
        &self,
        context: Context,
        once: Option<OnceKey>,
    ) -> Result<Option<StoredAnswer>, AppError> {
        let Some(once) = once else { return Ok(None) };
        let found = self.store.transact(context, move |tx| {
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
        self.store.read(Some(who.org()), work).await
    }
}

/// What a rule answered. A "no" is committed too: with it may have come what time had made due.
enum Ruled<T> {
    Yes(Answer<T>),
    No(AppError),
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
