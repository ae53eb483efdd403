//! A git repository that contains pipeline definitions, and when it is synced next.

mod join;

use serde::{Deserialize, Serialize};

use crate::id::RepositoryId;
use crate::name::InvalidName;
use crate::pipeline::grammar::SecretName;
use crate::time::Timestamp;

pub const URL_BYTES_MAX: usize = 1_024;
pub const POLL_SECONDS_DEFAULT: i64 = 60;
pub const POLL_SECONDS_MIN: i64 = 10;
pub const POLL_SECONDS_MAX: i64 = 86_400;
/// The longest pause between retries, in seconds.
pub const RETRY_SECONDS_MAX: i64 = 3_600;

#[derive(Debug, Clone, PartialEq)]
pub struct Repository {
    pub id: RepositoryId,
    pub url: RemoteUrl,
    /// Name of the organization's secret that contains the credential for the repository.
    pub credential: Option<SecretName>,
    pub poll_seconds: i64,
    /// Whether its mirror is partial: then the content of files is fetched only when it is needed. Never changes.
    pub is_partial: bool,
    pub seen: RepositorySyncState,
    /// Increases when a user changes the repository's settings, not when it is synced.
    pub version: i64,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub deleted_at: Option<Timestamp>,
}

/// The result of the last sync.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RepositorySyncState {
    pub default_branch: Option<String>,
    /// The head commit of the default branch.
    pub head: Option<String>,
    /// When the last successful sync took place.
    pub synced_at: Option<Timestamp>,
    /// Why the last sync failed; `None` if it succeeded.
    pub error: Option<String>,
    /// Consecutive failed syncs.
    pub failures: i64,
    pub problems: Vec<SyncProblem>,
    /// When to sync next.
    pub due_at: Option<Timestamp>,
}

/// A definition file with errors.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SyncProblem {
    pub path: String,
    pub message: String,
    /// Diagnostics in the format of the API.
    pub diagnostics: Vec<serde_json::Value>,
}

impl Repository {
    /// When to sync next after this number of consecutive failures; exponential backoff.
    pub fn next_sync_at(&self, failures: i64, now: Timestamp) -> Timestamp {
        let doublings = u32::try_from(failures).unwrap_or(0).min(16);
        let wait = self.poll_seconds.saturating_mul(1 << doublings);
        // The pause is never shorter than the poll interval, even if that is longer than the maximum for retries.
        now.plus_seconds(wait.min(RETRY_SECONDS_MAX.max(self.poll_seconds)))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GitTransport {
    Https,
    /// Unencrypted; only allowed on loopback.
    Http,
    Ssh,
    /// A directory on the server's machine.
    Local,
}

/// The URL of a repository. Only accepts forms that git cannot mistake for an option or a program to run, and no URL
/// that contains a password.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RemoteUrl {
    text: String,
    transport: GitTransport,
}

const FORMS: InvalidName = InvalidName(
    "must be like https://host/path, ssh://git@host/path, git@host:path, or an absolute path on the server",
);
const NO_USERINFO: InvalidName =
    InvalidName("must not contain a user or password; create a secret, and set it as the credential");
const NO_QUERY: InvalidName = InvalidName("must have no query and no fragment");

impl RemoteUrl {
    pub fn parse(text: &str) -> Result<Self, InvalidName> {
        if text.is_empty() || text.len() > URL_BYTES_MAX || !text.bytes().all(is_plain) {
            return Err(FORMS);
        }
        let transport = if text.starts_with('/') || text.starts_with("file://") {
            check_local(text.strip_prefix("file://").unwrap_or(text))?
        } else if let Some(rest) = text.strip_prefix("https://") {
            check_web(rest).map(|()| GitTransport::Https)?
        } else if let Some(rest) = text.strip_prefix("http://") {
            check_web(rest).map(|()| GitTransport::Http)?
        } else if let Some(rest) = text.strip_prefix("ssh://") {
            let (authority, path) = rest.split_once('/').ok_or(FORMS)?;
            check_ssh(authority, path)?
        } else {
            let (authority, path) = text.split_once(':').ok_or(FORMS)?;
            if authority.contains('[') || path.starts_with("//") {
                return Err(FORMS);
            }
            check_ssh(authority, path)?
        };
        Ok(Self { text: text.to_owned(), transport })
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub fn transport(&self) -> GitTransport {
        self.transport
    }

    /// The directory of a local repository.
    pub fn local_path(&self) -> Option<&str> {
        let path = self.text.strip_prefix("file://").unwrap_or(&self.text);
        (self.transport == GitTransport::Local).then_some(path)
    }

    /// Scheme, host and port of an HTTP URL; a credential is only sent to this origin.
    pub fn origin(&self) -> Option<&str> {
        let begin = self.text.find("://")? + 3;
        let end = self.text[begin..].find('/').map_or(self.text.len(), |found| begin + found);
        matches!(self.transport, GitTransport::Https | GitTransport::Http).then(|| &self.text[..end])
    }

    /// The path on a forge: the path after the host, without `.git`. It has at least an owner and a name.
    pub fn forge_path(&self) -> Option<&str> {
        let path = match self.text.split_once("://") {
            Some((_, rest)) => rest.split_once('/')?.1,
            None => self.text.split_once(':')?.1,
        };
        let path = path.trim_matches('/');
        let path = path.strip_suffix(".git").unwrap_or(path).trim_end_matches('/');
        let is_good = path.split('/').count() >= 2 && path.split('/').all(|part| !part.is_empty());
        is_good.then_some(path)
    }

    /// The host, without user, port or brackets; `None` for a local repository.
    pub fn host(&self) -> Option<&str> {
        let host = self.authority()?;
        let host = port_of(host).map_or(host, |port| &host[..host.len() - port.len() - 1]);
        Some(host.trim_start_matches('[').trim_end_matches(']'))
    }

    /// The host and port, without user; `None` for a local repository.
    fn authority(&self) -> Option<&str> {
        let authority = match self.transport {
            GitTransport::Local => return None,
            GitTransport::Https | GitTransport::Http => self.origin()?.split_once("://")?.1,
            GitTransport::Ssh => match self.text.strip_prefix("ssh://") {
                Some(rest) => rest.split_once('/')?.0,
                None => self.text.split_once(':')?.0,
            },
        };
        Some(authority.rsplit_once('@').map_or(authority, |(_, host)| host))
    }
}

/// False for spaces, quotes, control characters, and anything special to a shell or git.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"._~/%+@:,=-[]?#".contains(&byte)
}

fn check_local(path: &str) -> Result<GitTransport, InvalidName> {
    let is_clean = path.starts_with('/') && path.split('/').all(|part| part != ".." && part != ".");
    if is_clean && !path.contains(['?', '#', '[', ']']) { Ok(GitTransport::Local) } else { Err(FORMS) }
}

fn check_web(rest: &str) -> Result<(), InvalidName> {
    if rest.contains(['?', '#']) {
        return Err(NO_QUERY);
    }
    let (authority, path) = rest.split_once('/').ok_or(FORMS)?;
    if authority.contains('@') {
        return Err(NO_USERINFO);
    }
    if is_authority(authority) && is_path(path) { Ok(()) } else { Err(FORMS) }
}

fn check_ssh(authority: &str, path: &str) -> Result<GitTransport, InvalidName> {
    if path.contains(['?', '#']) {
        return Err(NO_QUERY);
    }
    let (user, host) = authority.rsplit_once('@').unwrap_or(("git", authority));
    if user.contains(':') {
        return Err(NO_USERINFO);
    }
    let is_user = !user.is_empty()
        && !user.starts_with('-')
        && user.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    let is_good = is_user && is_authority(host) && is_path(path);
    if is_good { Ok(GitTransport::Ssh) } else { Err(FORMS) }
}

fn is_path(path: &str) -> bool {
    let parts = path.split('/').all(|part| part != ".." && part != "." && !part.starts_with('-'));
    parts && !path.is_empty() && !path.starts_with(':') && !path.contains(['[', ']'])
}

/// Whether the text is a host with an optional port.
fn is_authority(text: &str) -> bool {
    let (host, port) = match port_of(text) {
        Some(port) => (&text[..text.len() - port.len() - 1], port.parse::<u16>().is_ok_and(|port| port > 0)),
        None => (text, true),
    };
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'.' || byte == b'-' || byte == b'_';
    let is_host = match host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => !host.is_empty() && !host.starts_with(['-', '.']) && host.bytes().all(is_name),
    };
    is_host && port
}

fn port_of(authority: &str) -> Option<&str> {
    let (before, port) = authority.rsplit_once(':')?;
    // Colons inside brackets belong to an IPv6 address.
    (!before.contains('[') || before.ends_with(']')).then_some(port)
}

impl TryFrom<String> for RemoteUrl {
    type Error = InvalidName;
    fn try_from(text: String) -> Result<Self, InvalidName> {
        Self::parse(&text)
    }
}

impl From<RemoteUrl> for String {
    fn from(url: RemoteUrl) -> String {
        url.text
    }
}

impl std::fmt::Display for RemoteUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remote_url_detects_transport_and_host() {
        for (text, transport, host) in [
            ("https://git.acme.test/shop.git", GitTransport::Https, Some("git.acme.test")),
            ("https://git.acme.test:8443/a/b", GitTransport::Https, Some("git.acme.test")),
            ("http://127.0.0.1:3000/shop.git", GitTransport::Http, Some("127.0.0.1")),
            ("https://[2001:db8::1]:8443/a", GitTransport::Https, Some("2001:db8::1")),
            ("ssh://git@git.acme.test:2222/shop.git", GitTransport::Ssh, Some("git.acme.test")),
            ("git@git.acme.test:team/shop.git", GitTransport::Ssh, Some("git.acme.test")),
            ("/srv/git/shop.git", GitTransport::Local, None),
            ("file:///srv/git/shop.git", GitTransport::Local, None),
        ] {
            let url = RemoteUrl::parse(text).expect(text);
            assert_eq!((url.transport(), url.host(), url.as_str()), (transport, host, text));
        }
        let url = RemoteUrl::parse("https://git.acme.test:8443/a/b").expect("a url");
        assert_eq!(url.origin(), Some("https://git.acme.test:8443"));
        assert_eq!(RemoteUrl::parse("file:///srv/x").expect("a url").local_path(), Some("/srv/x"));
    }

    #[test]
    fn remote_url_rejects_options_programs_and_passwords() {
        for bad in [
            "",
            "shop",
            "./shop",
            "../shop",
            "-oProxyCommand=x",
            "--upload-pack=touch /tmp/x",
            "ext::sh -c touch% /tmp/x",
            "ext::sh",
            "fd::17",
            "git://host/x",
            "ftp://host/x",
            "https://host",
            "https://user:pass@host/x",
            "https://token@host/x",
            "https://host/x?token=1",
            "https://host/x#a",
            "https://-host/x",
            "https://host:0/x",
            "https://host:99999/x",
            "https://host/../x",
            "ssh://-oProxyCommand=x/y",
            "ssh://git:pw@host/x",
            "git@-oProxyCommand=x:y",
            "-git@host:y",
            "git@host:-y",
            "git@host:",
            "host::x",
            "/srv/../etc",
            "file://host/x",
            "/srv/a b",
            "/srv/a\nb",
            "https://host/a'b",
            "https://host/$(x)",
            &format!("https://host/{}", "a".repeat(URL_BYTES_MAX)),
        ] {
            assert!(RemoteUrl::parse(bad).is_err(), "{bad:?} was accepted");
        }
    }

    #[test]
    fn next_sync_at_doubles_wait_up_to_an_hour() {
        let now = Timestamp::from_micros(0);
        let repository = |poll_seconds| Repository {
            id: RepositoryId::from_parts(now, [0; 10]),
            url: RemoteUrl::parse("/srv/x").expect("a url"),
            credential: None,
            poll_seconds,
            is_partial: false,
            seen: RepositorySyncState::default(),
            version: 1,
            created_at: now,
            updated_at: now,
            deleted_at: None,
        };
        let wait = |poll, failures| repository(poll).next_sync_at(failures, now).seconds_since(now);
        assert_eq!([wait(60, 0), wait(60, 1), wait(60, 2), wait(60, 9)], [60, 120, 240, 3_600]);
        assert_eq!([wait(86_400, 0), wait(86_400, 5)], [86_400, 86_400]);
    }
}
