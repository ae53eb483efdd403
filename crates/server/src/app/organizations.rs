//! Organizations: view, change, and list those of the caller.

use berth_api::organization as wire;
use berth_api::problem::Code;
use berth_core::access::{EffectiveAccess, Role, ScopedGrant, permit};
use berth_core::event::{EventKind, EventSubject, NewEvent};
use berth_core::id::{OrgId, UserId};
use berth_core::name::{DisplayName, Slug};
use berth_core::step::NetworkAccess;
use berth_store::tables::member::Member;
use berth_store::tables::organization::{self, Organization};
use berth_store::tables::user::User;
use berth_store::tables::{grant, member, provider_identity, second_factor, team};
use berth_store::{StoreRead, Tx};

use super::members::check_reach;
use super::{ApiResponse, App, IdempotentResponse};
use crate::auth::authorize::{AuthMethod, AuthorizedCaller, CurrentAccess, Membership, Principal};
use crate::error::AppError;

/// Changes to an organization. `None` keeps the current value.
pub struct OrganizationChange {
    pub name: Option<DisplayName>,
    pub default_network: Option<NetworkAccess>,
    pub require_second_factor: Option<bool>,
}

impl App {
    pub async fn view_organization(
        &self,
        who: &AuthorizedCaller<permit::OrganizationRead>,
    ) -> Result<ApiResponse<wire::WireOrganization>, AppError> {
        let (id, user, access) = (who.org(), who.principal().user, who.access().clone());
        self.read(who, move |db| {
            let org = organization::by_id(db, id)?.ok_or_else(|| AppError::not_found("organization"))?;
            let teams = team::list_slugs_in(db, id, user)?;
            Ok(build_response(&org, &access, &teams))
        })
        .await
    }

    pub async fn update_organization(
        &self,
        who: &AuthorizedCaller<permit::OrganizationWrite>,
        change: OrganizationChange,
        expected: Option<i64>,
    ) -> Result<IdempotentResponse<wire::WireOrganization>, AppError> {
        let (id, user, access) = (who.org(), who.principal().user, who.access().clone());
        self.change(who, None, move |tx, standing| {
            let org = organization::by_id(tx, id)?.ok_or_else(|| AppError::not_found("organization"))?;
            super::check_version(org.version, expected)?;
            let teams = team::list_slugs_in(tx, id, user)?;
            let name = change.name.unwrap_or_else(|| org.name.clone());
            let default_network = change.default_network.unwrap_or(org.default_network);
            let mut event = NewEvent::new(EventKind::OrganizationUpdated, organization_subject(&org));
            if name != org.name {
                event = event.with("name", name.as_str()).with("previousName", org.name.as_str());
            }
            if default_network != org.default_network {
                event = event
                    .with("defaultNetwork", default_network.as_str())
                    .with("previousDefaultNetwork", org.default_network.as_str());
            }
            let require_second_factor = change.require_second_factor.unwrap_or(org.require_second_factor);
            if require_second_factor != org.require_second_factor {
                check_factor_requirement(tx, standing, user, require_second_factor)?;
                event = event.with("requireSecondFactor", require_second_factor);
            }
            let version = org.version + 1;
            let changed = Organization { name, default_network, require_second_factor, ..org.clone() };
            if changed == org {
                return Ok(build_response(&org, &access, &teams));
            }
            let changed = Organization { version, ..changed };
            organization::put(tx, &changed)?;
            tx.record(event)?;
            Ok(build_response(&changed, &access, &teams))
        })
        .await
    }

    /// Lists the organizations that a principal has access to, with the principal's role in each.
    pub async fn list_organizations_of(
        &self,
        who: &Principal,
    ) -> Result<Vec<wire::WireOrganization>, AppError> {
        let (user, is_agent) = (who.user, who.is_agent);
        let only = match &who.via {
            AuthMethod::Token { membership, .. } => Some(membership.org),
            AuthMethod::SignIn { .. } => None,
        };
        self.services
            .store
            .read(None, move |db| {
                let mut reached = Vec::new();
                for org in organization::list_of_user(db, user)? {
                    let in_reach = only.is_none_or(|only| only == org.id);
                    if let Some(role) = member::role_in(db, user, org.id)?.filter(|_| in_reach) {
                        let grants = grant::list_of_member_in(db, org.id, user)?;
                        let access = EffectiveAccess { grants, is_agent, ..EffectiveAccess::of_role(role) };
                        let teams = team::list_slugs_in(db, org.id, user)?;
                        reached.push(to_response(&org, &access, &teams));
                    }
                }
                Ok(reached)
            })
            .await
    }

    /// Returns the principal's membership in the organization named in a path by id or slug. `None` if the principal is
    /// not a member.
    pub async fn find_membership(&self, who: &Principal, key: &str) -> Result<Option<Membership>, AppError> {
        match &who.via {
            AuthMethod::Token { membership, .. } => {
                let is_current = key == membership.org_slug.as_str() || key == membership.org.to_string();
                let is_here = is_current || self.is_former_slug(membership.org, key).await?;
                Ok(is_here.then(|| membership.clone()))
            }
            AuthMethod::SignIn { .. } => {
                let (user, key) = (who.user, key.to_owned());
                self.services
                    .store
                    .read(None, move |db| {
                        let mine = organization::list_of_user(db, user)?;
                        let is_named =
                            |org: &Organization| org.id.to_string() == key || org.slug.as_str() == key;
                        let org = match mine.iter().find(|org| is_named(org)) {
                            Some(org) => Some(org),
                            None => {
                                let owner = find_slug_owner(db, &key)?;
                                mine.iter().find(|org| Some(org.id) == owner)
                            }
                        };
                        let Some(org) = org.cloned() else { return Ok(None) };
                        let Some(role) = member::role_in(db, user, org.id)? else { return Ok(None) };
                        if provider_identity::is_suspended_in(db, org.id, user)? {
                            let text =
                                "the identity provider of this organization no longer accepts your account";
                            return Err(AppError::new(Code::IdentityUnverified, text));
                        }
                        let grants = grant::list_of_member_in(db, org.id, user)?;
                        let is_factor_missing = second_factor::is_missing_in(db, org.id, user)?;
                        let access =
                            EffectiveAccess { grants, is_factor_missing, ..EffectiveAccess::of_role(role) };
                        Ok(Some(Membership { org: org.id, org_slug: org.slug, access }))
                    })
                    .await
            }
        }
    }

    /// Whether the organization had this slug earlier.
    async fn is_former_slug(&self, org: OrgId, key: &str) -> Result<bool, AppError> {
        let key = key.to_owned();
        let read = self.services.store.read(None, move |db| find_slug_owner(db, &key));
        Ok(read.await? == Some(org))
    }
}

fn find_slug_owner(db: &mut impl StoreRead, key: &str) -> Result<Option<OrgId>, AppError> {
    let Ok(slug) = Slug::parse(key) else { return Ok(None) };
    Ok(organization::find_slug_owner(db, &slug)?)
}

/// Only an owner may change whether the organization requires a second factor, and must have one to switch it on:
/// otherwise the change would lock out the owner.
fn check_factor_requirement(
    tx: &mut Tx<'_>,
    standing: &CurrentAccess,
    user: UserId,
    is_required: bool,
) -> Result<(), AppError> {
    check_reach(standing.role(), Role::Owner)?;
    standing.check_confirmed(tx.now())?;
    let has_factor = second_factor::by_user(tx, user)?.is_some_and(|it| it.confirmed_at.is_some());
    if is_required && !has_factor {
        let text = "set up a second factor for your own account before you require one from all members";
        return Err(AppError::new(Code::InvalidState, text));
    }
    Ok(())
}

/// Writes an organization, its first owner, and their events.
pub(crate) fn insert_organization(
    tx: &mut Tx<'_>,
    slug: Slug,
    name: DisplayName,
    owner: &User,
) -> Result<Organization, AppError> {
    let org = Organization {
        id: OrgId::from_parts(tx.now(), tx.entropy()?),
        slug,
        name,
        version: 1,
        created_at: tx.now(),
        default_network: NetworkAccess::Host,
        require_second_factor: false,
    };
    organization::put(tx, &org)?;
    tx.within_org(org.id, |tx| {
        let membership = Member { user: owner.id, role: Role::Owner, version: 1, created_at: org.created_at };
        member::put(tx, &membership)?;
        tx.record(NewEvent::new(EventKind::OrganizationCreated, organization_subject(&org)))?;
        let subject = EventSubject::new("user", owner.id, Some(owner.name.as_str()));
        tx.record(NewEvent::new(EventKind::MemberAdded, subject).with("role", Role::Owner.as_str()))?;
        Ok::<_, AppError>(())
    })?;
    Ok(org)
}

pub(crate) fn organization_subject(org: &Organization) -> EventSubject {
    EventSubject::new("organization", org.id, Some(org.slug.as_str()))
}

/// Builds the response. Its `ETag` covers the caller's access and teams, which are part of the body.
fn build_response(
    org: &Organization,
    access: &EffectiveAccess,
    teams: &[Slug],
) -> ApiResponse<wire::WireOrganization> {
    let scopes = access.grants.iter().map(|it| format!("{}:{}", it.role, it.scope));
    let parts: Vec<String> = scopes.chain(teams.iter().map(ToString::to_string)).collect();
    let variant = match parts.is_empty() {
        true => access.role.to_string(),
        false => format!("{}.{}", access.role, crc32fast::hash(parts.join(",").as_bytes())),
    };
    ApiResponse::ok(to_response(org, access, teams)).with_version(org.version).with_variant(variant)
}

pub(super) fn to_response(
    org: &Organization,
    access: &EffectiveAccess,
    teams: &[Slug],
) -> wire::WireOrganization {
    let scoped = |it: &ScopedGrant| wire::ScopedRole {
        role: crate::wire::role_to_wire(it.role),
        scope: it.scope.to_string(),
    };
    wire::WireOrganization {
        id: org.id.to_string(),
        slug: org.slug.to_string(),
        name: org.name.to_string(),
        role: crate::wire::role_to_wire(access.role),
        grants: access.grants.iter().map(scoped).collect(),
        teams: teams.iter().map(ToString::to_string).collect(),
        default_network: berth_engine::wire::network(org.default_network),
        require_second_factor: org.require_second_factor,
        created_at: org.created_at.to_string(),
    }
}
