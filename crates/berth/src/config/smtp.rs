//! Settings of the SMTP server that emails are sent through.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use berth_engine::credential::RedactedString;
use berth_server::integrations::mail::{MailSender, SmtpConfig, SmtpTls};
use serde::Deserialize;

/// Maximum size of the file with the password.
const PASSWORD_BYTES_MAX: usize = 4_096;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct SmtpSettings {
    /// `None`: no emails are sent.
    host: Option<String>,
    /// The default depends on `tls`.
    port: Option<u16>,
    tls: SmtpTlsMode,
    username: Option<String>,
    password_file: Option<PathBuf>,
    /// Sender of all emails, such as `Berth <berth@acme.test>`.
    from: Option<String>,
    /// Whether emails contain links with which their recipients can act.
    action_links: bool,
}

impl Default for SmtpSettings {
    fn default() -> Self {
        Self {
            host: None,
            port: None,
            tls: SmtpTlsMode::Starttls,
            username: None,
            password_file: None,
            from: None,
            action_links: true,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SmtpTlsMode {
    Implicit,
    Starttls,
    None,
}

impl SmtpSettings {
    /// Returns the file with the password, which steps must not read.
    pub(crate) fn secret_file(&self) -> Option<&Path> {
        self.password_file.as_deref()
    }

    /// Returns the configured server. `None` if none is configured.
    pub(crate) fn load(&self) -> anyhow::Result<Option<SmtpConfig>> {
        let Some(host) = self.host.clone().filter(|host| !host.is_empty()) else { return Ok(None) };
        let from = self.from.as_deref().context("smtp.from is missing; set it to the sender of emails")?;
        let from: MailSender = from.parse().map_err(|why| anyhow::anyhow!("smtp.from {why}"))?;
        let (tls, usual_port) = match self.tls {
            SmtpTlsMode::Implicit => (SmtpTls::Implicit, 465),
            SmtpTlsMode::Starttls => (SmtpTls::Starttls, 587),
            SmtpTlsMode::None => (SmtpTls::None, 25),
        };
        let login = match (&self.username, &self.password_file) {
            (Some(name), Some(file)) => Some((name.clone(), read_password(file)?)),
            (None, None) => None,
            _ => anyhow::bail!("set both smtp.username and smtp.password_file, or neither"),
        };
        anyhow::ensure!(
            login.is_none() || tls != SmtpTls::None,
            "smtp.tls is none, which would send smtp.username and its password unencrypted; use starttls or implicit"
        );
        let (port, action_links) = (self.port.unwrap_or(usual_port), self.action_links);
        Ok(Some(SmtpConfig { host, port, tls, login, from, action_links }))
    }
}

fn read_password(path: &Path) -> anyhow::Result<RedactedString> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read smtp.password_file {}", path.display()))?;
    let password = text.trim_end_matches(['\r', '\n']);
    anyhow::ensure!(
        (1..=PASSWORD_BYTES_MAX).contains(&password.len()),
        "smtp.password_file {} must contain a password of at most {PASSWORD_BYTES_MAX} bytes",
        path.display()
    );
    Ok(RedactedString::new(password.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(text: &str) -> Result<Option<SmtpConfig>, String> {
        let settings: SmtpSettings = toml::from_str(text).map_err(|error| error.to_string())?;
        settings.load().map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn smtp_settings_have_safe_defaults() {
        assert!(load("").unwrap().is_none());
        let found = load("host = \"mail.acme.test\"\nfrom = \"berth@acme.test\"").unwrap().unwrap();
        assert_eq!((found.port, found.tls, found.action_links), (587, SmtpTls::Starttls, true));
        let found = load("host = \"m\"\nfrom = \"b@acme.test\"\ntls = \"implicit\"").unwrap().unwrap();
        assert_eq!(found.port, 465);
    }

    #[test]
    fn incomplete_smtp_settings_are_refused() {
        for (text, wanted) in [
            ("host = \"m\"", "smtp.from is missing"),
            ("host = \"m\"\nfrom = \"nobody\"", "smtp.from must be an address"),
            ("host = \"m\"\nfrom = \"b@acme.test\"\nusername = \"x\"", "set both"),
            ("host = \"m\"\nfrom = \"b@acme.test\"\ntls = \"maybe\"", "unknown variant"),
            ("hosts = \"m\"", "unknown field"),
        ] {
            let refused = load(text).unwrap_err();
            assert!(refused.contains(wanted), "{text}: {refused}");
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "hunter2\n").unwrap();
        let login = format!("username = \"b\"\npassword_file = {:?}", file.path());
        let text = format!("host = \"m\"\nfrom = \"b@acme.test\"\ntls = \"none\"\n{login}");
        assert!(load(&text).unwrap_err().contains("unencrypted"));
        let text = format!("host = \"m\"\nfrom = \"b@acme.test\"\n{login}");
        assert_eq!(load(&text).unwrap().unwrap().login.unwrap().1.reveal(), "hunter2");
    }
}
