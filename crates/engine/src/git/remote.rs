//! How a repository is reached: with which transport, and with which credential.
//!
//! A credential travels in the environment of git alone: never on a command line, never in a file of the mirror.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use berth_core::repository::{RemoteUrl, Transport};
use tempfile::TempDir;

use super::mirror::Mirror;
use super::process::Git;
use super::{GitError, host};
use crate::credential::Redacted;

/// The user name that goes with a bare token; every forge takes it.
const TOKEN_USER: &str = "x-access-token";
/// Answers git's question from the environment.
const HELPER: &str = "!f() { test \"$1\" = get && printf 'username=%s\\npassword=%s\\n' \
                      \"$BERTH_GIT_USERNAME\" \"$BERTH_GIT_PASSWORD\"; }; f";
/// Neither the operator's keys nor settings: an organization reaches what its own credential opens. Host keys are
/// those the operator has pinned in `known_hosts`.
const SSH: &str = "ssh -F none -o BatchMode=yes -o StrictHostKeyChecking=yes -o IdentitiesOnly=yes \
                   -o IdentityAgent=none -o ControlMaster=no -o ConnectTimeout=20";

/// The value of a secret as git wants it: a private key, `user:password`, or a token.
#[derive(Debug, Clone)]
pub struct Credential(Redacted);

impl Credential {
    pub fn new(value: Redacted) -> Self {
        Self(value)
    }

    /// What an API takes: the token, or the password. A key is neither.
    pub fn token(&self) -> Option<Redacted> {
        let (_, password) = self.parts();
        (!self.is_key() && !password.is_empty()).then(|| Redacted::new(password.to_owned()))
    }

    fn parts(&self) -> (&str, &str) {
        let value = self.0.reveal().trim();
        value.split_once(':').unwrap_or((TOKEN_USER, value))
    }

    fn is_key(&self) -> bool {
        self.0.reveal().trim_start().starts_with("-----BEGIN ")
    }
}

/// What of the outside a server lets git reach.
#[derive(Debug, Clone)]
pub struct Access {
    /// One person's machine: anything that person can reach.
    pub is_local: bool,
    /// Directories below which local repositories may lie.
    pub roots: Vec<PathBuf>,
    /// Hosts that may be in a private network.
    pub hosts: Vec<String>,
}

impl Access {
    /// Whether a repository may be reached at all. Asked when it is registered, and again before every run.
    pub fn allows(&self, url: &RemoteUrl) -> Result<(), &'static str> {
        match (url.transport(), url.local_path()) {
            (Transport::Local, Some(path)) if !self.is_local => {
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
            (Transport::Http, _) => {
                let is_loopback = url.host().is_some_and(|host| {
                    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
                });
                if self.is_local && is_loopback {
                    Ok(())
                } else {
                    Err("must be https: http can be read and changed on its way")
                }
            }
            (Transport::Https | Transport::Ssh | Transport::Local, _) => Ok(()),
        }
    }

    fn check(&self, url: &RemoteUrl) -> Result<(), GitError> {
        self.allows(url).map_err(|why| GitError::Refused(format!("the url {why}")))?;
        match url.host() {
            Some(host) if !self.is_local && !self.hosts.iter().any(|known| known == host) => {
                host::check_public(host)
            }
            _ => Ok(()),
        }
    }
}

/// Gives a run what it needs to reach `url`. The directory that may come with it must outlive the run.
pub(super) fn reach<'a>(
    mirror: &Mirror,
    git: Git<'a>,
    url: &RemoteUrl,
    credential: Option<&Credential>,
    access: &Access,
) -> Result<(Git<'a>, Option<TempDir>), GitError> {
    access.check(url)?;
    let protocol = match url.transport() {
        Transport::Https => "https",
        Transport::Http => "http",
        Transport::Ssh => "ssh",
        Transport::Local => "file",
    };
    let git = git.env("GIT_ALLOW_PROTOCOL", protocol).env("GIT_SSH_VARIANT", "ssh");
    match (url.transport(), url.origin(), credential) {
        (Transport::Ssh, _, Some(credential)) if credential.is_key() => {
            let (dir, file) = key_file(mirror, credential)?;
            let git = git.env("GIT_SSH_COMMAND", format!("exec {SSH} -i \"$BERTH_GIT_KEY\""));
            Ok((git.env("BERTH_GIT_KEY", file), Some(dir)))
        }
        (Transport::Ssh, _, _) => {
            Ok((git.env("GIT_SSH_COMMAND", format!("exec {SSH} -o IdentityFile=none")), None))
        }
        (Transport::Https | Transport::Http, Some(origin), Some(credential)) => {
            let (user, password) = credential.parts();
            let git = git.arg("-c").arg(format!("credential.{origin}.helper={HELPER}"));
            let git = git.env("BERTH_GIT_USERNAME", user).env("BERTH_GIT_PASSWORD", password).hide(password);
            Ok((git, None))
        }
        _ => Ok((git, None)),
    }
}

fn key_file(mirror: &Mirror, credential: &Credential) -> Result<(TempDir, PathBuf), GitError> {
    let failed = || GitError::io("the key cannot be handed to ssh");
    let dir = mirror.scratch()?;
    let path = dir.path().join("key");
    let mut file =
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).map_err(failed())?;
    let key = credential.0.reveal().trim();
    file.write_all(key.as_bytes()).and_then(|()| file.write_all(b"\n")).map_err(failed())?;
    Ok((dir, path))
}
