//! Connections of repositories to their forges: connect, view, test, rotate the secret, disconnect.

mod account;
mod record;

use std::net::IpAddr;

use berth_api::connection as wire;
use berth_api::problem::Code;
use berth_core::access::permit;
use berth_core::event::EventKind;
use berth_core::forge::{ForgeConnection, ForgeKind};
use berth_core::id::OrgId;
use berth_core::repository::{RemoteUrl, Repository};
use berth_engine::admission::AdmissionPermit;
use berth_engine::credential::RedactedString;
use berth_engine::events::repository_event;
use berth_store::StoreRead;
use berth_store::idempotency::IdempotencyKey;
use berth_store::tables::{forge_connection, repository};

use super::{ApiResponse, App, IdempotentResponse};
use crate::auth::authorize::AuthorizedCaller;
use crate::config::AppConfig;
use crate::error::AppError;
use crate::integrations::forges::hooks::new_hook_secret;
use crate::integrations::forges::{ForgeClient, ForgeError, ForgeRepository, client_of, run_on_thread};

pub(super) use account::disconnect;
pub(super) use record::{NewConnection, insert_connection, to_response};
use record::{connection_event, hook_url};

type WithSecret = wire::ConnectionWithSecret;

/// The creation of a webhook on the forge.
struct HookChange {
    /// The webhook to delete first.
    previous: Option<String>,
    secret: RedactedString,
    /// The path of the connection, if it is new.
    location: Option<String>,
}

impl App {
    pub async fn view_connection(
        &self,
        who: &AuthorizedCaller<permit::RepositoriesRead>,
        key: String,
    ) -> Result<ApiResponse<wire::RepositoryConnection>, AppError> {
        let config = self.config.clone();
        self.read(who, move |db| {
            let (repository, connection) = find_connected(db, &key)?;
            let body = to_response(db, &config, &repository, &connection)?;
            // Deliveries verify a connection without changing its version.
            let response = ApiResponse::ok(body).with_version(connection.version);
            Ok(match connection.verified_at {
                Some(_) => response.with_variant("verified"),
                None => response,
            })
        })
        .await
    }

    /// Connects a repository. If the repository has a credential for the forge's API, creates the webhook there;
    /// otherwise returns what to enter.
    pub async fn connect_repository(
        &self,
        who: &AuthorizedCaller<permit::RepositoriesWrite>,
        key: String,
        forge: Option<ForgeKind>,
        once: Option<IdempotencyKey>,
    ) -> Result<IdempotentResponse<WithSecret>, AppError> {
        if let Some(earlier) = self.find_stored_response(who.context(), once.clone()).await? {
            return Ok(IdempotentResponse::Replayed(earlier));
        }
        let (owner, config, vault) = (who.principal().user, self.config.clone(), self.services.vault.clone());
        let secret = new_hook_secret()?;
        let (wanted, sealed_secret) = (key.clone(), secret.clone());
        // Committed before the webhook exists, because the forge sends a first delivery immediately.
        self.change(who, None, move |tx, standing| {
            let repository = find_repository(tx, &wanted)?;
            standing.check_confirmed(tx.now())?;
            check_unconnected(tx, &repository)?;
            check_public_url(&config, &repository.url)?;
            let forge = choose_forge(&config, &repository.url, forge)?;
            let new = NewConnection { repository: &repository, forge, app: None, secret: &sealed_secret };
            let connection = insert_connection(tx, &vault, &new, owner)?;
            Ok(ApiResponse::ok(to_response(tx, &config, &repository, &connection)?))
        })
        .await?;
        let location = format!("/api/v1/organizations/{}/repositories/{key}/connection", who.org());
        self.create_forge_hook(
            who,
            key,
            HookChange { previous: None, secret, location: Some(location) },
            once,
        )
        .await
    }

    /// Creates another secret. A webhook that Berth created is replaced; otherwise the new secret must be entered on the
    /// forge.
    pub async fn rotate_connection(
        &self,
        who: &AuthorizedCaller<permit::RepositoriesWrite>,
        key: String,
        once: Option<IdempotencyKey>,
    ) -> Result<IdempotentResponse<WithSecret>, AppError> {
        if let Some(earlier) = self.find_stored_response(who.context(), once.clone()).await? {
            return Ok(IdempotentResponse::Replayed(earlier));
        }
        let (config, vault) = (self.config.clone(), self.services.vault.clone());
        let secret = new_hook_secret()?;
        let (wanted, sealed_secret) = (key.clone(), secret.clone());
        let loaded = self.load_connected(who, key.clone()).await?;
        self.change(who, None, move |tx, standing| {
            let (repository, connection) = find_connected(tx, &wanted)?;
            standing.check_confirmed(tx.now())?;
            check_public_url(&config, &repository.url)?;
            if connection.app.is_some() {
                let text = "the secret belongs to the GitHub App; to replace it, disconnect the app's repositories, \
                            delete the app, and connect them with another one";
                return Err(AppError::new(Code::InvalidState, text));
            }
            let sealed = vault.seal_hook_secret(tx, connection.hook, &sealed_secret)?;
            forge_connection::set_secret(tx, repository.id, &sealed)?;
            let next = ForgeConnection {
                verified_at: None,
                version: connection.version + 1,
                updated_at: tx.now(),
                ..connection
            };
            forge_connection::update(tx, &next)?;
            let event = repository_event(EventKind::RepositoryUpdated, &repository);
            tx.record(event.with("connection", "secret rotated"))?;
            Ok(ApiResponse::ok(to_response(tx, &config, &repository, &next)?))
        })
        .await?;
        let change = HookChange { previous: loaded.1.forge_hook, secret, location: None };
        self.create_forge_hook(who, key, change, once).await
    }

    /// Creates the webhook on the forge, after deleting the previous one, and stores the result.
    async fn create_forge_hook(
        &self,
        who: &AuthorizedCaller<permit::RepositoriesWrite>,
        key: String,
        change: HookChange,
        once: Option<IdempotencyKey>,
    ) -> Result<IdempotentResponse<WithSecret>, AppError> {
        let HookChange { previous, secret, location } = change;
        let (repository, connection) = self.load_connected(who, key.clone()).await?;
        let (url, given) = (hook_url(&self.config, connection.forge, connection.hook), secret.clone());
        let asked = self.ask_forge(who, &repository, move |client| {
            if let Some(previous) = previous {
                client.delete_hook(&previous)?;
            }
            client.create_hook(&url, given.reveal())
        });
        let (forge_hook, error) = match asked.await? {
            None => (None, None),
            Some(Ok(id)) => (Some(id), None),
            Some(Err(error)) => (None, Some(error.to_string())),
        };
        let config = self.config.clone();
        self.change(who, once, move |tx, _| {
            let (repository, connection) = find_connected(tx, &key)?;
            let next = ForgeConnection { forge_hook, error, ..connection.clone() };
            let next = if next == connection {
                connection
            } else {
                let next = ForgeConnection { version: next.version + 1, updated_at: tx.now(), ..next };
                forge_connection::update(tx, &next)?;
                let state =
                    if next.error.is_some() { "webhook could not be created" } else { "webhook created" };
                let event = repository_event(EventKind::RepositoryUpdated, &repository);
                tx.record(event.with("connection", state).with_some("error", next.error.as_ref()))?;
                next
            };
            let shown = next.forge_hook.is_none().then(|| secret.reveal().to_owned());
            let record = to_response(tx, &config, &repository, &next)?;
            let body = WithSecret { record, secret: shown };
            let response = match location {
                Some(location) => ApiResponse::created(location, body),
                None => ApiResponse::ok(body),
            };
            Ok(response.with_version(next.version))
        })
        .await
    }

    /// Asks the forge for a test delivery.
    pub async fn test_connection(
        &self,
        who: &AuthorizedCaller<permit::RepositoriesWrite>,
        key: String,
        once: Option<IdempotencyKey>,
    ) -> Result<IdempotentResponse<wire::ConnectionTest>, AppError> {
        if let Some(earlier) = self.find_stored_response(who.context(), once.clone()).await? {
            return Ok(IdempotentResponse::Replayed(earlier));
        }
        let (repository, connection) = self.load_connected(who, key).await?;
        let by_hand = || {
            let text = match connection.app {
                None => "send a test delivery from the webhook's page on the forge",
                Some(_) => "a GitHub App has no test delivery; push a commit",
            };
            Some(text.to_owned())
        };
        let asked = match connection.forge_hook.clone() {
            None => None,
            Some(id) => self.ask_forge(who, &repository, move |client| client.test_hook(&id)).await?,
        };
        let body = match asked {
            Some(Ok(true)) => wire::ConnectionTest { is_requested: true, detail: None },
            Some(Err(error)) => wire::ConnectionTest { is_requested: false, detail: Some(error.to_string()) },
            Some(Ok(false)) | None => wire::ConnectionTest { is_requested: false, detail: by_hand() },
        };
        self.change(who, once, move |_, _| Ok(ApiResponse::ok(body))).await
    }

    /// Disconnects a repository, and deletes the webhook that Berth created on the forge.
    pub async fn disconnect_repository(
        &self,
        who: &AuthorizedCaller<permit::RepositoriesWrite>,
        key: String,
        expected: Option<i64>,
    ) -> Result<IdempotentResponse<wire::RepositoryConnection>, AppError> {
        let (repository, connection) = self.load_connected(who, key.clone()).await?;
        super::check_version(connection.version, expected)?;
        let error = self.delete_forge_hook(who, &repository, &connection).await?;
        let config = self.config.clone();
        let gone = self.change(who, None, move |tx, _| {
            let (repository, connection) = find_connected(tx, &key)?;
            super::check_version(connection.version, expected)?;
            let last = to_response(tx, &config, &repository, &connection)?;
            disconnect(tx, &repository, &connection)?;
            let deleted_at = Some(tx.now().to_string());
            Ok(ApiResponse::ok(wire::RepositoryConnection { error, deleted_at, ..last }))
        });
        let gone = gone.await;
        self.services.pull_requests_wanted.notify_one();
        gone
    }

    /// Deletes the webhook that Berth created on the forge. Returns why that failed.
    pub(super) async fn delete_forge_hook(
        &self,
        who: &AuthorizedCaller<permit::RepositoriesWrite>,
        repository: &Repository,
        connection: &ForgeConnection,
    ) -> Result<Option<String>, AppError> {
        let Some(id) = connection.forge_hook.clone() else { return Ok(None) };
        let left = |why: &str| Some(format!("delete the webhook on the forge: {why}"));
        Ok(match self.ask_forge(who, repository, move |client| client.delete_hook(&id)).await? {
            Some(Ok(()) | Err(ForgeError::NotFound)) => None,
            Some(Err(error)) => left(&error.to_string()),
            None => left("the repository has no credential for its forge"),
        })
    }

    /// Sends requests to the repository's forge. `None` if the repository has no credential for its API.
    async fn ask_forge<T: Send + 'static>(
        &self,
        who: &AuthorizedCaller<permit::RepositoriesWrite>,
        repository: &Repository,
        ask: impl FnOnce(&ForgeClient) -> Result<T, ForgeError> + Send + 'static,
    ) -> Result<Option<Result<T, ForgeError>>, AppError> {
        let client = client_of(&self.services, &self.config.forges, who.org(), repository).await?;
        let Some(client) = client else { return Ok(None) };
        let pass = self.enter_forge_call(who.org())?;
        run_on_thread(move || {
            let done = ask(&client);
            drop(pass);
            Some(done)
        })
        .await
    }

    /// Limits concurrent requests to forges.
    pub(super) fn enter_forge_call(&self, org: OrgId) -> Result<AdmissionPermit, AppError> {
        let pass = self.hook_calls.try_enter(org);
        pass.ok_or_else(|| AppError::busy("too many requests to forges are running; try again"))
    }

    async fn load_connected(
        &self,
        who: &AuthorizedCaller<permit::RepositoriesWrite>,
        key: String,
    ) -> Result<(Repository, ForgeConnection), AppError> {
        self.read(who, move |db| find_connected(db, &key)).await
    }
}

pub(super) fn find_connected(
    db: &mut impl StoreRead,
    key: &str,
) -> Result<(Repository, ForgeConnection), AppError> {
    let repository = find_repository(db, key)?;
    let connection = forge_connection::by_repository(db, repository.id)?;
    let connection = connection.ok_or_else(|| {
        AppError::new(Code::NotFound, "the repository is not connected to its forge; connect it first")
    })?;
    Ok((repository, connection))
}

pub(super) fn find_repository(db: &mut impl StoreRead, key: &str) -> Result<Repository, AppError> {
    repository::find(db, key)?.ok_or_else(|| AppError::not_found("repository"))
}

pub(super) fn check_unconnected(db: &mut impl StoreRead, repository: &Repository) -> Result<(), AppError> {
    if forge_connection::by_repository(db, repository.id)?.is_some() {
        let text = "the repository is already connected; disconnect it first, or rotate its secret";
        return Err(AppError::new(Code::AlreadyExists, text));
    }
    Ok(())
}

/// Checks that the forge can reach this server: at its public URL, or because both are on this machine.
pub(super) fn check_public_url(config: &AppConfig, repository: &RemoteUrl) -> Result<(), AppError> {
    let host = repository.host().unwrap_or_default();
    let is_loopback = host == "localhost" || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback());
    if config.public_url.is_some() || (config.is_local() && is_loopback) {
        return Ok(());
    }
    let text = "forges cannot reach this server, because it has no public URL; start it with --public-url";
    Err(AppError::new(Code::InvalidState, text))
}

/// Returns the kind of forge that hosts a repository: the configured or well-known one of its host, or else the one
/// that the caller names.
fn choose_forge(
    config: &AppConfig,
    url: &RemoteUrl,
    named: Option<ForgeKind>,
) -> Result<ForgeKind, AppError> {
    if url.host().is_none() || url.forge_path().is_none() {
        let text = "the repository's URL does not name a repository on a forge";
        return Err(AppError::new(Code::InvalidState, text));
    }
    let located = ForgeRepository::locate(url, &config.forges);
    match (located.map(|(forge, _)| forge.kind()), named) {
        (Some(located), Some(named)) if located != named => {
            Err(AppError::invalid_member("/forge", format!("must be {located}, the forge of this host")))
        }
        (Some(forge), _) | (None, Some(forge)) => Ok(forge),
        (None, None) => {
            let text = "is required, because the kind of forge cannot be recognized by the host name";
            Err(AppError::invalid_member("/forge", text))
        }
    }
}
