//! Decides which destinations the server may send requests to.
//!
//! All public addresses are allowed over HTTPS. Other addresses, and plain HTTP, are only allowed if the server's
//! configuration lists the host or network. An organization's settings cannot override this.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use url::{Host, Url};

use super::address::{is_metadata, is_public};

const URL_BYTES_MAX: usize = 2_048;

/// A host or network that the server may send requests to even if its addresses are not public. Plain HTTP is allowed
/// as well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AllowedDestination {
    Host(String),
    Network { address: IpAddr, bits: u8 },
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("must be a host like hooks.acme.test, an address like 10.0.0.7, or a network like 10.0.0.0/8")]
pub struct InvalidDestination;

impl FromStr for AllowedDestination {
    type Err = InvalidDestination;
    fn from_str(text: &str) -> Result<Self, InvalidDestination> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse::<u8>().map_err(|_| InvalidDestination)?)),
            None => (text, None),
        };
        let bare = address.trim_start_matches('[').trim_end_matches(']');
        match (bare.parse::<IpAddr>(), bits) {
            (Ok(address), bits) => {
                let address = address.to_canonical();
                let most = if address.is_ipv4() { 32 } else { 128 };
                let bits = bits.unwrap_or(most);
                if bits <= most {
                    Ok(AllowedDestination::Network { address, bits })
                } else {
                    Err(InvalidDestination)
                }
            }
            (Err(_), Some(_)) => Err(InvalidDestination),
            (Err(_), None) => match Host::parse(text) {
                Ok(Host::Domain(name)) if !name.is_empty() => {
                    Ok(AllowedDestination::Host(normalize_host(&name)))
                }
                _ => Err(InvalidDestination),
            },
        }
    }
}

impl AllowedDestination {
    fn contains(&self, found: IpAddr) -> bool {
        let AllowedDestination::Network { address, bits } = self else { return false };
        let same = |one: u128, other: u128, width: u32| {
            let shift = width - u32::from(*bits);
            shift == width || one >> shift == other >> shift
        };
        match (address, found.to_canonical()) {
            (IpAddr::V4(one), IpAddr::V4(other)) => {
                same(u128::from(one.to_bits()), u128::from(other.to_bits()), 32)
            }
            (IpAddr::V6(one), IpAddr::V6(other)) => same(one.to_bits(), other.to_bits(), 128),
            _ => false,
        }
    }
}

/// The reason why a request is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EgressRefusal(pub &'static str);

impl fmt::Display for EgressRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

const PRIVATE: EgressRefusal = EgressRefusal(
    "is not a public address; the server's operator can allow the host or its network with --egress-allow",
);

#[derive(Debug, Clone, Default)]
pub struct EgressPolicy {
    pub allowed: Vec<AllowedDestination>,
}

impl EgressPolicy {
    /// Checks a URL without a DNS lookup, and returns it in normalized form.
    pub fn check(&self, text: &str) -> Result<Url, EgressRefusal> {
        if text.len() > URL_BYTES_MAX {
            return Err(EgressRefusal("must be at most 2,048 bytes long"));
        }
        let mut url = Url::parse(text)
            .map_err(|_| EgressRefusal("must be a URL like https://hooks.acme.test/berth"))?;
        if !["https", "http"].contains(&url.scheme()) {
            return Err(EgressRefusal("must begin with https://"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(EgressRefusal("must not contain a user or password"));
        }
        if url.port() == Some(0) {
            return Err(EgressRefusal("must have a port from 1 to 65,535"));
        }
        let host = url.host().ok_or(EgressRefusal("must name a host"))?;
        if let Some(address) = literal_address(&host) {
            self.check_address(&host.to_string(), address)?;
        }
        if url.scheme() == "http" && !self.may_be_plain(&host) {
            return Err(EgressRefusal(
                "must begin with https://; the server's operator can allow plain http to this host with --egress-allow",
            ));
        }
        url.set_fragment(None);
        Ok(url)
    }

    /// Whether a request to this host may connect to this address.
    pub fn check_address(&self, host: &str, address: IpAddr) -> Result<(), EgressRefusal> {
        if is_metadata(address) {
            return Err(EgressRefusal("is an address that is never allowed"));
        }
        let is_allowed = is_public(address)
            || self.allows_host(host)
            || self.allowed.iter().any(|allowed| allowed.contains(address));
        if is_allowed { Ok(()) } else { Err(PRIVATE) }
    }

    fn allows_host(&self, host: &str) -> bool {
        self.allowed.iter().any(|allowed| *allowed == AllowedDestination::Host(normalize_host(host)))
    }

    fn may_be_plain<S: AsRef<str> + fmt::Display>(&self, host: &Host<S>) -> bool {
        match literal_address(host) {
            Some(address) => self.allowed.iter().any(|allowed| allowed.contains(address)),
            None => self.allows_host(&host.to_string()),
        }
    }
}

fn literal_address<S>(host: &Host<S>) -> Option<IpAddr> {
    match host {
        Host::Ipv4(v4) => Some((*v4).into()),
        Host::Ipv6(v6) => Some((*v6).into()),
        Host::Domain(_) => None,
    }
}

/// Normalizes a host name: lower case, without a trailing dot.
fn normalize_host(host: &str) -> String {
    host.trim_end_matches('.').to_ascii_lowercase()
}
