//! Which server, and who asks: flags, then the environment, then what `berth login` kept.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use super::{Client, Failure};
use crate::output::Output;

/// What every command that asks a server takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Remote {
    /// Address of the server [default: as `berth login` was told]
    #[arg(long, global = true, env = "BERTH_SERVER", value_name = "URL", help_heading = "Server")]
    server: Option<String>,
    /// Slug of the organization [default: the token's]
    #[arg(long, global = true, env = "BERTH_ORG", value_name = "SLUG", help_heading = "Server")]
    org: Option<String>,
    /// Print the answer as JSON, for programs
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

/// Kept by `berth login`.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Login {
    pub(crate) server: String,
    pub(crate) organization: String,
    pub(crate) token: String,
}

impl Remote {
    pub(crate) fn output(&self) -> Output {
        Output::new(self.json)
    }

    pub(crate) fn client(&self) -> anyhow::Result<Client> {
        let kept = Login::kept()?;
        let token = std::env::var("BERTH_TOKEN").ok().filter(|it| !it.is_empty());
        let server = self.server.clone().or_else(|| kept.as_ref().map(|it| it.server.clone()));
        let server = normal(&server.ok_or(Failure::NotLoggedIn)?);
        let is_kept = kept.as_ref().is_some_and(|it| it.server == server);
        // What was kept for one server is not sent to another.
        let (token, is_own) = match (token, &kept) {
            (Some(token), _) => (token, false),
            (None, Some(kept)) if is_kept => (kept.token.clone(), true),
            _ => return Err(Failure::NoToken(server).into()),
        };
        let organization = match (&self.org, kept) {
            (Some(org), _) => org.clone(),
            (None, Some(kept)) if is_own => kept.organization,
            _ => return Login::found_out(&server, token).map(Client::new),
        };
        Ok(Client::new(Login { server, organization, token }))
    }
}

impl Login {
    /// Asks the server whose token it is.
    pub(crate) fn found_out(server: &str, token: String) -> anyhow::Result<Self> {
        let server = normal(server);
        let asking =
            Client::new(Self { server: server.clone(), organization: String::new(), token: token.clone() });
        let me: berth_api::auth::Me = asking.get("/api/v1/me")?.data;
        let organization = me.organizations.first().context("this token is of no organization")?.slug.clone();
        Ok(Self { server, organization, token })
    }

    pub(crate) fn kept() -> anyhow::Result<Option<Self>> {
        let path = path()?;
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
        };
        let login = serde_json::from_str(&text)
            .with_context(|| format!("{} is not as `berth login` writes it", path.display()))?;
        Ok(Some(login))
    }

    /// For this account alone to read. Answers where.
    pub(crate) fn keep(&self) -> anyhow::Result<PathBuf> {
        let path = path()?;
        let shown = path.display().to_string();
        let dir = path.parent().context("no directory to keep it in")?;
        std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
        let fresh = path.with_extension("new");
        let write = || -> anyhow::Result<()> {
            std::fs::remove_file(&fresh).ok();
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&fresh)?;
            file.write_all(serde_json::to_string_pretty(self)?.as_bytes())?;
            file.sync_all()?;
            Ok(std::fs::rename(&fresh, &path)?)
        };
        write().with_context(|| format!("cannot write {shown}"))?;
        Ok(path)
    }

    /// Whether there was something to forget.
    pub(crate) fn forget() -> anyhow::Result<bool> {
        match std::fs::remove_file(path()?) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error).context("cannot remove the login"),
        }
    }
}

fn path() -> anyhow::Result<PathBuf> {
    let dir = |name: &str| std::env::var_os(name).filter(|it| !it.is_empty()).map(PathBuf::from);
    let config = dir("XDG_CONFIG_HOME").or_else(|| dir("HOME").map(|home| home.join(".config")));
    Ok(config.context("neither XDG_CONFIG_HOME nor HOME is set")?.join("berth/login.json"))
}

/// Without a slash at its end; http where nothing is said and it is this machine.
fn normal(server: &str) -> String {
    let server = server.trim_end_matches('/');
    if server.contains("://") {
        return server.to_owned();
    }
    let host = server.split([':', '/']).next().unwrap_or_default();
    let is_here = ["localhost", "127.0.0.1"].contains(&host);
    format!("{}://{server}", if is_here { "http" } else { "https" })
}

#[cfg(test)]
mod tests {
    use super::normal;

    #[test]
    fn an_address_is_completed_as_people_mean_it() {
        for (given, wanted) in [
            ("localhost:8080", "http://localhost:8080"),
            ("127.0.0.1:8080/", "http://127.0.0.1:8080"),
            ("berth.acme.test", "https://berth.acme.test"),
            ("http://berth.acme.test/", "http://berth.acme.test"),
        ] {
            assert_eq!(normal(given), wanted);
        }
    }
}
