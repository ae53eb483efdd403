//! Applies a person's groups at an identity provider to teams and to the role in the organization.

use std::collections::BTreeSet;

use berth_core::access::Role;
use berth_core::event::{EventKind, EventSubject, NewEvent};
use berth_core::name::Slug;
use berth_store::Tx;
use berth_store::tables::member::{self, Member};
use berth_store::tables::provider_identity::ProviderIdentity;
use berth_store::tables::team::{self, TEAM_MEMBERS_MAX, Team};
use berth_store::tables::{environment, user};

use crate::error::AppError;
use crate::integrations::oidc::{GroupMapping, ProviderConfig};

/// What a person's groups give, according to the configuration.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct GroupGrants {
    teams: BTreeSet<Slug>,
    role: Option<Role>,
    /// Whether the person is in at least one of the configured groups.
    pub(crate) has_match: bool,
}

impl GroupGrants {
    pub(crate) fn new(config: &ProviderConfig, groups: Option<&[String]>) -> Self {
        let mut grants = Self::default();
        for mapping in groups.unwrap_or_default().iter().filter_map(|group| config.groups.get(group)) {
            grants.has_match = true;
            match mapping {
                GroupMapping::Team(slug) => drop(grants.teams.insert(slug.clone())),
                GroupMapping::Role(role) => grants.role = Some(higher_role(grants.role, *role)),
            }
        }
        grants
    }
}

/// Returns the more powerful role. If neither includes the other, the first stays.
fn higher_role(one: Option<Role>, other: Role) -> Role {
    let Some(one) = one else { return other };
    let includes_both = |role: &Role| role.includes(one) && role.includes(other);
    [one, other].into_iter().find(includes_both).unwrap_or(one)
}

/// Applies groups in the transaction's organization. Memberships that were added by hand stay, and so does a role given
/// by hand that is more powerful than the group's. Changes `identity`, which the caller stores.
pub(crate) fn apply(
    tx: &mut Tx<'_>,
    identity: &mut ProviderIdentity,
    grants: &GroupGrants,
) -> Result<(), AppError> {
    let Some(found) = member::by_user(tx, identity.user)? else { return Ok(()) };
    apply_role(tx, identity, &found, grants.role)?;
    apply_teams(tx, identity, &grants.teams)
}

fn apply_role(
    tx: &mut Tx<'_>,
    identity: &mut ProviderIdentity,
    found: &Member,
    wanted: Option<Role>,
) -> Result<(), AppError> {
    // A role that differs from the group's was set by hand.
    let own = match identity.group_role {
        Some(given) if given == found.role => identity.own_role.unwrap_or(Role::Member),
        _ => found.role,
    };
    let given = wanted.filter(|role| !own.includes(*role));
    (identity.group_role, identity.own_role) = (given, given.map(|_| own));
    let role = given.unwrap_or(own);
    if role == found.role {
        return Ok(());
    }
    member::put(tx, &Member { role, version: found.version + 1, ..found.clone() })?;
    environment::make_queues_due(tx, found.user)?;
    let event = NewEvent::new(EventKind::MemberUpdated, user_subject(tx, identity)?);
    let event = event.with("role", role.as_str()).with("previousRole", found.role.as_str());
    Ok(tx.record(event.with("provider", identity.provider.as_str()))?)
}

fn apply_teams(
    tx: &mut Tx<'_>,
    identity: &ProviderIdentity,
    wanted: &BTreeSet<Slug>,
) -> Result<(), AppError> {
    let (user, provider) = (identity.user, identity.provider.as_str());
    for team in team::list_of_user_from(tx, user, provider)? {
        if !wanted.contains(&team.slug) {
            team::remove_member(tx, team.id, user)?;
            environment::make_queues_due(tx, user)?;
            record(tx, EventKind::TeamMemberRemoved, &team, identity)?;
        }
    }
    for slug in wanted {
        let Some(team) = team::by_slug(tx, slug)? else {
            tracing::warn!(provider, team = %slug, "a group of the identity provider maps to an unknown team");
            continue;
        };
        if team::find_source(tx, team.id, user)?.is_some() {
            continue;
        }
        if team::count_members(tx, team.id)? >= TEAM_MEMBERS_MAX {
            tracing::warn!(provider, team = %slug, "a team is full; a member of its group was not added");
            continue;
        }
        team::add_member(tx, team.id, user, provider)?;
        record(tx, EventKind::TeamMemberAdded, &team, identity)?;
    }
    Ok(())
}

fn record(
    tx: &mut Tx<'_>,
    kind: EventKind,
    team: &Team,
    identity: &ProviderIdentity,
) -> Result<(), AppError> {
    let subject = user_subject(tx, identity)?;
    let event = NewEvent::new(kind, EventSubject::new("team", team.id, Some(team.slug.as_str())));
    Ok(tx.record(event.with_subject(subject).with("provider", identity.provider.as_str()))?)
}

pub(crate) fn user_subject(tx: &mut Tx<'_>, identity: &ProviderIdentity) -> Result<EventSubject, AppError> {
    let name = user::by_id(tx, identity.user)?.map(|user| user.name.to_string());
    Ok(EventSubject::new("user", identity.user, name.as_deref()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn higher_role_is_the_one_that_includes_the_other() {
        assert_eq!(higher_role(None, Role::Tester), Role::Tester);
        assert_eq!(higher_role(Some(Role::Tester), Role::Admin), Role::Admin);
        assert_eq!(higher_role(Some(Role::Admin), Role::Tester), Role::Admin);
        assert_eq!(higher_role(Some(Role::Tester), Role::Approver), Role::Tester);
    }
}
