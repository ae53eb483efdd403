//! Converts domain values to API types.

use berth_api::runner::{Isolation, Network as WireNetwork};
use berth_core::step::NetworkAccess;

pub fn network(network: NetworkAccess) -> WireNetwork {
    match network {
        NetworkAccess::Host => WireNetwork::Host,
        NetworkAccess::None => WireNetwork::None,
        NetworkAccess::Bridge => WireNetwork::Bridge,
    }
}

pub fn domain_network(network: WireNetwork) -> NetworkAccess {
    match network {
        WireNetwork::Host => NetworkAccess::Host,
        WireNetwork::None => NetworkAccess::None,
        WireNetwork::Bridge => NetworkAccess::Bridge,
    }
}

pub const fn isolation(level: Isolation) -> &'static str {
    match level {
        Isolation::None => "none",
        Isolation::Process => "process",
        Isolation::Landlock => "landlock",
        Isolation::Bubblewrap => "bubblewrap",
        Isolation::Container => "container",
    }
}
