//! Converts domain types to API types. Matches have no catch-all arms, so a new variant causes a compile error here.

use berth_api::event::{ActorKind as WireActorKind, Subject as WireSubject, WireActor, WireEvent};
use berth_api::member::{UserKind, WireRole};
use berth_core::access::Role;
use berth_core::event::{Actor, ActorType, Event, summarize};

pub(crate) fn role_to_wire(role: Role) -> WireRole {
    match role {
        Role::Member => WireRole::Member,
        Role::Viewer => WireRole::Viewer,
        Role::Tester => WireRole::Tester,
        Role::Approver => WireRole::Approver,
        Role::Deployer => WireRole::Deployer,
        Role::Admin => WireRole::Admin,
        Role::Owner => WireRole::Owner,
    }
}

pub(crate) fn user_kind(is_service: bool, is_agent: bool) -> UserKind {
    match (is_service, is_agent) {
        (_, true) => UserKind::Agent,
        (true, false) => UserKind::Service,
        (false, false) => UserKind::Person,
    }
}

pub(crate) fn actor_to_wire(actor: &Actor) -> WireActor {
    WireActor {
        kind: match actor.kind {
            ActorType::User => WireActorKind::User,
            ActorType::Service => WireActorKind::Service,
            ActorType::System => WireActorKind::System,
        },
        id: actor.id.map(|id| id.to_string()),
        name: actor.name.clone(),
        token_id: actor.token.map(|id| id.to_string()),
    }
}

/// Converts an event: the members that are hashed and exported, plus the summary. `pipeline` is the slug of the event's
/// pipeline.
pub(crate) fn event_to_wire(event: &Event, pipeline: Option<&str>) -> WireEvent {
    WireEvent {
        id: event.id.to_string(),
        sequence: event.sequence,
        kind: event.kind.clone(),
        occurred_at: event.occurred_at.to_string(),
        actor: actor_to_wire(&event.actor),
        request_id: event.request_id.clone(),
        subjects: event
            .subjects
            .iter()
            .map(|subject| WireSubject {
                kind: subject.kind.clone(),
                id: subject.id.clone(),
                name: subject.name.clone(),
            })
            .collect(),
        data: event.data.clone(),
        organization_id: event.org.to_string(),
        previous_hash: event.previous_hash.clone(),
        hash: event.hash.clone(),
        summary: summarize(event, pipeline),
    }
}
