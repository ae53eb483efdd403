//! Teams and their members.

use berth_api::problem::Code;
use berth_api::team as wire;
use berth_core::access::permit;
use berth_core::event::{EventKind, EventSubject, NewEvent};
use berth_core::id::{TeamId, UserId};
use berth_core::name::{DisplayName, Slug};
use berth_store::idempotency::IdempotencyKey;
use berth_store::pagination::{ListPage, PageStart};
use berth_store::tables::grant::{self, GrantSubject};
use berth_store::tables::team::{self, MANUAL_SOURCE, TEAM_MEMBERS_MAX, TEAMS_MAX, Team, TeamMemberView};
use berth_store::tables::{environment, member};
use berth_store::{StoreRead, Tx};

use super::{ApiResponse, App, IdempotentResponse, ResponsePage};
use crate::auth::authorize::AuthorizedCaller;
use crate::error::AppError;

pub struct NewTeam {
    pub slug: Slug,
    pub name: DisplayName,
}

impl App {
    pub async fn list_teams(
        &self,
        who: &AuthorizedCaller<permit::MembersRead>,
        from: PageStart,
        limit: i64,
    ) -> Result<ResponsePage<wire::WireTeam>, AppError> {
        let slice = self.read(who, move |db| {
            let ListPage { items, total, has_more } = team::list(db, &from, limit)?;
            let items = items.iter().map(|it| to_response(db, it)).collect::<Result<Vec<_>, _>>()?;
            Ok(ListPage { items, total, has_more })
        });
        Ok(ResponsePage::from_list_page(&slice.await?, |it: &wire::WireTeam| it.id.clone(), Clone::clone))
    }

    pub async fn view_team(
        &self,
        who: &AuthorizedCaller<permit::MembersRead>,
        key: String,
    ) -> Result<ApiResponse<wire::WireTeam>, AppError> {
        self.read(who, move |db| {
            let found = find(db, &key)?;
            build_response(db, &found)
        })
        .await
    }

    pub async fn create_team(
        &self,
        who: &AuthorizedCaller<permit::MembersWrite>,
        new: NewTeam,
        once: Option<IdempotencyKey>,
    ) -> Result<IdempotentResponse<wire::WireTeam>, AppError> {
        let org = who.org();
        self.change(who, once, move |tx, standing| {
            standing.check_confirmed(tx.now())?;
            if team::by_slug(tx, &new.slug)?.is_some() {
                let text = format!("there already is a team {}; choose another slug", new.slug);
                return Err(AppError::new(Code::AlreadyExists, text));
            }
            if team::count(tx)? >= TEAMS_MAX {
                let text = format!("an organization has at most {TEAMS_MAX} teams");
                return Err(AppError::new(Code::InvalidState, text));
            }
            let created_at = tx.now();
            let id = TeamId::from_parts(created_at, tx.entropy()?);
            let made = Team { id, slug: new.slug, name: new.name, version: 1, created_at };
            team::put(tx, &made)?;
            tx.record(team_event(EventKind::TeamCreated, &made))?;
            let location = format!("/api/v1/organizations/{org}/teams/{id}");
            Ok(ApiResponse { status: 201, location: Some(location), ..build_response(tx, &made)? })
        })
        .await
    }

    pub async fn rename_team(
        &self,
        who: &AuthorizedCaller<permit::MembersWrite>,
        key: String,
        name: Option<DisplayName>,
        expected: Option<i64>,
    ) -> Result<IdempotentResponse<wire::WireTeam>, AppError> {
        self.change(who, None, move |tx, _| {
            let found = find(tx, &key)?;
            super::check_version(found.version, expected)?;
            let Some(name) = name.filter(|name| *name != found.name) else {
                return build_response(tx, &found);
            };
            let renamed = Team { name, version: found.version + 1, ..found };
            team::put(tx, &renamed)?;
            tx.record(team_event(EventKind::TeamUpdated, &renamed))?;
            build_response(tx, &renamed)
        })
        .await
    }

    /// Deletes a team with its memberships and grants. The members stay in the organization.
    pub async fn delete_team(
        &self,
        who: &AuthorizedCaller<permit::MembersWrite>,
        key: String,
        expected: Option<i64>,
    ) -> Result<IdempotentResponse<wire::WireTeam>, AppError> {
        self.change(who, None, move |tx, standing| {
            standing.check_confirmed(tx.now())?;
            let found = find(tx, &key)?;
            super::check_version(found.version, expected)?;
            let last = to_response(tx, &found)?;
            for it in team::list_members(tx, found.id)? {
                environment::make_queues_due(tx, it.user)?;
            }
            let grants = grant::delete_of_subject(tx, GrantSubject::Team(found.id))?;
            team::delete(tx, found.id)?;
            tx.record(team_event(EventKind::TeamDeleted, &found).with("grantsDeleted", grants))?;
            Ok(ApiResponse::ok(wire::WireTeam { deleted_at: Some(tx.now().to_string()), ..last }))
        })
        .await
    }

    pub async fn list_team_members(
        &self,
        who: &AuthorizedCaller<permit::MembersRead>,
        key: String,
    ) -> Result<Vec<wire::TeamMember>, AppError> {
        self.read(who, move |db| {
            let found = find(db, &key)?;
            Ok(team::list_members(db, found.id)?.iter().map(member_to_response).collect())
        })
        .await
    }

    /// Adds a member of the organization to a team. Idempotent. A membership that comes from an identity provider stays
    /// from then on, even if the provider's group goes.
    pub async fn add_team_member(
        &self,
        who: &AuthorizedCaller<permit::MembersWrite>,
        key: String,
        user: UserId,
    ) -> Result<IdempotentResponse<wire::TeamMember>, AppError> {
        self.change(who, None, move |tx, standing| {
            standing.check_confirmed(tx.now())?;
            let found = find(tx, &key)?;
            let added = member::find_view(tx, user)?.ok_or_else(|| AppError::not_found("member"))?;
            let source = team::find_source(tx, found.id, user)?;
            if source.as_deref() != Some(MANUAL_SOURCE) {
                if source.is_none() && team::count_members(tx, found.id)? >= TEAM_MEMBERS_MAX {
                    let text = format!("a team has at most {TEAM_MEMBERS_MAX} members");
                    return Err(AppError::new(Code::InvalidState, text));
                }
                team::add_member(tx, found.id, user, MANUAL_SOURCE)?;
                tx.record(team_member_event(EventKind::TeamMemberAdded, &found, user, &added.name))?;
            }
            Ok(ApiResponse::ok(find_member(tx, found.id, user)?))
        })
        .await
    }

    pub async fn remove_team_member(
        &self,
        who: &AuthorizedCaller<permit::MembersWrite>,
        key: String,
        user: UserId,
    ) -> Result<IdempotentResponse<wire::TeamMember>, AppError> {
        self.change(who, None, move |tx, _| {
            let found = find(tx, &key)?;
            let last = find_member(tx, found.id, user)?;
            if last.source != MANUAL_SOURCE {
                let text = format!(
                    "this membership comes from the identity provider {}; remove the person from the group there",
                    last.source
                );
                return Err(AppError::new(Code::InvalidState, text));
            }
            let removed = member::find_view(tx, user)?.ok_or_else(|| AppError::not_found("member"))?;
            team::remove_member(tx, found.id, user)?;
            environment::make_queues_due(tx, user)?;
            tx.record(team_member_event(EventKind::TeamMemberRemoved, &found, user, &removed.name))?;
            Ok(ApiResponse::ok(last))
        })
        .await
    }
}

/// Finds a team by the id or slug from a URL.
pub(super) fn find(db: &mut impl StoreRead, key: &str) -> Result<Team, AppError> {
    let found = match (key.parse::<TeamId>(), Slug::parse(key)) {
        (Ok(id), _) => team::by_id(db, id)?,
        (_, Ok(slug)) => team::by_slug(db, &slug)?,
        _ => None,
    };
    found.ok_or_else(|| AppError::not_found("team"))
}

fn find_member(tx: &mut Tx<'_>, team: TeamId, user: UserId) -> Result<wire::TeamMember, AppError> {
    let found = team::list_members(tx, team)?.into_iter().find(|it| it.user == user);
    found.as_ref().map(member_to_response).ok_or_else(|| AppError::not_found("member"))
}

fn team_event(kind: EventKind, team: &Team) -> NewEvent {
    NewEvent::new(kind, EventSubject::new("team", team.id, Some(team.slug.as_str())))
}

pub(super) fn team_member_event(kind: EventKind, team: &Team, user: UserId, name: &DisplayName) -> NewEvent {
    let mut event = team_event(kind, team);
    event.subjects.push(EventSubject::new("user", user, Some(name.as_str())));
    event
}

fn build_response(db: &mut impl StoreRead, team: &Team) -> Result<ApiResponse<wire::WireTeam>, AppError> {
    let body = to_response(db, team)?;
    let members = body.member_count;
    Ok(ApiResponse::ok(body).with_version(team.version).with_variant(members))
}

fn to_response(db: &mut impl StoreRead, team: &Team) -> Result<wire::WireTeam, AppError> {
    Ok(wire::WireTeam {
        id: team.id.to_string(),
        slug: team.slug.to_string(),
        name: team.name.to_string(),
        member_count: team::count_members(db, team.id)?,
        created_at: team.created_at.to_string(),
        deleted_at: None,
    })
}

fn member_to_response(it: &TeamMemberView) -> wire::TeamMember {
    wire::TeamMember {
        id: it.user.to_string(),
        email: it.email.to_string(),
        name: it.name.to_string(),
        source: it.source.clone(),
        added_at: it.created_at.to_string(),
    }
}
