//! Server, organization and token: from flags, then environment variables, then the saved login.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use super::{ApiClient, ClientError};
use crate::output::{CommandOutput, JsonArgs};

/// Flags of every command that calls a server.
#[derive(Debug, clap::Args)]
pub(crate) struct RemoteArgs {
    /// Server URL [default: the one you logged in to]
    #[arg(long, global = true, env = "BERTH_SERVER", value_name = "URL", help_heading = "Server")]
    server: Option<String>,
    /// Organization slug [default: the token's organization]
    #[arg(long, global = true, env = "BERTH_ORG", value_name = "SLUG", help_heading = "Server")]
    org: Option<String>,
    #[command(flatten)]
    pub(crate) json: JsonArgs,
}

/// A server, an organization and a token; saved by `berth login`.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct ServerLogin {
    pub(crate) server: String,
    pub(crate) organization: String,
    pub(crate) token: String,
    /// Id of the token if `berth login` created it; `berth logout` revokes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) token_id: Option<String>,
}

impl RemoteArgs {
    /// Reads --server and --org from a command line that may be incomplete.
    pub(crate) fn from_words(words: impl Iterator<Item = String>) -> Self {
        let words: Vec<String> = words.collect();
        let value = |name: &str| {
            let separate = words.iter().position(|word| word == name).and_then(|at| words.get(at + 1));
            let joined = words.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
            let variable = |name: &str| std::env::var(name).ok().filter(|it| !it.is_empty());
            let given = separate.map(String::as_str).or(joined).map(str::to_owned);
            given.or_else(|| variable(if name == "--org" { "BERTH_ORG" } else { "BERTH_SERVER" }))
        };
        Self { server: value("--server"), org: value("--org"), json: JsonArgs::default() }
    }

    pub(crate) fn output(&self) -> CommandOutput {
        self.json.output()
    }

    pub(crate) fn client(&self) -> anyhow::Result<ApiClient> {
        let kept = ServerLogin::load()?;
        let token = std::env::var("BERTH_TOKEN").ok().filter(|it| !it.is_empty());
        let server = self.server.clone().or_else(|| kept.as_ref().map(|it| it.server.clone()));
        let server = normalize_url(&server.ok_or(ClientError::NotLoggedIn)?);
        let is_kept = kept.as_ref().is_some_and(|it| it.server == server);
        // A saved token is sent only to the server it was saved for.
        let (token, is_own) = match (token, &kept) {
            (Some(token), _) => (token, false),
            (None, Some(kept)) if is_kept => (kept.token.clone(), true),
            _ => return Err(ClientError::NoToken(server).into()),
        };
        let organization = match (&self.org, kept) {
            (Some(org), _) => org.clone(),
            (None, Some(kept)) if is_own => kept.organization,
            _ => return ServerLogin::from_token(&server, token).map(ApiClient::new),
        };
        Ok(ApiClient::new(ServerLogin { server, organization, token, token_id: None }))
    }
}

impl ServerLogin {
    /// A login with which only open routes can be called.
    pub(crate) fn without_token(server: &str) -> Self {
        Self {
            server: normalize_url(server),
            organization: String::new(),
            token: String::new(),
            token_id: None,
        }
    }

    /// Looks up the token's organization on the server.
    pub(crate) fn from_token(server: &str, token: String) -> anyhow::Result<Self> {
        let asked = Self { token, ..Self::without_token(server) };
        let asking = ApiClient::new(asked.clone());
        let me: berth_api::auth::CurrentUser = asking.get("/api/v1/me")?.data;
        let organization =
            me.organizations.first().context("the token belongs to no organization")?.slug.clone();
        Ok(Self { organization, ..asked })
    }

    pub(crate) fn load() -> anyhow::Result<Option<Self>> {
        let path = login_path()?;
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
        };
        let login = serde_json::from_str(&text)
            .with_context(|| format!("{} is invalid; run `berth login` again", path.display()))?;
        Ok(Some(login))
    }

    /// Saves the login in a file with mode 0600 and returns its path.
    pub(crate) fn save(&self) -> anyhow::Result<PathBuf> {
        let path = login_path()?;
        let shown = path.display().to_string();
        let dir = path.parent().context("the login file has no parent directory")?;
        std::fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
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

    /// Deletes the saved login; returns whether there was one.
    pub(crate) fn delete() -> anyhow::Result<bool> {
        match std::fs::remove_file(login_path()?) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error).context("cannot delete the saved login"),
        }
    }
}

fn login_path() -> anyhow::Result<PathBuf> {
    let dir = |name: &str| std::env::var_os(name).filter(|it| !it.is_empty()).map(PathBuf::from);
    let config = dir("XDG_CONFIG_HOME").or_else(|| dir("HOME").map(|home| home.join(".config")));
    Ok(config.context("neither XDG_CONFIG_HOME nor HOME is set")?.join("berth/login.json"))
}

/// Strips a trailing slash and adds a missing scheme: `http` for localhost, `https` for other hosts.
fn normalize_url(server: &str) -> String {
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
    use super::normalize_url;

    #[test]
    fn server_url_without_scheme_gets_one() {
        for (given, wanted) in [
            ("localhost:8080", "http://localhost:8080"),
            ("127.0.0.1:8080/", "http://127.0.0.1:8080"),
            ("berth.acme.test", "https://berth.acme.test"),
            ("http://berth.acme.test/", "http://berth.acme.test"),
        ] {
            assert_eq!(normalize_url(given), wanted);
        }
    }
}
