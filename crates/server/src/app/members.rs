//! Members: roles, removal, service accounts and agents.

use berth_api::member as wire;
use berth_api::problem::Code;
use berth_core::access::{Role, permit};
use berth_core::agent::{AgentHour, AgentLimits, TakeoverScope};
use berth_core::event::{EventKind, EventSubject, NewEvent};
use berth_core::id::UserId;
use berth_core::name::{DisplayName, Email};
use berth_engine::limits::MEMBERS_PER_ORGANIZATION_MAX;
use berth_store::idempotency::IdempotencyKey;
use berth_store::pagination::PageStart;
use berth_store::tables::agent::{self, Agent};
use berth_store::tables::grant::{self, GrantSubject};
use berth_store::tables::member::{self, Member, MemberView};
use berth_store::tables::user::{self, User, UserAccount};
use berth_store::tables::{environment, team, token};
use berth_store::{StoreRead, Tx};

use super::agents::limits_to_wire;
use super::{ApiResponse, App, IdempotentResponse, ResponsePage};
use crate::auth::authorize::AuthorizedCaller;
use crate::error::AppError;
use crate::wire::{role_to_wire, user_kind};

pub struct NewServiceAccount {
    /// `None` for an agent that gets an address of its own.
    pub email: Option<Email>,
    pub name: Option<DisplayName>,
    pub role: Role,
    pub agent: Option<NewAgent>,
}

pub struct NewAgent {
    /// The person responsible for the agent; `None` for the caller.
    pub owner: Option<UserId>,
    pub limits: AgentLimitsChange,
}

/// Changes to the limits of an agent. `None` keeps the current value.
#[derive(Debug, Clone, Copy, Default)]
pub struct AgentLimitsChange {
    pub sessions: Option<i64>,
    pub session_seconds: Option<i64>,
    pub deployments_per_hour: Option<i64>,
    pub force_claim: Option<TakeoverScope>,
}

impl AgentLimitsChange {
    fn apply(self, limits: AgentLimits) -> AgentLimits {
        AgentLimits {
            sessions: self.sessions.unwrap_or(limits.sessions),
            session_seconds: self.session_seconds.unwrap_or(limits.session_seconds),
            deployments_per_hour: self.deployments_per_hour.unwrap_or(limits.deployments_per_hour),
            force_claim: self.force_claim.unwrap_or(limits.force_claim),
        }
    }
}

/// The domain of the addresses of agents. It cannot receive mail.
const AGENT_DOMAIN: &str = "agents.invalid";

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

    /// Creates a service account or an agent. People become members through invitations.
    pub async fn add_service_account(
        &self,
        who: &AuthorizedCaller<permit::MembersWrite>,
        new: NewServiceAccount,
        once: Option<IdempotencyKey>,
    ) -> Result<IdempotentResponse<wire::WireMember>, AppError> {
        if new.role == Role::Owner {
            return Err(AppError::invalid_member("/role", "a service account cannot be an owner"));
        }
        let (caller, org) = (who.principal().user, who.org());
        self.change(who, once, move |tx, standing| {
            standing.check_confirmed(tx.now())?;
            check_reach(standing.role(), new.role)?;
            let id = UserId::from_parts(tx.now(), tx.entropy()?);
            let email = new.email.map_or_else(|| agent_email(id), Ok)?;
            if user::by_email(tx, &email)?.is_some() {
                let text = format!("{email} is in use by another account");
                return Err(AppError::new(Code::AlreadyExists, text));
            }
            let name = new.name.map_or_else(|| default_name(&email), Ok)?;
            let owner = match new.agent.as_ref().and_then(|agent| agent.owner) {
                Some(owner) => find_owner(tx, owner)?,
                None => caller,
            };
            let account = UserAccount::Service { owner, is_agent: new.agent.is_some() };
            user::put(tx, &User { id, email, name: name.clone(), account, created_at: tx.now() })?;
            if let Some(NewAgent { limits, .. }) = new.agent {
                let hour = AgentHour { started_at: tx.now(), deployments: 0 };
                agent::put(tx, &Agent { user: id, limits: limits.apply(AgentLimits::default()), hour })?;
            }
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
        limits: Option<AgentLimitsChange>,
        expected: Option<i64>,
    ) -> Result<IdempotentResponse<wire::WireMember>, AppError> {
        self.change(who, None, move |tx, standing| {
            let own = standing.role();
            let found = find_member(tx, user)?;
            super::check_version(found.version, expected)?;
            check_reach(own, found.role)?;
            let agent = new_limits(&found, limits)?;
            let role = role.unwrap_or(found.role);
            if role == found.role && agent == found.agent {
                return Ok(build_response(&found));
            }
            standing.check_confirmed(tx.now())?;
            check_reach(own, role)?;
            if found.is_service && role == Role::Owner {
                return Err(AppError::invalid_member("/role", "a service account cannot be an owner"));
            }
            if role != found.role {
                check_last_owner(tx, &found)?;
            }
            if let Some(limits) = agent.filter(|_| agent != found.agent)
                && let Some(present) = agent::by_user(tx, user)?
            {
                agent::put(tx, &Agent { limits, ..present })?;
            }
            let version = found.version + 1;
            member::put(tx, &Member { user, role, version, created_at: found.created_at })?;
            environment::make_queues_due(tx, user)?;
            let event = member_event(EventKind::MemberUpdated, user, &found.name);
            let event = event.with("role", role.as_str()).with("previousRole", found.role.as_str());
            tx.record(with_limits(event, agent.as_ref()))?;
            Ok(build_response(&MemberView { role, version, agent, ..found }))
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

fn agent_email(id: UserId) -> Result<Email, AppError> {
    Email::parse(&format!("{id}@{AGENT_DOMAIN}")).map_err(|error| AppError::bug(error.to_string()))
}

/// Checks that a user may be responsible for an agent.
fn find_owner(tx: &mut Tx<'_>, owner: UserId) -> Result<UserId, AppError> {
    match member::find_view(tx, owner)?.filter(|member| !member.is_service) {
        Some(member) => Ok(member.user),
        None => {
            Err(AppError::invalid_member("/ownerId", "must be a person who is a member of this organization"))
        }
    }
}

/// The limits after a change; `None` for an account that is no agent.
fn new_limits(
    member: &MemberView,
    change: Option<AgentLimitsChange>,
) -> Result<Option<AgentLimits>, AppError> {
    match (member.agent, change) {
        (present, None) => Ok(present),
        (Some(present), Some(change)) => Ok(Some(change.apply(present))),
        (None, Some(_)) => Err(AppError::invalid_member("/limits", "only agents have limits")),
    }
}

fn with_limits(event: NewEvent, limits: Option<&AgentLimits>) -> NewEvent {
    match limits {
        None => event,
        Some(limits) => event
            .with("sessions", limits.sessions)
            .with("sessionSeconds", limits.session_seconds)
            .with("deploymentsPerHour", limits.deployments_per_hour)
            .with("forceClaim", limits.force_claim.as_str()),
    }
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
        kind: user_kind(member.is_service, member.agent.is_some()),
        role: role_to_wire(member.role),
        owner_id: member.owner.map(|owner| owner.to_string()),
        limits: member.agent.as_ref().map(limits_to_wire),
        has_second_factor: member.has_second_factor,
        created_at: member.created_at.to_string(),
        deleted_at: None,
    }
}
