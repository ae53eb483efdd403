//! Members: roles, removal and service accounts.

use berth_api::member as wire;
use berth_api::problem::Code;
use berth_core::access::{Role, permit};
use berth_core::event::{EventKind, EventSubject, NewEvent};
use berth_core::id::UserId;
use berth_core::name::{DisplayName, Email};
use berth_engine::limits::MEMBERS_PER_ORGANIZATION_MAX;
use berth_store::idempotency::IdempotencyKey;
use berth_store::pagination::PageStart;
use berth_store::tables::grant::{self, GrantSubject};
use berth_store::tables::member::{self, Member, MemberView};
use berth_store::tables::user::{self, User, UserAccount};
use berth_store::tables::{environment, team, token};
use berth_store::{StoreRead, Tx};

use super::{ApiResponse, App, IdempotentResponse, ResponsePage};
use crate::auth::authorize::AuthorizedCaller;
use crate::error::AppError;
use crate::wire::{role_to_wire, user_kind};

pub struct NewServiceAccount {
    pub email: Email,
    pub name: Option<DisplayName>,
    pub role: Role,
}

impl App {
    pub async fn list_members(
        &self,
        who: &AuthorizedCaller<permit::MembersRead>,
        from: PageStart,
        limit: i64,
    ) -> Result<ResponsePage<wire::WireMember>, AppError> {
        let slice = self.read(who, move |db| Ok(member::list(db, &from, limit)?)).await?;
        Ok(ResponsePage::from_list_page(&slice, |member| member.user.to_string(), to_response))
    }

    pub async fn view_member(
        &self,
        who: &AuthorizedCaller<permit::MembersRead>,
        user: UserId,
    ) -> Result<ApiResponse<wire::WireMember>, AppError> {
        self.read(who, move |db| {
            let found = find_member(db, user)?;
            Ok(build_response(&found))
        })
        .await
    }

    /// Creates a service account. People become members through invitations.
    pub async fn add_service_account(
        &self,
        who: &AuthorizedCaller<permit::MembersWrite>,
        new: NewServiceAccount,
        once: Option<IdempotencyKey>,
    ) -> Result<IdempotentResponse<wire::WireMember>, AppError> {
        if new.role == Role::Owner {
            return Err(AppError::invalid_member("/role", "a service account cannot be an owner"));
        }
        let (owner, org) = (who.principal().user, who.org());
        self.change(who, once, move |tx, standing| {
            standing.check_confirmed(tx.now())?;
            check_reach(standing.role(), new.role)?;
            if user::by_email(tx, &new.email)?.is_some() {
                let text = format!("{} is in use by another account", new.email);
                return Err(AppError::new(Code::AlreadyExists, text));
            }
            let name = new.name.clone().map_or_else(|| default_name(&new.email), Ok)?;
            let id = UserId::from_parts(tx.now(), tx.entropy()?);
            let account = UserAccount::Service { owner };
            user::put(tx, &User { id, email: new.email, name: name.clone(), account, created_at: tx.now() })?;
            add_member(tx, id, &name, new.role)?;
            let location = format!("/api/v1/organizations/{org}/members/{id}");
            Ok(ApiResponse::created(location, to_response(&find_member(tx, id)?)).with_version(1))
        })
        .await
    }

    pub async fn change_member(
        &self,
        who: &AuthorizedCaller<permit::MembersWrite>,
        user: UserId,
        role: Option<Role>,
        expected: Option<i64>,
    ) -> Result<IdempotentResponse<wire::WireMember>, AppError> {
        self.change(who, None, move |tx, standing| {
            let own = standing.role();
            let found = find_member(tx, user)?;
            super::check_version(found.version, expected)?;
            check_reach(own, found.role)?;
            let Some(role) = role.filter(|role| *role != found.role) else {
                return Ok(build_response(&found));
            };
            standing.check_confirmed(tx.now())?;
            check_reach(own, role)?;
            if found.is_service && role == Role::Owner {
                return Err(AppError::invalid_member("/role", "a service account cannot be an owner"));
            }
            check_last_owner(tx, &found)?;
            let version = found.version + 1;
            member::put(tx, &Member { user, role, version, created_at: found.created_at })?;
            environment::make_queues_due(tx, user)?;
            let event = member_event(EventKind::MemberUpdated, user, &found.name);
            tx.record(event.with("role", role.as_str()).with("previousRole", found.role.as_str()))?;
            Ok(build_response(&MemberView { role, version, ..found }))
        })
        .await
    }

    /// Removes a member and revokes their tokens in this organization. The account itself is kept.
    pub async fn remove_member(
        &self,
        who: &AuthorizedCaller<permit::MembersWrite>,
        user: UserId,
        expected: Option<i64>,
    ) -> Result<IdempotentResponse<wire::WireMember>, AppError> {
        self.change(who, None, move |tx, standing| {
            let found = find_member(tx, user)?;
            super::check_version(found.version, expected)?;
            check_reach(standing.role(), found.role)?;
            check_last_owner(tx, &found)?;
            let revoked = token::revoke_all_of_user(tx, user)?;
            grant::delete_of_subject(tx, GrantSubject::User(user))?;
            team::remove_user(tx, user)?;
            member::delete(tx, user)?;
            environment::make_queues_due(tx, user)?;
            tx.record(
                member_event(EventKind::MemberRemoved, user, &found.name).with("tokensRevoked", revoked),
            )?;
            let deleted_at = Some(tx.now().to_string());
            Ok(ApiResponse::ok(wire::WireMember { deleted_at, ..to_response(&found) }))
        })
        .await
    }
}

/// Adds a user as a member of the transaction's organization.
pub(super) fn add_member(
    tx: &mut Tx<'_>,
    user: UserId,
    name: &DisplayName,
    role: Role,
) -> Result<(), AppError> {
    if member::count(tx)? >= MEMBERS_PER_ORGANIZATION_MAX {
        let text = format!("an organization has at most {MEMBERS_PER_ORGANIZATION_MAX} members");
        return Err(AppError::new(Code::InvalidState, text));
    }
    let created_at = tx.now();
    member::put(tx, &Member { user, role, version: 1, created_at })?;
    Ok(tx.record(member_event(EventKind::MemberAdded, user, name).with("role", role.as_str())).map(drop)?)
}

pub(crate) fn default_name(email: &Email) -> Result<DisplayName, AppError> {
    let local: String = email.as_str().split('@').next().unwrap_or_default().chars().take(120).collect();
    DisplayName::parse(&local).map_err(|error| AppError::invalid_member("/name", error.to_string()))
}

pub(super) fn find_member(db: &mut impl StoreRead, user: UserId) -> Result<MemberView, AppError> {
    member::find_view(db, user)?.ok_or_else(|| AppError::not_found("member"))
}

/// Refuses to grant, change or remove a role that is above the caller's own role.
pub(super) fn check_reach(own: Role, other: Role) -> Result<(), AppError> {
    if !own.includes(other) {
        let text = format!("your role is {own}, but this requires at least the role {other}");
        return Err(AppError::new(Code::Forbidden, text));
    }
    Ok(())
}

fn check_last_owner(tx: &mut Tx<'_>, found: &MemberView) -> Result<(), AppError> {
    if found.role == Role::Owner && member::count_with_role(tx, Role::Owner)? == 1 {
        return Err(AppError::new(
            Code::InvalidState,
            "an organization must have an owner; add another owner first",
        ));
    }
    Ok(())
}

fn member_event(kind: EventKind, user: UserId, name: &DisplayName) -> NewEvent {
    NewEvent::new(kind, EventSubject::new("user", user, Some(name.as_str())))
}

/// Builds the response. Its `ETag` covers the second factor, which is no part of the membership.
pub(super) fn build_response(member: &MemberView) -> ApiResponse<wire::WireMember> {
    let response = ApiResponse::ok(to_response(member)).with_version(member.version);
    match member.has_second_factor {
        true => response.with_variant("second-factor"),
        false => response,
    }
}

fn to_response(member: &MemberView) -> wire::WireMember {
    wire::WireMember {
        id: member.user.to_string(),
        email: member.email.to_string(),
        name: member.name.to_string(),
        kind: user_kind(member.is_service),
        role: role_to_wire(member.role),
        owner_id: member.owner.map(|owner| owner.to_string()),
        has_second_factor: member.has_second_factor,
        created_at: member.created_at.to_string(),
        deleted_at: None,
    }
}
