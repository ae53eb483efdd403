//! URLs of submodules: resolved against the URL of their repository, and compared with it.

use super::{GitTransport, RemoteUrl, port_of};
use crate::name::InvalidName;

const ABOVE_ROOT: InvalidName = InvalidName("leads above the root of the server");

impl RemoteUrl {
    /// Resolves the URL of a submodule. Like git, treats one that begins with `./` or `../` as relative to the
    /// repository.
    pub fn join(&self, reference: &str) -> Result<Self, InvalidName> {
        if !reference.starts_with("./") && !reference.starts_with("../") {
            return Self::parse(&strip_user(reference));
        }
        let (root, path) = self.split_root();
        let mut parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        for part in reference.split('/') {
            match part {
                "" | "." => {}
                ".." => drop(parts.pop().ok_or(ABOVE_ROOT)?),
                name => parts.push(name),
            }
        }
        Self::parse(&format!("{root}{}", parts.join("/")))
    }

    /// Whether both URLs have the same scheme, host and port, so that a credential for one may be sent to the other.
    pub fn is_same_server(&self, other: &Self) -> bool {
        let host = |url: &Self| url.host().map(str::to_ascii_lowercase);
        self.transport == other.transport && host(self) == host(other) && self.port() == other.port()
    }

    /// Splits the URL into server and path. The first part ends with the separator.
    fn split_root(&self) -> (&str, &str) {
        let text = &self.text;
        let end = match text.find("://") {
            Some(at) => text[at + 3..].find('/').map_or(text.len(), |slash| at + 3 + slash + 1),
            None if self.transport == GitTransport::Local => 1,
            None => {
                let colon = text.find(':').map_or(text.len(), |at| at + 1);
                if text[colon..].starts_with('/') { colon + 1 } else { colon }
            }
        };
        text.split_at(end)
    }

    fn port(&self) -> Option<u16> {
        let default = match self.transport {
            GitTransport::Https => 443,
            GitTransport::Http => 80,
            GitTransport::Ssh => 22,
            GitTransport::Local => return None,
        };
        let given = self.authority().and_then(port_of).and_then(|port| port.parse().ok());
        Some(given.unwrap_or(default))
    }
}

/// Removes a user name without a password from an HTTP URL. Some forges put the name of the user who copied the URL
/// there; it does not matter with a credential.
fn strip_user(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    match authority.rsplit_once('@') {
        Some((user, host)) if matches!(scheme, "https" | "http") && !user.contains(':') => {
            format!("{scheme}://{host}{path}")
        }
        _ => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> RemoteUrl {
        RemoteUrl::parse(text).expect(text)
    }

    #[test]
    fn submodule_url_is_resolved_like_git_does() {
        for (base, reference, expected) in [
            ("https://git.acme.test/shop/api.git", "../lib.git", "https://git.acme.test/shop/lib.git"),
            ("https://git.acme.test/shop/api.git/", "../lib.git", "https://git.acme.test/shop/lib.git"),
            ("https://git.acme.test:8443/shop/api", "../../lib", "https://git.acme.test:8443/lib"),
            ("https://git.acme.test/shop/api", "./lib", "https://git.acme.test/shop/api/lib"),
            ("ssh://git@git.acme.test/shop/api", "../lib", "ssh://git@git.acme.test/shop/lib"),
            ("git@git.acme.test:shop/api.git", "../lib.git", "git@git.acme.test:shop/lib.git"),
            ("git@git.acme.test:/srv/api.git", "../lib.git", "git@git.acme.test:/srv/lib.git"),
            ("git@git.acme.test:api.git", "../lib.git", "git@git.acme.test:lib.git"),
            ("/srv/git/api.git", "../lib.git", "/srv/git/lib.git"),
            ("file:///srv/git/api.git", "../lib.git", "file:///srv/git/lib.git"),
            ("https://git.acme.test/a", "https://other.test/b", "https://other.test/b"),
            ("https://git.acme.test/a", "git@other.test:b", "git@other.test:b"),
            ("https://git.acme.test/a", "https://ada@other.test/b", "https://other.test/b"),
            ("https://git.acme.test/a", "ssh://ada@other.test/b", "ssh://ada@other.test/b"),
        ] {
            assert_eq!(url(base).join(reference).expect(reference).as_str(), expected);
        }
        for bad in [
            "../../../lib",
            "../../",
            "..",
            ".",
            "lib",
            "ext::sh -c x",
            "file::/srv/x",
            "-oProxyCommand=x",
            "../a b",
            "../-x",
            "../x?y",
            "https://u:p@host/x",
        ] {
            assert!(url("https://git.acme.test/shop/api").join(bad).is_err(), "{bad:?} was accepted");
        }
    }

    #[test]
    fn servers_are_the_same_if_scheme_host_and_port_are() {
        for (one, other, is_same) in [
            ("https://git.acme.test/a", "https://git.acme.test:443/b", true),
            ("https://git.acme.test/a", "https://GIT.acme.test/b", true),
            ("https://git.acme.test/a", "https://git.acme.test:8443/a", false),
            ("https://git.acme.test/a", "http://git.acme.test/a", false),
            ("https://git.acme.test/a", "ssh://git@git.acme.test/a", false),
            ("https://git.acme.test/a", "https://acme.test/a", false),
            ("git@git.acme.test:a", "ssh://git@git.acme.test/b", true),
            ("git@git.acme.test:a", "ssh://git@git.acme.test:2222/b", false),
            ("/srv/a", "file:///srv/b", true),
            ("/srv/a", "https://git.acme.test/a", false),
        ] {
            assert_eq!(url(one).is_same_server(&url(other)), is_same, "{one} {other}");
            assert_eq!(url(other).is_same_server(&url(one)), is_same, "{other} {one}");
        }
    }
}
