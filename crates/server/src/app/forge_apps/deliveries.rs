//! What the deliveries of an app are about: repositories that are connected through it, and its installation.

use berth_core::event::EventKind;
use berth_core::forge::ForgeApp;
use berth_core::id::{ForgeAppId, RepositoryId};
use berth_store::tables::{forge_app, forge_connection, repository};
use berth_store::{StoreRead, Tx};

use super::{app_event, record_installed};
use crate::error::AppError;
use crate::integrations::forges::hooks::InstallationChange;
use crate::limits::REPOSITORIES_PER_ORGANIZATION_MAX;

/// Repositories that are connected through an app: those with this path on the forge, or all.
pub(in crate::app) fn list_repositories(
    db: &mut impl StoreRead,
    app: ForgeAppId,
    path: Option<&str>,
) -> Result<Vec<RepositoryId>, AppError> {
    let connected = forge_connection::list_of_app(db, app, REPOSITORIES_PER_ORGANIZATION_MAX)?;
    let is_wanted =
        |own: Option<&str>| path.is_none_or(|path| own.is_some_and(|own| own.eq_ignore_ascii_case(path)));
    Ok(connected.into_iter().filter(|(_, url)| is_wanted(url.forge_path())).map(|(id, _)| id).collect())
}

/// Records a change of an app's installation. Cached access tokens are discarded, and the app's repositories are synced,
/// so that they work again, or show why not.
pub(in crate::app) fn apply_installation(
    tx: &mut Tx<'_>,
    app: &ForgeApp,
    change: InstallationChange,
) -> Result<(), AppError> {
    forge_app::set_installation_changed(tx, app.id)?;
    let now = tx.now();
    for id in list_repositories(tx, app.id, None)? {
        repository::schedule_sync(tx, id, now)?;
    }
    match change {
        InstallationChange::Available => record_installed(tx, app),
        InstallationChange::Deleted => record_uninstalled(tx, app, "deleted"),
        InstallationChange::Suspended => record_uninstalled(tx, app, "suspended"),
        InstallationChange::Repositories => Ok(()),
    }
}

pub(in crate::app) fn describe_installation(change: InstallationChange) -> &'static str {
    match change {
        InstallationChange::Available => "GitHub App installed",
        InstallationChange::Deleted => "GitHub App uninstalled",
        InstallationChange::Suspended => "installation of the GitHub App suspended",
        InstallationChange::Repositories => "repositories of the GitHub App changed",
    }
}

fn record_uninstalled(tx: &mut Tx<'_>, app: &ForgeApp, how: &str) -> Result<(), AppError> {
    if app.installed_at.is_some() {
        forge_app::set_installed(tx, app.id, None)?;
        tx.record(app_event(EventKind::ForgeAppUninstalled, app).with("reason", how))?;
    }
    Ok(())
}
