//! The service account that claims environments for the pull requests of a connected repository.

use berth_core::access::Role;
use berth_core::event::{EventKind, EventSubject, NewEvent};
use berth_core::forge::ForgeConnection;
use berth_core::id::{HookId, UserId};
use berth_core::name::{DISPLAY_NAME_CHARS_MAX, DisplayName, Email};
use berth_core::repository::Repository;
use berth_store::Tx;
use berth_store::tables::grant::{self, GrantSubject};
use berth_store::tables::user::{self, User, UserAccount};
use berth_store::tables::{environment, forge_connection, member, pull_request, team, token};

use super::connection_event;
use crate::app::members;
use crate::error::AppError;

/// Appended to the repository's path in the name of its service account.
const ACCOUNT_SUFFIX: &str = " (pull requests)";
/// Domain of the e-mail addresses of such accounts. Reserved, so that it never exists (RFC 2606).
const ACCOUNT_DOMAIN: &str = "pull-requests.invalid";

/// Deletes a connection, and removes its service account from the organization.
pub(in crate::app) fn disconnect(
    tx: &mut Tx<'_>,
    repository: &Repository,
    connection: &ForgeConnection,
) -> Result<(), AppError> {
    let (account, now) = (connection.account, tx.now());
    if let Some(found) = member::find_view(tx, account)? {
        token::revoke_all_of_user(tx, account)?;
        grant::delete_of_subject(tx, GrantSubject::User(account))?;
        team::remove_user(tx, account)?;
        member::delete(tx, account)?;
        environment::make_queues_due(tx, account)?;
        let subject = EventSubject::new("user", account, Some(found.name.as_str()));
        tx.record(NewEvent::new(EventKind::MemberRemoved, subject))?;
    }
    forge_connection::delete(tx, repository.id)?;
    pull_request::set_open_due(tx, repository.id, now)?;
    tx.record(connection_event(EventKind::RepositoryDisconnected, repository, connection))?;
    Ok(())
}

/// Creates the service account that claims environments for pull requests. Its e-mail address contains the webhook's
/// id, so no account with this address can have been prepared before.
pub(super) fn create_account(
    tx: &mut Tx<'_>,
    repository: &Repository,
    hook: HookId,
    owner: UserId,
) -> Result<UserId, AppError> {
    let address = format!("{hook}@{ACCOUNT_DOMAIN}");
    let email = Email::parse(&address).map_err(|error| AppError::bug(error.to_string()))?;
    let path = repository.url.forge_path().unwrap_or_default();
    let path: String = path.chars().take(DISPLAY_NAME_CHARS_MAX - ACCOUNT_SUFFIX.len()).collect();
    let name = DisplayName::parse(&format!("{path}{ACCOUNT_SUFFIX}"));
    let name = name.map_err(|error| AppError::bug(error.to_string()))?;
    if user::by_email(tx, &email)?.is_some() {
        return Err(AppError::bug("an account of a new webhook exists"));
    }
    let id = UserId::from_parts(tx.now(), tx.entropy()?);
    let account = UserAccount::Service { owner, is_agent: false };
    user::put(tx, &User { id, email, name: name.clone(), account, created_at: tx.now() })?;
    members::add_member(tx, id, &name, Role::Member)?;
    Ok(id)
}
