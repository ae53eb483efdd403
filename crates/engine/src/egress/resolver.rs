//! DNS resolver of the HTTP client. The client connects to exactly the addresses that were checked, which prevents DNS
//! rebinding.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use ureq::Error;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;

use super::policy::EgressPolicy;

/// Maximum duration of a DNS lookup. The timeout of the request also limits it.
const LOOK_UP_MAX: Duration = Duration::from_secs(10);
/// Maximum number of addresses that a request tries to connect to. All resolved addresses are checked, not only these.
const ADDRESSES_TRIED_MAX: usize = 8;

/// Resolves a host. Tests replace the system resolver with a fake one.
pub type LookupFn = Arc<dyn Fn(&str, u16) -> io::Result<Vec<SocketAddr>> + Send + Sync>;

pub fn system_lookup() -> LookupFn {
    Arc::new(|host, port| Ok((host, port).to_socket_addrs()?.collect()))
}

pub(super) struct CheckedResolver {
    pub(super) policy: Arc<EgressPolicy>,
    pub(super) look_up: LookupFn,
}

impl fmt::Debug for CheckedResolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Checked")
    }
}

impl Resolver for CheckedResolver {
    fn resolve(&self, uri: &Uri, _: &Config, timeout: NextTimeout) -> Result<ResolvedSocketAddrs, Error> {
        let host = uri.host().ok_or(Error::HostNotFound)?;
        let port = uri.port_u16().unwrap_or(if uri.scheme_str() == Some("http") { 80 } else { 443 });
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let found = match bare.parse::<IpAddr>() {
            Ok(address) => vec![SocketAddr::new(address, port)],
            Err(_) => self.look_up_host(bare, port, (*timeout.after).min(LOOK_UP_MAX))?,
        };
        // Refuse the host if any of its addresses is forbidden. Otherwise a DNS name could hide one among public
        // addresses.
        for address in &found {
            self.policy.check_address(bare, address.ip()).map_err(refusal_error)?;
        }
        let mut checked = self.empty();
        for address in found.into_iter().take(ADDRESSES_TRIED_MAX) {
            checked.push(address);
        }
        if checked.is_empty() { Err(Error::HostNotFound) } else { Ok(checked) }
    }
}

impl CheckedResolver {
    /// Runs the lookup on a separate thread, because the system resolver has no timeout.
    fn look_up_host(&self, host: &str, port: u16, limit: Duration) -> Result<Vec<SocketAddr>, Error> {
        let (tell, answer) = mpsc::sync_channel(1);
        let (look_up, host) = (self.look_up.clone(), host.to_owned());
        std::thread::Builder::new().name("egress-name".into()).spawn(move || {
            // Sending fails if the lookup has timed out, because the receiver was dropped.
            tell.send(look_up(&host, port)).ok();
        })?;
        match answer.recv_timeout(limit) {
            Ok(found) => found.map_err(|_| Error::HostNotFound),
            Err(_) => Err(Error::HostNotFound),
        }
    }
}

fn refusal_error(why: super::policy::EgressRefusal) -> Error {
    Error::Other(Box::new(RefusedAddress(why)))
}

/// Wraps a refusal as an error of the HTTP client library.
#[derive(Debug)]
pub(super) struct RefusedAddress(pub(super) super::policy::EgressRefusal);

impl fmt::Display for RefusedAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl std::error::Error for RefusedAddress {}
