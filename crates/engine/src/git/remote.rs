//! Transport and credentials for remote repositories.
//!
//! Credentials are only passed to git in its environment, never on a command line or in a file of the mirror. A private
//! key is written to a temporary file, which is deleted when git has exited.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use berth_core::repository::{GitTransport, RemoteUrl};
use tempfile::TempDir;

use super::mirror::GitMirror;
use super::process::GitCommand;
use super::{GitError, host};
use crate::credential::RedactedString;

/// User name for a credential that consists only of a token. All forges accept it.
const TOKEN_USER: &str = "x-access-token";
/// A git credential helper that returns the credential from environment variables.
const HELPER: &str = "!f() { test \"$1\" = get && printf 'username=%s\\npassword=%s\\n' \
                      \"$BERTH_GIT_USERNAME\" \"$BERTH_GIT_PASSWORD\"; }; f";
/// SSH command that ignores the operator's keys and SSH configuration, so that an organization can only access
/// repositories with its own credential. Host keys must be pinned in the operator's `known_hosts`.
const SSH: &str = "ssh -F none -o BatchMode=yes -o StrictHostKeyChecking=yes -o IdentitiesOnly=yes \
                   -o IdentityAgent=none -o ControlMaster=no -o ConnectTimeout=20";

/// A secret value used as a git credential: a private key, `user:password`, or a token.
#[derive(Debug, Clone)]
pub struct GitCredential(RedactedString);

impl GitCredential {
    pub fn new(value: RedactedString) -> Self {
        Self(value)
    }

    /// Returns the token or password, for calls to the forge's API. Returns `None` for a private key.
    pub fn token(&self) -> Option<RedactedString> {
        let (_, password) = self.parts();
        (!self.is_key() && !password.is_empty()).then(|| RedactedString::new(password.to_owned()))
    }

    fn parts(&self) -> (&str, &str) {
        let value = self.0.reveal().trim();
        value.split_once(':').unwrap_or((TOKEN_USER, value))
    }

    fn is_key(&self) -> bool {
        self.0.reveal().trim_start().starts_with("-----BEGIN ")
    }
}

/// The repositories that the server may access.
#[derive(Debug, Clone)]
pub struct RepositoryAccess {
    /// The server runs on a user's own machine, and may access everything that the user can access.
    pub is_local: bool,
    /// Directories that may contain local repositories.
    pub roots: Vec<PathBuf>,
    /// Hosts that are allowed even if they are in a private network.
    pub hosts: Vec<String>,
}

impl RepositoryAccess {
    /// Checks whether the server may access a URL. Called when a repository is registered and again before every git
    /// process.
    pub fn allows(&self, url: &RemoteUrl) -> Result<(), &'static str> {
        match (url.transport(), url.local_path()) {
            (GitTransport::Local, Some(path)) if !self.is_local => {
                let path = std::fs::canonicalize(path);
                let real = |root: &PathBuf| std::fs::canonicalize(root).ok();
                let is_below = path
                    .is_ok_and(|path| self.roots.iter().filter_map(real).any(|root| path.starts_with(root)));
                if is_below {
                    Ok(())
                } else {
                    Err("is not below a directory the server's operator allows (--repository-root)")
                }
            }
            (GitTransport::Http, _) => {
                let is_loopback = url.host().is_some_and(|host| {
                    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
                });
                if self.is_local && is_loopback {
                    Ok(())
                } else {
                    Err("must use https; plain http can be read and modified in transit")
                }
            }
            (GitTransport::Https | GitTransport::Ssh | GitTransport::Local, _) => Ok(()),
        }
    }

    /// Whether the operator trusts the server of this URL: every server with `--local`, otherwise only listed ones.
    pub(super) fn is_listed(&self, url: &RemoteUrl) -> bool {
        self.is_local || url.host().is_some_and(|host| self.hosts.iter().any(|known| known == host))
    }

    pub(super) fn check(&self, url: &RemoteUrl) -> Result<(), GitError> {
        self.allows(url).map_err(|why| GitError::Refused(format!("the url {why}")))?;
        match url.host() {
            Some(host) if !self.is_local && !self.hosts.iter().any(|known| known == host) => {
                host::check_public(host)
            }
            _ => Ok(()),
        }
    }
}

/// Configures a git process for access to `url`. The returned temporary directory must outlive the process.
pub(super) fn configure_access<'a>(
    mirror: &GitMirror,
    git: GitCommand<'a>,
    url: &RemoteUrl,
    credential: Option<&GitCredential>,
    access: &RepositoryAccess,
) -> Result<(GitCommand<'a>, Option<TempDir>), GitError> {
    access.check(url)?;
    let protocol = match url.transport() {
        GitTransport::Https => "https",
        GitTransport::Http => "http",
        GitTransport::Ssh => "ssh",
        GitTransport::Local => "file",
    };
    let git = git.env("GIT_ALLOW_PROTOCOL", protocol).env("GIT_SSH_VARIANT", "ssh");
    match (url.transport(), url.origin(), credential) {
        (GitTransport::Ssh, _, Some(credential)) if credential.is_key() => {
            let (dir, file) = key_file(mirror, credential)?;
            let git = git.env("GIT_SSH_COMMAND", format!("exec {SSH} -i \"$BERTH_GIT_KEY\""));
            Ok((git.env("BERTH_GIT_KEY", file), Some(dir)))
        }
        (GitTransport::Ssh, _, _) => {
            Ok((git.env("GIT_SSH_COMMAND", format!("exec {SSH} -o IdentityFile=none")), None))
        }
        (GitTransport::Https | GitTransport::Http, Some(origin), Some(credential)) => {
            let (user, password) = credential.parts();
            let git = git.arg("-c").arg(format!("credential.{origin}.helper={HELPER}"));
            let git = git.env("BERTH_GIT_USERNAME", user).env("BERTH_GIT_PASSWORD", password).hide(password);
            Ok((git, None))
        }
        _ => Ok((git, None)),
    }
}

fn key_file(mirror: &GitMirror, credential: &GitCredential) -> Result<(TempDir, PathBuf), GitError> {
    let failed = || GitError::io("the key cannot be handed to ssh");
    let dir = mirror.scratch()?;
    let path = dir.path().join("key");
    let mut file =
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).map_err(failed())?;
    let key = credential.0.reveal().trim();
    file.write_all(key.as_bytes()).and_then(|()| file.write_all(b"\n")).map_err(failed())?;
    Ok((dir, path))
}
