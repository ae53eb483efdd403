//! Grants of the service account that claims environments for the pull requests of a repository.

use berth_core::access::{AccessScope, Role};
use berth_core::event::{EventKind, EventSubject, NewEvent};
use berth_core::id::{GrantId, RepositoryId, UserId};
use berth_store::Tx;
use berth_store::pagination::PageStart;
use berth_store::tables::grant::{self, GRANTS_MAX, GRANTS_PER_SUBJECT_MAX, Grant, GrantSubject};
use berth_store::tables::{environment, forge_connection, pipeline};

use super::PIPELINES_MAX;
use crate::error::AppError;

/// Lets the service account of a connected repository test in the environments of the repository's pipelines, and
/// nowhere else. Called whenever the pipelines may have changed.
pub(super) fn update_account_grants(tx: &mut Tx<'_>, repository: RepositoryId) -> Result<(), AppError> {
    match forge_connection::by_repository(tx, repository)? {
        Some(connection) => grant_pipelines(tx, repository, connection.account),
        None => Ok(()),
    }
}

/// Grants the role tester on each pipeline of the repository, and deletes all other grants of the account.
pub(crate) fn grant_pipelines(
    tx: &mut Tx<'_>,
    repository: RepositoryId,
    account: UserId,
) -> Result<(), AppError> {
    let subject = GrantSubject::User(account);
    let pipelines = pipeline::list_of_repository(tx, repository, PIPELINES_MAX)?;
    let active = pipelines.iter().filter(|it| it.retired_at.is_none());
    let wanted: Vec<AccessScope> = active
        .map(|it| AccessScope::one_pipeline(&it.slug))
        .take(usize::try_from(GRANTS_PER_SUBJECT_MAX).unwrap_or(usize::MAX))
        .collect();
    let present = grant::list(tx, Some(subject), &PageStart::Offset(0), GRANTS_PER_SUBJECT_MAX)?.items;
    let is_wanted = |it: &Grant| it.role == Role::Tester && wanted.contains(&it.scope);
    for it in present.iter().filter(|it| !is_wanted(it)) {
        grant::delete(tx, it.id)?;
        environment::make_queues_due(tx, account)?;
        tx.record(grant_event(EventKind::GrantDeleted, it, account))?;
    }
    for scope in wanted {
        let is_present = present.iter().any(|it| it.role == Role::Tester && it.scope == scope);
        if is_present || grant::count(tx, None)? >= GRANTS_MAX {
            continue;
        }
        let made = Grant {
            id: GrantId::from_parts(tx.now(), tx.entropy()?),
            subject,
            role: Role::Tester,
            scope,
            created_by: tx.actor().clone(),
            created_at: tx.now(),
        };
        grant::insert(tx, &made)?;
        tx.record(grant_event(EventKind::GrantCreated, &made, account))?;
    }
    Ok(())
}

fn grant_event(kind: EventKind, grant: &Grant, account: UserId) -> NewEvent {
    let mut event = NewEvent::new(kind, EventSubject::new("grant", grant.id, None));
    event.subjects.push(EventSubject::new("user", account, None));
    event.with("role", grant.role.as_str()).with("scope", grant.scope.to_string())
}
