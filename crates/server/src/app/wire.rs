//! Domain words as wire words. No catch-all arms: a new word asks here what clients shall see.

use berth_api::event::{Actor as WireActor, ActorKind as WireActorKind};
use berth_api::member::{Role as WireRole, UserKind};
use berth_core::access::Role;
use berth_core::event::{Actor, ActorKind};

pub(super) fn role(role: Role) -> WireRole {
    match role {
        Role::Viewer => WireRole::Viewer,
        Role::Deployer => WireRole::Deployer,
        Role::Admin => WireRole::Admin,
        Role::Owner => WireRole::Owner,
    }
}

pub(super) fn user_kind(is_service: bool) -> UserKind {
    if is_service { UserKind::Service } else { UserKind::Person }
}

pub(super) fn actor(actor: &Actor) -> WireActor {
    WireActor {
        kind: match actor.kind {
            ActorKind::User => WireActorKind::User,
            ActorKind::Service => WireActorKind::Service,
            ActorKind::System => WireActorKind::System,
        },
        id: actor.id.map(|id| id.to_string()),
        name: actor.name.clone(),
        token_id: actor.token.map(|id| id.to_string()),
    }
}
