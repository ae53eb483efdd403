//! Members: roles, removal, service accounts.

use berth_api::member as wire;
use berth_api::problem::Code;
use berth_core::access::{Role, permit};
use berth_core::event::{EventKind, NewEvent, EventSubject};
use berth_core::id::UserId;
use berth_core::name::{DisplayName, Email};
use berth_engine::limits::MEMBERS_PER_ORGANIZATION_MAX;
use berth_store::idempotency::OnceKey;
use berth_store::pagination::From;
use berth_store::tables::member::{self, Member, MemberView};
use berth_store::tables::user::{self, Account, User};
use berth_store::tables::{environment, token};
use berth_store::{Read, Tx};

use super::{Answer, App, Outcome, Page};
use crate::auth::authorize::Authorized;
use crate::error::AppError;
use crate::wire::{role, user_kind};

pub struct NewServiceAccount {
    pub email: Email,
    pub name: Option<DisplayName>,
    pub role: Role,
}

impl App {
    pub async fn list_members(
        &self,
        who: &Authorized<permit::MembersRead>,
        from: From,
        limit: i64,
    ) -> Result<Page<wire::Member>, AppError> {
        let slice = self.read(who, move |db| Ok(member::list(db, &from, limit)?)).await?;
        Ok(Page::of(&slice, |member| member.user.to_string(), shown))
    }

    pub async fn view_member(
        &self,
        who: &Authorized<permit::MembersRead>,
        user: UserId,
    ) -> Result<Answer<wire::Member>, AppError> {
        self.read(who, move |db| {
            let found = find(db, user)?;
            Ok(Answer::ok(shown(&found)).at_version(found.version))
        })
        .await
    }

    /// Creates a service account. Persons become members through invitations.
    pub async fn add_service_account(
        &self,
        who: &Authorized<permit::MembersWrite>,
        new: NewServiceAccount,
        once: Option<OnceKey>,
    ) -> Result<Outcome<wire::Member>, AppError> {
        if new.role == Role::Owner {
            return Err(AppError::invalid_member("/role", "a service account cannot be an owner"));
        }
        let (owner, org) = (who.principal().user, who.org());
        self.change(who, once, move |tx, standing| {
            standing.check_confirmed(tx.now())?;
            check_reach(standing.role, new.role)?;
            if user::by_email(tx, &new.email)?.is_some() {
                let text = format!("{} is in use by another account", new.email);
                return Err(AppError::new(Code::AlreadyExists, text));
            }
            let name = new.name.clone().map_or_else(|| default_name(&new.email), Ok)?;
            let id = UserId::from_parts(tx.now(), tx.entropy()?);
            let account = Account::Service { owner };
            user::put(tx, &User { id, email: new.email, name: name.clone(), account, created_at: tx.now() })?;
            add(tx, id, &name, new.role)?;
            let location = format!("/api/v1/organizations/{org}/members/{id}");
            Ok(Answer::created(location, shown(&find(tx, id)?)).at_version(1))
        })
        .await
    }

    pub async fn change_member(
        &self,
        who: &Authorized<permit::MembersWrite>,
        user: UserId,
        role: Option<Role>,
        expected: Option<i64>,
    ) -> Result<Outcome<wire::Member>, AppError> {
        self.change(who, None, move |tx, standing| {
            let own = standing.role;
            let found = find(tx, user)?;
            super::check_version(found.version, expected)?;
            check_reach(own, found.role)?;
            let Some(role) = role.filter(|role| *role != found.role) else {
                return Ok(Answer::ok(shown(&found)).at_version(found.version));
            };
            standing.check_confirmed(tx.now())?;
            check_reach(own, role)?;
            if found.is_service && role == Role::Owner {
                return Err(AppError::invalid_member("/role", "a service account cannot be an owner"));
            }
            check_last_owner(tx, &found)?;
            let version = found.version + 1;
            member::put(tx, &Member { user, role, version, created_at: found.created_at })?;
            environment::hasten_lines_of(tx, user)?;
            let event = about(EventKind::MemberUpdated, user, &found.name);
            tx.record(event.with("role", role.as_str()).with("previousRole", found.role.as_str()))?;
            Ok(Answer::ok(shown(&MemberView { role, version, ..found })).at_version(version))
        })
        .await
    }

    /// Removes a member and revokes their tokens in this organization. The account itself is kept.
    pub async fn remove_member(
        &self,
        who: &Authorized<permit::MembersWrite>,
        user: UserId,
        expected: Option<i64>,
    ) -> Result<Outcome<wire::Member>, AppError> {
        self.change(who, None, move |tx, standing| {
            let found = find(tx, user)?;
            super::check_version(found.version, expected)?;
            check_reach(standing.role, found.role)?;
            check_last_owner(tx, &found)?;
            let revoked = token::revoke_all_of(tx, user)?;
            member::delete(tx, user)?;
            environment::hasten_lines_of(tx, user)?;
            tx.record(about(EventKind::MemberRemoved, user, &found.name).with("tokensRevoked", revoked))?;
            let deleted_at = Some(tx.now().to_string());
            Ok(Answer::ok(wire::Member { deleted_at, ..shown(&found) }))
        })
        .await
    }
}

/// Adds a user as a member of the transaction's organization.
pub(super) fn add(tx: &mut Tx<'_>, user: UserId, name: &DisplayName, role: Role) -> Result<(), AppError> {
    if member::count(tx)? >= MEMBERS_PER_ORGANIZATION_MAX {
        let text = format!("an organization has at most {MEMBERS_PER_ORGANIZATION_MAX} members");
        return Err(AppError::new(Code::InvalidState, text));
    }
    let created_at = tx.now();
    member::put(tx, &Member { user, role, version: 1, created_at })?;
    Ok(tx.record(about(EventKind::MemberAdded, user, name).with("role", role.as_str())).map(drop)?)
}

pub(crate) fn default_name(email: &Email) -> Result<DisplayName, AppError> {
    let local: String = email.as_str().split('@').next().unwrap_or_default().chars().take(120).collect();
    DisplayName::parse(&local).map_err(|error| AppError::invalid_member("/name", error.to_string()))
}

fn find(db: &mut impl Read, user: UserId) -> Result<MemberView, AppError> {
    member::one(db, user)?.ok_or_else(|| AppError::not_found("member"))
}

/// Refuses to grant, change or remove a role above the caller's own.
pub(super) fn check_reach(own: Role, other: Role) -> Result<(), AppError> {
    if other > own {
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

fn about(kind: EventKind, user: UserId, name: &DisplayName) -> NewEvent {
    NewEvent::new(kind, EventSubject::new("user", user, Some(name.as_str())))
}

fn shown(member: &MemberView) -> wire::Member {
    wire::Member {
        id: member.user.to_string(),
        email: member.email.to_string(),
        name: member.name.to_string(),
        kind: user_kind(member.is_service),
        role: role(member.role),
        owner_id: member.owner.map(|owner| owner.to_string()),
        created_at: member.created_at.to_string(),
        deleted_at: None,
    }
}
