//! The record of a connection: how it is created and shown.

use berth_api::connection as wire;
use berth_core::event::{EventKind, NewEvent};
use berth_core::forge::{ForgeApp, ForgeConnection, ForgeKind};
use berth_core::id::{HookId, UserId};
use berth_core::repository::Repository;
use berth_engine::credential::RedactedString;
use berth_engine::events::repository_event;
use berth_engine::vault::SecretVault;
use berth_store::tables::{forge_app, forge_connection};
use berth_store::{StoreRead, Tx};

use super::account::create_account;
use crate::config::AppConfig;
use crate::error::AppError;
use crate::integrations::forges::setup_steps;
use crate::jobs::sync::grant_pipelines;

/// A connection to create.
pub(in crate::app) struct NewConnection<'a> {
    pub(in crate::app) repository: &'a Repository,
    pub(in crate::app) forge: ForgeKind,
    pub(in crate::app) app: Option<&'a ForgeApp>,
    /// The secret that signs deliveries. Not used with an app, which has its own.
    pub(in crate::app) secret: &'a RedactedString,
}

/// Creates a connection with its service account.
pub(in crate::app) fn insert_connection(
    tx: &mut Tx<'_>,
    vault: &SecretVault,
    new: &NewConnection<'_>,
    owner: UserId,
) -> Result<ForgeConnection, AppError> {
    let NewConnection { repository, forge, app, secret } = *new;
    let now = tx.now();
    let hook = HookId::from_parts(now, tx.entropy()?);
    let connection = ForgeConnection {
        repository: repository.id,
        hook,
        forge,
        app: app.map(|app| app.id),
        account: create_account(tx, repository, hook, owner)?,
        forge_hook: None,
        verified_at: None,
        error: None,
        version: 1,
        created_at: now,
        updated_at: now,
    };
    let sealed = vault.seal_hook_secret(tx, connection.hook, secret)?;
    forge_connection::insert(tx, &connection, &sealed)?;
    grant_pipelines(tx, repository.id, connection.account)?;
    let event = connection_event(EventKind::RepositoryConnected, repository, &connection);
    tx.record(event.with_some("app", app.map(|app| app.name.as_str())))?;
    Ok(connection)
}

pub(super) fn hook_url(config: &AppConfig, forge: ForgeKind, hook: HookId) -> String {
    // Programs on this machine may not know the name under which browsers open the dashboard.
    let base = if config.is_local() { format!("http://{}", config.listen) } else { config.base_url() };
    format!("{base}/hooks/{forge}/{hook}")
}

/// Builds an audit event, without the secret.
pub(super) fn connection_event(
    kind: EventKind,
    repository: &Repository,
    connection: &ForgeConnection,
) -> NewEvent {
    let event = repository_event(kind, repository).with("forge", connection.forge.as_str());
    event.with("accountId", connection.account.to_string())
}

pub(in crate::app) fn to_response(
    db: &mut impl StoreRead,
    config: &AppConfig,
    repository: &Repository,
    connection: &ForgeConnection,
) -> Result<wire::RepositoryConnection, AppError> {
    let app = connection.app.map(|id| forge_app::by_id(db, id)).transpose()?.flatten();
    let hook = app.as_ref().map_or(connection.hook, |app| app.hook);
    let hook_url = hook_url(config, connection.forge, hook);
    Ok(wire::RepositoryConnection {
        repository_id: repository.id.to_string(),
        forge: match connection.forge {
            ForgeKind::GitHub => wire::ForgeName::Github,
            ForgeKind::GitLab => wire::ForgeName::Gitlab,
            ForgeKind::Gitea => wire::ForgeName::Gitea,
            ForgeKind::Bitbucket => wire::ForgeName::Bitbucket,
        },
        instructions: match (&connection.forge_hook, &app) {
            (Some(_), _) | (_, Some(_)) => Vec::new(),
            (None, None) => setup_steps(connection.forge, &repository.url, &hook_url),
        },
        hook_url,
        account_id: connection.account.to_string(),
        is_managed: connection.forge_hook.is_some() || app.is_some(),
        app: app.map(|app| wire::ConnectionApp {
            id: app.id.to_string(),
            install_url: app.install_url(),
            name: app.name,
        }),
        is_verified: connection.verified_at.is_some(),
        verified_at: connection.verified_at.map(|time| time.to_string()),
        error: connection.error.clone(),
        created_at: connection.created_at.to_string(),
        updated_at: connection.updated_at.to_string(),
        deleted_at: None,
    })
}
