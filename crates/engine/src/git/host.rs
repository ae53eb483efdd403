//! Prevents tenants of a public server from accessing repositories in the server's private network.

use std::net::ToSocketAddrs as _;

use super::GitError;
use crate::egress::is_public;

/// Refuses a host if any of its addresses is not public.
pub(super) fn check_public(host: &str) -> Result<(), GitError> {
    let found = (host, 443).to_socket_addrs();
    let found = found.map_err(|_| GitError::Failed(format!("host {host} not found")))?;
    for address in found {
        if !is_public(address.ip()) {
            return Err(GitError::Refused(format!(
                "{host} is in a private network; the server's operator can allow it with --repository-host {host}"
            )));
        }
    }
    Ok(())
}
