//! Domain words as wire words. No catch-all arms: a new word asks here what clients shall see.

use berth_api::event::{Actor as WireActor, ActorKind as WireActorKind};
use berth_api::member::{Role as WireRole, UserKind};
use berth_api::runner::{Isolation, Network as WireNetwork};
use berth_core::access::Role;
use berth_core::event::{Actor, ActorKind};
use berth_core::step::Network;

pub(super) fn role(role: Role) -> WireRole {
    match role {
        Role::Viewer => WireRole::Viewer,
        Role::Deployer => WireRole::Deployer,
        Role::Admin => WireRole::Admin,
        Role::Owner => WireRole::Owner,
    }
}

pub(crate) fn network(network: Network) -> WireNetwork {
    match network {
        Network::Host => WireNetwork::Host,
        Network::None => WireNetwork::None,
    }
}

pub(crate) fn domain_network(network: WireNetwork) -> Network {
    match network {
        WireNetwork::Host => Network::Host,
        WireNetwork::None => Network::None,
    }
}

pub(crate) const fn isolation(level: Isolation) -> &'static str {
    match level {
        Isolation::None => "none",
        Isolation::Process => "process",
        Isolation::Landlock => "landlock",
        Isolation::Bubblewrap => "bubblewrap",
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
