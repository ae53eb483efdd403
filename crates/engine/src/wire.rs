//! Conversions of domain values to API types.

use berth_api::runner::{Isolation, Network as WireNetwork};
use berth_core::step::Network;

pub fn network(network: Network) -> WireNetwork {
    match network {
        Network::Host => WireNetwork::Host,
        Network::None => WireNetwork::None,
    }
}

pub fn domain_network(network: WireNetwork) -> Network {
    match network {
        WireNetwork::Host => Network::Host,
        WireNetwork::None => Network::None,
    }
}

pub const fn isolation(level: Isolation) -> &'static str {
    match level {
        Isolation::None => "none",
        Isolation::Process => "process",
        Isolation::Landlock => "landlock",
        Isolation::Bubblewrap => "bubblewrap",
    }
}
