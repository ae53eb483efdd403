//! Use cases, one method each. They require a proof of authorization (`AuthorizedCaller`), except for those that
//! authenticate the caller.

mod action_links;
mod agents;
mod analyses;
mod answer;
mod approval_changes;
mod approvals;
mod approvers;
mod artifacts;
mod audit_log;
mod chat;
mod cli_logins;
mod commit_details;
mod commits;
mod deliveries;
mod deployed;
mod deployments;
mod environments;
mod events;
mod fixes;
mod follow;
mod follow_log;
mod forge_accounts;
mod forge_apps;
mod forge_connections;
mod forge_hooks;
mod grants;
mod insights;
mod instance_organizations;
mod invitations;
mod line_count;
mod logins;
mod logs;
mod long_poll;
mod member_actions;
mod members;
mod notifications;
mod organizations;
mod passwords;
mod pipelines;
mod plan;
mod provider_login;
mod pull_requests;
mod registries;
mod registry_builds;
mod repositories;
mod resource_access;
mod runner_calls;
mod runners;
mod second_factor;
mod secrets;
mod sign_in;
mod slack;
mod teams;
mod throttle;
mod tokens;
mod validate;
mod webhooks;

pub use action_links::ActionLinkView;
pub use analyses::NewAnalysisSettings;
pub use answer::{ApiResponse, IdempotentResponse, ResponsePage};
pub use approvals::ApprovalFilter;
pub use chat::{ChatAddress, NewChatDestination};
pub use cli_logins::{CliLoginProof, CliLoginRequest, LoopbackRedirect};
pub use deployments::{DeploymentFilter, NewDeployment, NewRollback, PipelineSelector, SoakEnd};
pub use environments::{
    ClaimRequest, DeployRequest, EnvironmentPath, ForceClaimRequest, LockableEnvironment, NumberedPage,
    RemoteLock, RemoteLockEnd, RemoteLockKey, RemoteLockState,
};
pub use events::EventFilter;
pub use grants::NewGrant;
pub use insights::InsightsRequest;
pub use instance_organizations::OrganizationRenaming;
pub use invitations::{NewInvitation, SignUpRequest};
pub use logs::{LogDownload, LogPart, LogSelector, SearchFrom};
pub use long_poll::LongPoll;
pub(crate) use members::default_name;
pub use members::{AgentLimitsChange, NewAgent, NewServiceAccount};
pub use organizations::OrganizationChange;
pub(crate) use organizations::{insert_organization, organization_subject};
pub use passwords::{ResetLink, issue_reset_link};
pub use pipelines::{NewPipeline, PipelineFilter};
pub use plan::{PlanFacts, PlanPreviewRequest, PlanSource, plan_definition};
pub(crate) use provider_login::{ProviderCallback, StartedProviderLogin};
pub use pull_requests::PullRequestFilter;
pub use registries::{NewRegistry, RegistryChange};
pub use registry_builds::BuildLogPart;
pub use repositories::{NewRepository, RepositoryChange};
pub use second_factor::reset_second_factor;
pub use secrets::{NewScope, NewSecret, SecretChange};
pub use sign_in::{LoginAttempt, SignedIn};
pub use slack::{SlackAnswer, SlackCredentials};
pub use teams::NewTeam;
pub use tokens::NewToken;
pub use tokens::issue_token;
pub use webhooks::{NewWebhook, WebhookChange};

use std::net::SocketAddr;
use std::sync::Arc;

use berth_api::ReplayableBody;
use berth_core::access::ActionPermit;
use berth_engine::admission::AdmissionControl;
use berth_engine::artifacts::ArtifactStore;
use berth_engine::limits::{DEFINITIONS_AT_ONCE, DEFINITIONS_WAITING_MAX};
use berth_engine::logs::LogStore;
use berth_engine::vault::SecretVault;
use berth_store::idempotency::{self, IdempotencyKey, KeyLookup, StoredResponse};
use berth_store::sql::BoundRead;
use berth_store::{ReadTx, Store, StoreRead as _, Tx, TxContext};
use tokio_util::sync::CancellationToken;

use crate::auth::authorize::{self, AuthorizedCaller, CurrentAccess};
use crate::auth::callers::CallerCache;
use crate::auth::passwords::PasswordService;
use crate::auth::rate_limit::RateLimits;
use crate::config::AppConfig;
use crate::error::AppError;
use crate::jobs::BackgroundJobs;
use crate::jobs::registry_builds::RegistryBuilder;
use crate::limits::{HOOK_CALLS_AT_ONCE, LARGE_HOOKS_AT_ONCE, LARGE_HOOKS_WAITING_MAX};
use crate::metrics::{RequestMetrics, ServerMetrics};
use crate::streams::StreamLimits;
use crate::tls::TlsTerminator;
use berth_engine::Services;

pub struct App {
    pub(crate) services: Arc<Services>,
    pub(crate) config: Arc<AppConfig>,
    pub(crate) rates: Arc<RateLimits>,
    pub(crate) passwords: PasswordService,
    /// Cache of API tokens and their owners.
    pub(crate) callers: CallerCache,
    /// Limits concurrent parsing of definitions.
    pub(crate) parsing: AdmissionControl,
    pub(crate) streams: StreamLimits,
    pub(crate) jobs: Arc<BackgroundJobs>,
    /// Metrics about HTTP requests.
    pub(crate) requests: Arc<RequestMetrics>,
    tls: Option<Arc<TlsTerminator>>,
    /// Limits concurrent large deliveries of forges.
    pub(crate) large_hooks: AdmissionControl,
    /// Limits concurrent requests to forges about webhooks.
    pub(crate) hook_calls: AdmissionControl,
    /// Cache of the number of commits between deployed commits and branch heads.
    behind: deployed::CommitDistanceCache,
}

impl App {
    /// Creates the application. Cancelling `shutdown` ends its streams and background jobs.
    pub fn new(store: Store, vault: SecretVault, config: AppConfig, shutdown: CancellationToken) -> Self {
        let services = Arc::new(Services::new(store, vault, config.services(), shutdown));
        let (rates, config) = (Arc::new(RateLimits::new(config.request_limit())), Arc::new(config));
        Self {
            jobs: Arc::new(BackgroundJobs::new(services.clone(), config.clone(), rates.clone())),
            services,
            rates,
            passwords: PasswordService::new(config.password_cost),
            callers: CallerCache::default(),
            parsing: AdmissionControl::new(DEFINITIONS_AT_ONCE, DEFINITIONS_WAITING_MAX),
            streams: StreamLimits::new(config.streams_per_token_max),
            requests: Arc::default(),
            tls: None,
            large_hooks: AdmissionControl::new(LARGE_HOOKS_AT_ONCE, LARGE_HOOKS_WAITING_MAX),
            hook_calls: AdmissionControl::without_queue(HOOK_CALLS_AT_ONCE),
            behind: deployed::CommitDistanceCache::default(),
            config,
        }
    }

    /// Sets the build backend for step registries. Without one, registries stay pending.
    #[must_use]
    pub fn with_builder(self, builder: Arc<dyn RegistryBuilder>) -> Self {
        self.jobs.registries.build_with(builder);
        self
    }

    /// Sets the actual listen address, which differs from the configured one if the configured port is 0.
    #[must_use]
    pub fn with_listen_address(mut self, address: SocketAddr) -> Self {
        Arc::make_mut(&mut self.config).listen = address;
        self
    }

    /// Makes this server terminate TLS itself.
    #[must_use]
    pub fn with_tls(self, tls: Arc<TlsTerminator>) -> Self {
        Self { tls: Some(tls), ..self }
    }

    pub fn tls(&self) -> Option<&Arc<TlsTerminator>> {
        self.tls.as_ref()
    }

    pub fn services(&self) -> &Arc<Services> {
        &self.services
    }

    pub fn jobs(&self) -> &Arc<BackgroundJobs> {
        &self.jobs
    }

    pub fn metrics(&self) -> ServerMetrics {
        ServerMetrics { jobs: self.jobs.clone(), requests: self.requests.clone() }
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

    pub fn config(&self) -> &AppConfig {
        &self.config
    }

    /// Runs a write transaction, or returns the stored response if the idempotency key was used before.
    ///
    /// Authorization is checked again inside the transaction, because the caller may have lost access while the request
    /// body was being received. `work` receives the caller's current access.
    async fn change<P, T>(
        &self,
        who: &AuthorizedCaller<P>,
        once: Option<IdempotencyKey>,
        work: impl FnOnce(&mut Tx<'_>, &CurrentAccess) -> Result<ApiResponse<T>, AppError> + Send + 'static,
    ) -> Result<IdempotentResponse<T>, AppError>
    where
        P: ActionPermit,
        T: ReplayableBody + Send + 'static,
    {
        self.run_rule(who, once, |tx, standing| work(tx, standing).map(RuleOutcome::Yes)).await
    }

    /// Like [`App::change`], for rules that can refuse a request and still write changes to the database.
    async fn run_rule<P, T>(
        &self,
        who: &AuthorizedCaller<P>,
        once: Option<IdempotencyKey>,
        work: impl FnOnce(&mut Tx<'_>, &CurrentAccess) -> Result<RuleOutcome<T>, AppError> + Send + 'static,
    ) -> Result<IdempotentResponse<T>, AppError>
    where
        P: ActionPermit,
        T: ReplayableBody + Send + 'static,
    {
        self.run_rule_after(who, once, Vec::new(), work).await
    }

    /// Like [`App::run_rule`]. `reads` are what the rule will read first, to save round trips.
    async fn run_rule_after<P, T>(
        &self,
        who: &AuthorizedCaller<P>,
        once: Option<IdempotencyKey>,
        reads: Vec<BoundRead>,
        work: impl FnOnce(&mut Tx<'_>, &CurrentAccess) -> Result<RuleOutcome<T>, AppError> + Send + 'static,
    ) -> Result<IdempotentResponse<T>, AppError>
    where
        P: ActionPermit,
        T: ReplayableBody + Send + 'static,
    {
        let (principal, caller) = (who.principal().clone(), who.principal().clone());
        let ahead = move |tx: &Tx<'_>| {
            let mut all = authorize::reads_of_current_access(tx, &caller);
            all.extend(reads);
            all
        };
        let done = self.transact_after(who.context(), once, ahead, move |tx| {
            let standing = authorize::load_current_access(tx, &principal)?;
            if standing.access.is_factor_missing {
                return Err(AppError::second_factor_required());
            }
            if !standing.access.may_somewhere(P::ACTION) {
                return Err(AppError::forbidden(P::ACTION, None));
            }
            work(tx, &standing)
        });
        let done = done.await;
        if let Some(denied) = done.as_ref().err().and_then(|error| error.denial_reason(P::ACTION)) {
            self.record_denied(who.principal(), who.org(), denied).await;
        }
        match done {
            Err(refused) => Err(self.name_grantors(who.org(), refused).await),
            done => done,
        }
    }

    async fn transact<T>(
        &self,
        context: TxContext,
        once: Option<IdempotencyKey>,
        work: impl FnOnce(&mut Tx<'_>) -> Result<RuleOutcome<T>, AppError> + Send + 'static,
    ) -> Result<IdempotentResponse<T>, AppError>
    where
        T: ReplayableBody + Send + 'static,
    {
        self.transact_after(context, once, |_| Vec::new(), work).await
    }

    /// Like [`App::transact`]. `ahead` returns what `work` will read first, to save round trips.
    async fn transact_after<T>(
        &self,
        context: TxContext,
        once: Option<IdempotencyKey>,
        ahead: impl FnOnce(&Tx<'_>) -> Vec<BoundRead> + Send + 'static,
        work: impl FnOnce(&mut Tx<'_>) -> Result<RuleOutcome<T>, AppError> + Send + 'static,
    ) -> Result<IdempotentResponse<T>, AppError>
    where
        T: ReplayableBody + Send + 'static,
    {
        let done = self.services.store.transact(context, move |tx| {
            tx.read_ahead(|tx| {
                let stored = once.as_ref().map(|once| idempotency::read_of_find(tx, once));
                stored.into_iter().chain(ahead(tx)).collect()
            })?;
            if let Some(once) = &once {
                match idempotency::find(tx, once)? {
                    KeyLookup::Same(answer) => {
                        idempotency::ensure_durable(tx)?;
                        return Ok(Ok(IdempotentResponse::Replayed(answer)));
                    }
                    KeyLookup::Different => return Err(answer::key_reused_error()),
                    KeyLookup::None => {}
                }
            }
            match (work(tx)?, once) {
                (RuleOutcome::No(refusal), _) => Ok(Err(refusal)),
                (RuleOutcome::Yes(answer), None) => Ok(Ok(IdempotentResponse::Fresh(answer))),
                (RuleOutcome::Yes(answer), Some(once)) => {
                    let stored = answer.to_stored_response()?;
                    idempotency::store_response(tx, &once, &stored)?;
                    let written = (!T::SHOWS_ONCE).then_some(stored.body);
                    Ok(Ok(IdempotentResponse::Fresh(ApiResponse { stored_body: written, ..answer })))
                }
            }
        });
        done.await?
    }

    /// Returns the stored response for this idempotency key, for use cases that need it before they start a
    /// transaction.
    async fn find_stored_response(
        &self,
        context: TxContext,
        once: Option<IdempotencyKey>,
    ) -> Result<Option<StoredResponse>, AppError> {
        let Some(once) = once else { return Ok(None) };
        let found = self.services.store.transact(context, move |tx| {
            let found = idempotency::find(tx, &once)?;
            if matches!(found, KeyLookup::Same(_)) {
                idempotency::ensure_durable(tx)?;
            }
            Ok::<_, AppError>(found)
        });
        match found.await? {
            KeyLookup::None => Ok(None),
            KeyLookup::Same(answer) => Ok(Some(answer)),
            KeyLookup::Different => Err(answer::key_reused_error()),
        }
    }

    async fn read<P, T: Send + 'static>(
        &self,
        who: &AuthorizedCaller<P>,
        work: impl FnOnce(&mut ReadTx<'_>) -> Result<T, AppError> + Send + 'static,
    ) -> Result<T, AppError> {
        match self.services.store.read(Some(who.org()), work).await {
            Err(refused) => Err(self.name_grantors(who.org(), refused).await),
            done => done,
        }
    }
}

/// The result of a rule. The transaction is committed for `No` as well, because the rule may also have applied changes
/// that were due, such as an expiry.
enum RuleOutcome<T> {
    Yes(ApiResponse<T>),
    No(AppError),
}

/// Checks `If-Match` for records whose version is not checked by a rule in `core`.
fn check_version(current: i64, expected: Option<i64>) -> Result<(), AppError> {
    match expected {
        Some(version) if version != current => {
            Err(berth_core::decision::CommandRefusal::PreconditionFailed { current }.into())
        }
        _ => Ok(()),
    }
}
