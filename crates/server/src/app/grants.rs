//! Scoped grants, and the explanation of a member's access.

use berth_api::grant as wire;
use berth_api::problem::Code;
use berth_core::access::{
    AccessDecision, AccessScope, AccessSource, AccessTarget, Action, EffectiveAccess, Role, permit,
};
use berth_core::event::{EventKind, EventSubject, NewEvent};
use berth_core::id::{GrantId, UserId};
use berth_core::name::Email;
use berth_store::idempotency::IdempotencyKey;
use berth_store::pagination::{ListPage, PageStart};
use berth_store::tables::grant::{self, GRANTS_MAX, GRANTS_PER_SUBJECT_MAX, Grant, GrantSubject};
use berth_store::tables::{environment, member, team, user};
use berth_store::{StoreRead, Tx};

use super::members::check_reach;
use super::resource_access::{is_visible, visible_page};
use super::{ApiResponse, App, IdempotentResponse, ResponsePage, teams};
use crate::auth::authorize::{AuthorizedCaller, load_member_access};
use crate::error::AppError;
use crate::wire::{actor_to_wire, role_to_wire};

/// The version is constant because grants are immutable: they are created, then deleted.
const GRANT_VERSION: i64 = 1;

pub struct NewGrant {
    /// `user:` and an id or email address, or `team:` and an id or slug.
    pub subject: String,
    pub role: Role,
    pub scope: AccessScope,
}

impl App {
    /// Lists grants. `subject` limits the list to one member or team. Callers who cannot see all pipelines get only
    /// their own grants and those of their teams, because scopes contain names of pipelines.
    pub async fn list_grants(
        &self,
        who: &AuthorizedCaller<permit::MembersRead>,
        subject: Option<String>,
        from: PageStart,
        limit: i64,
    ) -> Result<ResponsePage<wire::WireGrant>, AppError> {
        let access = who.access().clone();
        let slice = self.read(who, move |db| {
            let subject = match subject {
                None => None,
                Some(text) => Some(
                    find_subject(db, &text)?
                        .map_err(|detail| AppError::invalid_parameter("subject", detail))?,
                ),
            };
            let ListPage { items, total, has_more } = match sees_all_grants(&access) {
                true => grant::list(db, subject, &from, limit)?,
                false => visible_page(
                    db,
                    (&from, limit),
                    |db, from, limit| grant::list(db, subject, from, limit),
                    |it| it.id.to_string(),
                    |_, it| Ok(is_own(&access, it.id)),
                )?,
            };
            let items = items.iter().map(|it| to_response(db, it)).collect::<Result<Vec<_>, _>>()?;
            Ok(ListPage { items, total, has_more })
        });
        Ok(ResponsePage::from_list_page(&slice.await?, |it: &wire::WireGrant| it.id.clone(), Clone::clone))
    }

    pub async fn view_grant(
        &self,
        who: &AuthorizedCaller<permit::MembersRead>,
        id: GrantId,
    ) -> Result<ApiResponse<wire::WireGrant>, AppError> {
        let access = who.access().clone();
        self.read(who, move |db| {
            let found = find(db, id)?;
            if !sees_all_grants(&access) && !is_own(&access, id) {
                return Err(AppError::not_found("grant"));
            }
            Ok(ApiResponse::ok(to_response(db, &found)?).with_version(GRANT_VERSION))
        })
        .await
    }

    pub async fn create_grant(
        &self,
        who: &AuthorizedCaller<permit::MembersWrite>,
        new: NewGrant,
        once: Option<IdempotencyKey>,
    ) -> Result<IdempotentResponse<wire::WireGrant>, AppError> {
        let org = who.org();
        self.change(who, once, move |tx, standing| {
            standing.check_confirmed(tx.now())?;
            check_grantable(new.role)?;
            check_reach(standing.role(), new.role)?;
            let subject = find_subject(tx, &new.subject)?
                .map_err(|detail| AppError::invalid_member("/subject", detail))?;
            if let Some(same) = grant::find_same(tx, subject, new.role, &new.scope)? {
                let text =
                    format!("{} already has the role {} on {}: {same}", new.subject, new.role, new.scope);
                return Err(AppError::new(Code::AlreadyExists, text));
            }
            check_limits(tx, subject)?;
            let made = Grant {
                id: GrantId::from_parts(tx.now(), tx.entropy()?),
                subject,
                role: new.role,
                scope: new.scope,
                created_by: tx.actor().clone(),
                created_at: tx.now(),
            };
            grant::insert(tx, &made)?;
            let body = to_response(tx, &made)?;
            tx.record(grant_event(EventKind::GrantCreated, &made, &body.subject))?;
            let location = format!("/api/v1/organizations/{org}/grants/{}", made.id);
            Ok(ApiResponse::created(location, body).with_version(GRANT_VERSION))
        })
        .await
    }

    pub async fn delete_grant(
        &self,
        who: &AuthorizedCaller<permit::MembersWrite>,
        id: GrantId,
    ) -> Result<IdempotentResponse<wire::WireGrant>, AppError> {
        self.change(who, None, move |tx, standing| {
            let found = find(tx, id)?;
            check_reach(standing.role(), found.role)?;
            let last = to_response(tx, &found)?;
            grant::delete(tx, id)?;
            match found.subject {
                GrantSubject::User(user) => environment::make_queues_due(tx, user)?,
                GrantSubject::Team(team) => {
                    for it in team::list_members(tx, team)? {
                        environment::make_queues_due(tx, it.user)?;
                    }
                }
            }
            tx.record(grant_event(EventKind::GrantDeleted, &found, &last.subject))?;
            Ok(ApiResponse::ok(wire::WireGrant { deleted_at: Some(tx.now().to_string()), ..last }))
        })
        .await
    }

    /// Explains what a member may do with a resource, and which role or grant allows it.
    pub async fn explain_access(
        &self,
        who: &AuthorizedCaller<permit::MembersRead>,
        user: UserId,
        target: AccessTarget,
    ) -> Result<ApiResponse<wire::MemberAccess>, AppError> {
        let (caller, caller_access) = (who.principal().user, who.access().clone());
        self.read(who, move |db| {
            if user != caller && !is_visible(&caller_access, &target) {
                return Err(AppError::not_found("resource"));
            }
            let member = member::find_view(db, user)?.ok_or_else(|| AppError::not_found("member"))?;
            let access = load_member_access(db, user)?.ok_or_else(|| AppError::not_found("member"))?;
            let access = EffectiveAccess { is_agent: member.agent.is_some(), ..access };
            let mut permissions = Vec::with_capacity(Action::ALL.len());
            for action in Action::ALL {
                permissions.push(explain_permission(db, &access, *action, &target)?);
            }
            Ok(ApiResponse::ok(wire::MemberAccess {
                user_id: user.to_string(),
                name: member.name.to_string(),
                role: role_to_wire(member.role),
                resource: target.to_string(),
                permissions,
            }))
        })
        .await
    }
}

fn sees_all_grants(access: &EffectiveAccess) -> bool {
    access.may_everywhere(Action::PipelinesRead)
}

/// Whether this is a grant of the caller or of one of the caller's teams.
fn is_own(access: &EffectiveAccess, id: GrantId) -> bool {
    access.grants.iter().any(|it| it.id == id)
}

fn explain_permission(
    db: &mut impl StoreRead,
    access: &EffectiveAccess,
    action: Action,
    target: &AccessTarget,
) -> Result<wire::PermissionAccess, AppError> {
    let granted_by = match access.decide(action, target) {
        AccessDecision::NotGranted
        | AccessDecision::TokenRestricted
        | AccessDecision::SecondFactorMissing => None,
        AccessDecision::Allowed { by: AccessSource::OrganizationRole(role) } => {
            Some(wire::PermissionSource {
                role: role_to_wire(role),
                scope: AccessScope::Organization.to_string(),
                grant_id: None,
                team: None,
            })
        }
        AccessDecision::Allowed { by: AccessSource::Grant(grant) } => Some(wire::PermissionSource {
            role: role_to_wire(grant.role),
            scope: grant.scope.to_string(),
            grant_id: Some(grant.id.to_string()),
            team: match grant.team {
                None => None,
                Some(team) => team::by_id(db, team)?.map(|team| team.name.to_string()),
            },
        }),
    };
    Ok(wire::PermissionAccess {
        permission: action.as_str().into(),
        summary: action.summary().to_owned(),
        allowed: granted_by.is_some(),
        granted_by,
    })
}

/// Refuses roles that make no sense as a grant.
fn check_grantable(role: Role) -> Result<(), AppError> {
    let text = match role {
        Role::Owner => "cannot be owner; change the member's role in the organization instead",
        Role::Member => "cannot be member; every member of the organization has this role",
        _ => return Ok(()),
    };
    Err(AppError::invalid_member("/role", text))
}

fn check_limits(tx: &mut Tx<'_>, subject: GrantSubject) -> Result<(), AppError> {
    let refused = |text: String| Err(AppError::new(Code::InvalidState, text));
    if grant::count(tx, Some(subject))? >= GRANTS_PER_SUBJECT_MAX {
        return refused(format!("a member or team has at most {GRANTS_PER_SUBJECT_MAX} grants; delete some"));
    }
    if grant::count(tx, None)? >= GRANTS_MAX {
        return refused(format!("an organization has at most {GRANTS_MAX} grants; use patterns or teams"));
    }
    Ok(())
}

fn find(db: &mut impl StoreRead, id: GrantId) -> Result<Grant, AppError> {
    grant::by_id(db, id)?.ok_or_else(|| AppError::not_found("grant"))
}

/// Finds the member or team that a request names. The inner error says what is wrong with the text.
fn find_subject(db: &mut impl StoreRead, text: &str) -> Result<Result<GrantSubject, &'static str>, AppError> {
    const EXPECTED: &str = "must be user: and an id or e-mail address, or team: and an id or slug";
    Ok(match text.split_once(':') {
        Some(("team", key)) => match teams::find(db, key) {
            Ok(team) => Ok(GrantSubject::Team(team.id)),
            Err(AppError::Problem(_)) => Err("is not a team of this organization"),
            Err(other) => return Err(other),
        },
        Some(("user", key)) => {
            let id = match (key.parse::<UserId>(), Email::parse(key)) {
                (Ok(id), _) => Some(id),
                (_, Ok(email)) => user::by_email(db, &email)?.map(|user| user.id),
                _ => return Ok(Err(EXPECTED)),
            };
            let member = id.map(|id| member::by_user(db, id)).transpose()?.flatten();
            member.map(|it| GrantSubject::User(it.user)).ok_or("is not a member of this organization")
        }
        _ => Err(EXPECTED),
    })
}

fn grant_event(kind: EventKind, grant: &Grant, subject: &wire::WireGrantSubject) -> NewEvent {
    let of = match subject.kind {
        wire::GrantSubjectKind::User => "user",
        wire::GrantSubjectKind::Team => "team",
    };
    let mut event = NewEvent::new(kind, EventSubject::new("grant", grant.id, None));
    event.subjects.push(EventSubject::new(of, &subject.id, Some(&subject.name)));
    event.with("role", grant.role.as_str()).with("scope", grant.scope.to_string())
}

fn to_response(db: &mut impl StoreRead, grant: &Grant) -> Result<wire::WireGrant, AppError> {
    let missing = || AppError::bug("a grant without a subject");
    let (kind, id, name) = match grant.subject {
        GrantSubject::User(user) => {
            let member = member::find_view(db, user)?.ok_or_else(missing)?;
            (wire::GrantSubjectKind::User, user.to_string(), member.name.to_string())
        }
        GrantSubject::Team(team) => {
            let team = team::by_id(db, team)?.ok_or_else(missing)?;
            (wire::GrantSubjectKind::Team, team.id.to_string(), team.name.to_string())
        }
    };
    Ok(wire::WireGrant {
        id: grant.id.to_string(),
        subject: wire::WireGrantSubject { kind, id, name },
        role: role_to_wire(grant.role),
        scope: grant.scope.to_string(),
        created_by: actor_to_wire(&grant.created_by),
        created_at: grant.created_at.to_string(),
        deleted_at: None,
    })
}
