//! Settings for logging in: passwords and OpenID Connect identity providers.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use berth_core::name::{DisplayName, Slug};
use berth_engine::credential::RedactedString;
use berth_server::integrations::oidc::{GroupMapping, PasswordLogin, ProviderConfig, ProvisionRule};
use serde::Deserialize;

/// Scopes that are requested if the configuration names none.
const SCOPES: [&str; 3] = ["openid", "profile", "email"];
/// Maximum size of a client secret file.
const SECRET_BYTES_MAX: usize = 4_096;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct AuthSettings {
    password_login: PasswordLoginSetting,
    oidc: Vec<OidcSettings>,
}

/// Who may log in with a password.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum PasswordLoginSetting {
    #[default]
    Everyone,
    Owners,
}

/// An OpenID Connect identity provider.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct OidcSettings {
    name: String,
    /// Name on the login page [default: the name].
    label: Option<String>,
    issuer: String,
    client_id: String,
    /// File with the client secret. Not needed for a public client.
    client_secret_file: Option<PathBuf>,
    scopes: Option<Vec<String>>,
    groups_claim: Option<String>,
    #[serde(default)]
    provision: ProvisionSetting,
    /// Maps groups to `team:<slug>` or `role:<role>`.
    #[serde(default)]
    groups: BTreeMap<String, String>,
    /// Slug of the organization that new accounts join.
    organization: String,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ProvisionSetting {
    #[default]
    Never,
    MatchingGroups,
    Always,
}

impl AuthSettings {
    pub(crate) fn password_login(&self) -> PasswordLogin {
        match self.password_login {
            PasswordLoginSetting::Everyone => PasswordLogin::Everyone,
            PasswordLoginSetting::Owners => PasswordLogin::Owners,
        }
    }

    /// Returns the files with client secrets, which steps must not read.
    pub(crate) fn secret_files(&self) -> impl Iterator<Item = &Path> {
        self.oidc.iter().filter_map(|it| it.client_secret_file.as_deref())
    }

    /// Checks the settings of the providers and reads their client secrets.
    pub(crate) fn load_providers(&self) -> anyhow::Result<Vec<ProviderConfig>> {
        let mut all: Vec<ProviderConfig> = Vec::new();
        for settings in &self.oidc {
            let provider = settings.load().with_context(|| format!("auth.oidc {:?}", settings.name))?;
            let is_twice = all.iter().any(|it| it.name == provider.name);
            anyhow::ensure!(!is_twice, "auth.oidc {:?} is configured twice; rename one", settings.name);
            let is_shared = all.iter().any(|it| it.issuer == provider.issuer);
            anyhow::ensure!(
                !is_shared,
                "auth.oidc {:?}: another provider has the same issuer",
                settings.name
            );
            all.push(provider);
        }
        Ok(all)
    }
}

impl OidcSettings {
    fn load(&self) -> anyhow::Result<ProviderConfig> {
        let slug = |name: &str, text: &str| Slug::parse(text).map_err(|why| anyhow::anyhow!("{name} {why}"));
        let name = slug("name", &self.name)?;
        let label = self.label.as_deref().unwrap_or(&self.name);
        let label = DisplayName::parse(label).map_err(|why| anyhow::anyhow!("label {why}"))?;
        let groups = self.groups.iter().map(|(group, mapping)| {
            let mapping: GroupMapping = mapping.parse().with_context(|| format!("groups {group:?}"))?;
            Ok((group.clone(), mapping))
        });
        let provider = ProviderConfig {
            name,
            label: label.to_string(),
            issuer: self.issuer.clone(),
            client_id: self.client_id.clone(),
            client_secret: self.client_secret_file.as_ref().map(read_secret).transpose()?,
            scopes: self.scopes.clone().unwrap_or_else(|| SCOPES.map(str::to_owned).to_vec()),
            groups_claim: self.groups_claim.clone(),
            provision: match self.provision {
                ProvisionSetting::Never => ProvisionRule::Never,
                ProvisionSetting::MatchingGroups => ProvisionRule::MatchingGroups,
                ProvisionSetting::Always => ProvisionRule::Always,
            },
            groups: groups.collect::<anyhow::Result<_>>()?,
            organization: slug("organization", &self.organization)?,
        };
        provider.check().map_err(anyhow::Error::msg)?;
        Ok(provider)
    }
}

fn read_secret(path: &PathBuf) -> anyhow::Result<RedactedString> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read client_secret_file {}", path.display()))?;
    let secret = text.trim();
    anyhow::ensure!(
        !secret.is_empty() && secret.len() <= SECRET_BYTES_MAX,
        "client_secret_file {} must contain a secret of at most {SECRET_BYTES_MAX} bytes",
        path.display()
    );
    Ok(RedactedString::new(secret.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::AuthSettings;

    fn load(text: &str) -> Result<usize, String> {
        let settings: AuthSettings = toml::from_str(text).map_err(|error| error.to_string())?;
        settings.load_providers().map(|all| all.len()).map_err(|error| format!("{error:#}"))
    }

    const PROVIDER: &str = "[[oidc]]\nname = \"corp\"\nissuer = \"https://login.acme.test\"\n\
                            client_id = \"berth\"\norganization = \"acme\"\n";

    #[test]
    fn provider_settings_are_checked() {
        assert_eq!(load(PROVIDER), Ok(1));
        let groups = "groups_claim = \"groups\"\ngroups = { sre = \"team:sre\", admins = \"role:admin\" }\n";
        assert_eq!(load(&format!("{PROVIDER}provision = \"matching_groups\"\n{groups}")), Ok(1));
        for (added, wanted) in [
            ("groups = { sre = \"sre\" }\n", "must be team:<slug> or role:<role>"),
            ("groups = { sre = \"team:sre\" }\n", "groups need groups_claim"),
            ("groups_claim = \"g\"\ngroups = { a = \"role:owner\" }\n", "owners are appointed by hand"),
            ("provision = \"matching_groups\"\n", "needs groups"),
            ("client_secret_file = \"/nowhere/at/all\"\n", "cannot read client_secret_file"),
            ("secret = \"x\"\n", "unknown field"),
            (PROVIDER, "configured twice"),
            (&PROVIDER.replace("corp", "other"), "another provider has the same issuer"),
        ] {
            let error = load(&format!("{PROVIDER}{added}")).unwrap_err();
            assert!(error.contains(wanted), "{added}: {error}");
        }
        let other = PROVIDER.replace("corp", "other").replace("login.", "sso.");
        assert_eq!(load(&format!("{PROVIDER}{other}")), Ok(2));
        let wrong = PROVIDER.replace("https://login.acme.test", "login.acme.test");
        assert!(load(&wrong).unwrap_err().contains("issuer must be a URL"));
        assert!(load(&PROVIDER.replace("corp", "manual")).unwrap_err().contains("reserved"));
    }
}
