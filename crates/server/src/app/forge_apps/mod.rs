//! GitHub Apps: list, delete, and connect repositories through them. An organization has at most one per forge.

mod deliveries;
mod setup;

use berth_api::forge_app as wire;
use berth_api::problem::Code;
use berth_core::access::permit;
use berth_core::event::{EventKind, EventSubject, NewEvent};
use berth_core::forge::{ForgeApp, ForgeKind};
use berth_core::id::{ForgeAppId, OrgId};
use berth_core::repository::Repository;
use berth_engine::forge_app::{AppAccessError, AppLogin};
use berth_store::idempotency::IdempotencyKey;
use berth_store::tables::{forge_app, forge_connection, repository};
use berth_store::{StoreRead, Tx};

use super::forge_connections::{
    NewConnection, check_public_url, check_unconnected, find_repository, insert_connection, to_response,
};
use super::{ApiResponse, App, IdempotentResponse};
use crate::auth::authorize::AuthorizedCaller;
use crate::error::AppError;
use crate::integrations::forges::hooks::new_hook_secret;
use crate::integrations::forges::{AppForge, run_on_thread};
use crate::limits::{APPS_LISTED_MAX, REPOSITORIES_PER_ORGANIZATION_MAX};

pub(super) use deliveries::{apply_installation, describe_installation, list_repositories};

impl App {
    pub async fn list_forge_apps(
        &self,
        who: &AuthorizedCaller<permit::RepositoriesRead>,
    ) -> Result<Vec<wire::WireForgeApp>, AppError> {
        self.read(who, move |db| {
            let found = forge_app::list(db, APPS_LISTED_MAX)?;
            found.iter().map(|app| to_wire(db, app)).collect()
        })
        .await
    }

    /// Connects a repository through the organization's app on its forge. Returns what is left to do if there is no such
    /// app, or if it is not installed for the repository.
    pub async fn connect_with_app(
        &self,
        who: &AuthorizedCaller<permit::RepositoriesWrite>,
        key: String,
        is_personal: bool,
        once: Option<IdempotencyKey>,
    ) -> Result<IdempotentResponse<wire::AppConnection>, AppError> {
        if let Some(earlier) = self.find_stored_response(who.context(), once.clone()).await? {
            return Ok(IdempotentResponse::Replayed(earlier));
        }
        let (wanted, config) = (key.clone(), self.config.clone());
        let found = self.read(who, move |db| {
            let repository = find_repository(db, &wanted)?;
            check_unconnected(db, &repository)?;
            check_public_url(&config, &repository.url)?;
            let at = AppForge::locate(&repository.url, &config.forges);
            let at = at.map_err(|why| AppError::new(Code::InvalidState, why))?;
            let app = forge_app::by_origin(db, &at.origin)?;
            Ok((repository, at, app))
        });
        let (repository, at, app) = found.await?;
        let Some(app) = app else {
            return self.start_app_setup(who, repository, at, is_personal, once).await;
        };
        match self.find_installation(who.org(), app.clone(), at.path).await? {
            Ok(_) => self.connect_installed(who, key, app.id, once).await,
            Err(AppAccessError::NotInstalled { url, .. }) => {
                self.change(who, once, move |tx, standing| {
                    standing.check_confirmed(tx.now())?;
                    Ok(ApiResponse::ok(wire::AppConnection {
                        status: wire::AppConnectionStatus::InstallationRequired,
                        url: Some(url),
                        connection: None,
                    }))
                })
                .await
            }
            Err(error) => Err(AppError::new(Code::InvalidState, error.to_string())),
        }
    }

    /// Connects a repository for which the app is installed.
    async fn connect_installed(
        &self,
        who: &AuthorizedCaller<permit::RepositoriesWrite>,
        key: String,
        app: ForgeAppId,
        once: Option<IdempotencyKey>,
    ) -> Result<IdempotentResponse<wire::AppConnection>, AppError> {
        let (owner, config, vault) = (who.principal().user, self.config.clone(), self.services.vault.clone());
        // The app has a secret of its own. This one is never shown, and no delivery with it is accepted.
        let unused = new_hook_secret()?;
        let connected = self.change(who, once, move |tx, standing| {
            standing.check_confirmed(tx.now())?;
            let repository = find_repository(tx, &key)?;
            check_unconnected(tx, &repository)?;
            let app = forge_app::by_id(tx, app)?;
            // The URL may have been changed since the app was found.
            let is_its = |app: &ForgeApp| {
                AppForge::locate(&repository.url, &config.forges).is_ok_and(|at| at.origin == app.origin)
            };
            let app = app.filter(is_its).ok_or_else(|| AppError::not_found("GitHub App"))?;
            let (forge, secret) = (ForgeKind::GitHub, &unused);
            let new = NewConnection { repository: &repository, forge, app: Some(&app), secret };
            let connection = insert_connection(tx, &vault, &new, owner)?;
            record_installed(tx, &app)?;
            let now = tx.now();
            repository::schedule_sync(tx, repository.id, now)?;
            Ok(ApiResponse::ok(wire::AppConnection {
                status: wire::AppConnectionStatus::Connected,
                url: None,
                connection: Some(to_response(tx, &config, &repository, &connection)?),
            }))
        });
        let connected = connected.await;
        self.services.sync_wanted.notify_one();
        connected
    }

    /// Deletes an app with its private key. Refused while repositories are connected through it. The app on the forge is
    /// left to its owner.
    pub async fn delete_forge_app(
        &self,
        who: &AuthorizedCaller<permit::RepositoriesWrite>,
        id: ForgeAppId,
    ) -> Result<IdempotentResponse<wire::WireForgeApp>, AppError> {
        self.change(who, None, move |tx, standing| {
            standing.check_confirmed(tx.now())?;
            let app = forge_app::by_id(tx, id)?.ok_or_else(|| AppError::not_found("GitHub App"))?;
            let last = to_wire(tx, &app)?;
            if last.repositories > 0 {
                let text = format!(
                    "{} repositories are connected through the app; disconnect them first",
                    last.repositories
                );
                return Err(AppError::new(Code::InvalidState, text));
            }
            forge_app::delete(tx, id)?;
            tx.record(app_event(EventKind::ForgeAppDeleted, &app))?;
            let deleted_at = Some(tx.now().to_string());
            Ok(ApiResponse::ok(wire::WireForgeApp { deleted_at, ..last }))
        })
        .await
    }

    /// Asks the forge whether the app is installed for a repository.
    async fn find_installation(
        &self,
        org: OrgId,
        app: ForgeApp,
        path: String,
    ) -> Result<Result<i64, AppAccessError>, AppError> {
        let vault = self.services.vault.clone();
        let login = self.services.store.read(Some(org), move |db| {
            let sealed = forge_app::load_private_key(db, app.id)?;
            let sealed = sealed.ok_or_else(|| AppError::not_found("GitHub App"))?;
            let private_key = vault.open_app_key(db, org, app.id, &sealed)?;
            Ok::<_, AppError>(AppLogin { app, private_key, now: db.now() })
        });
        let (login, egress) = (login.await?, self.services.egress.clone());
        let pass = self.enter_forge_call(org)?;
        run_on_thread(move || {
            let found = login.find_installation(&egress, &path);
            drop(pass);
            found
        })
        .await
    }
}

/// Records that an app is installed, unless that is known.
fn record_installed(tx: &mut Tx<'_>, app: &ForgeApp) -> Result<(), AppError> {
    if app.installed_at.is_none() {
        let now = tx.now();
        forge_app::set_installed(tx, app.id, Some(now))?;
        tx.record(app_event(EventKind::ForgeAppInstalled, app))?;
    }
    Ok(())
}

fn app_event(kind: EventKind, app: &ForgeApp) -> NewEvent {
    let subject = EventSubject::new("forge_app", app.id, Some(&app.name));
    NewEvent::new(kind, subject).with("origin", app.origin.as_str())
}

fn to_wire(db: &mut impl StoreRead, app: &ForgeApp) -> Result<wire::WireForgeApp, AppError> {
    let connected = forge_connection::list_of_app(db, app.id, REPOSITORIES_PER_ORGANIZATION_MAX)?;
    Ok(wire::WireForgeApp {
        id: app.id.to_string(),
        name: app.name.clone(),
        origin: app.origin.clone(),
        install_url: app.install_url(),
        is_installed: app.installed_at.is_some(),
        repositories: i64::try_from(connected.len()).unwrap_or(i64::MAX),
        created_at: app.created_at.to_string(),
        deleted_at: None,
    })
}

/// URL of a page of the dashboard for a repository, for callers without a browser login.
fn repository_page(base_url: &str, org_slug: &str, repository: &Repository) -> String {
    format!("{base_url}/o/{org_slug}/settings/repositories/{}?connect=app", repository.id)
}
