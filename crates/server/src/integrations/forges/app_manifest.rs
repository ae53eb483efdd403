//! Creation of GitHub Apps from a manifest. The browser posts the manifest to the forge, which redirects it back with a
//! code; the server exchanges the code for the app's private key and webhook secret.

use berth_core::forge::ForgeKind;
use berth_core::id::HookId;
use berth_core::repository::{GitTransport, RemoteUrl};
use berth_engine::credential::RedactedString;
use berth_engine::egress::{EgressClient, EgressRequest};
use berth_engine::forge_app::is_app_key;
use http::Method;
use serde_json::{Value, json};

use super::location::percent_encode;
use super::{ForgeHost, ForgeRepository};

/// GitHub's limit for names of apps.
const NAME_CHARS_MAX: usize = 34;
/// Characters of the name that make it unique.
const SUFFIX_CHARS: usize = 6;
/// Maximum length of a name or slug that the forge returns.
const RETURNED_NAME_CHARS_MAX: usize = 200;
const SECRET_BYTES_MAX: usize = 1_024;
const ANSWER_BYTES_MAX: u64 = 256 * 1024;

/// Where the app of a repository is created.
pub(crate) struct AppForge {
    /// Scheme, host and port of the forge.
    pub(crate) origin: String,
    /// Base URL of the forge's API.
    pub(crate) api: String,
    /// The repository's path on the forge.
    pub(crate) path: String,
}

impl AppForge {
    /// Returns the forge of a repository. The error says why the repository cannot be connected through an app.
    pub(crate) fn locate(url: &RemoteUrl, known: &[ForgeHost]) -> Result<Self, &'static str> {
        let located = ForgeRepository::locate(url, known);
        let (_, at) = located
            .filter(|(forge, _)| forge.kind() == ForgeKind::GitHub)
            .ok_or("only repositories on GitHub are connected through an app; connect it with a webhook")?;
        let origin = match url.transport() {
            GitTransport::Https | GitTransport::Http => url.origin(),
            GitTransport::Ssh | GitTransport::Local => None,
        };
        // The app's access tokens work only over HTTP.
        let origin = origin.ok_or("an app needs the https URL of the repository; change it and try again")?;
        Ok(Self { origin: origin.to_ascii_lowercase(), api: at.api, path: at.path })
    }

    /// Returns the URL to which the browser posts the manifest. The owner of the repository owns the app.
    pub(crate) fn form_url(&self, is_personal: bool) -> String {
        let owner = self.path.split('/').next().unwrap_or_default();
        if is_personal {
            format!("{}/settings/apps/new", self.origin)
        } else {
            format!("{}/organizations/{}/settings/apps/new", self.origin, percent_encode(owner))
        }
    }
}

/// Builds the manifest of an organization's app.
pub(crate) fn app_manifest(base_url: &str, org_slug: &str, hook: HookId) -> Value {
    let hook_id = hook.to_string();
    let suffix = &hook_id[hook_id.len() - SUFFIX_CHARS..];
    let room = NAME_CHARS_MAX - "Berth  ".len() - SUFFIX_CHARS;
    let slug: String = org_slug.chars().take(room).collect();
    let page = format!("{base_url}/o/{org_slug}/github-app");
    json!({
        "name": format!("Berth {slug} {suffix}"),
        "url": base_url,
        "description": "Deploys the repositories of this account with Berth",
        "public": false,
        "hook_attributes": {"url": format!("{base_url}/hooks/{}/{hook_id}", ForgeKind::GitHub), "active": true},
        "redirect_url": page,
        "setup_url": page,
        "setup_on_update": true,
        "default_permissions": {
            "checks": "write",
            "contents": "write",
            "deployments": "write",
            "metadata": "read",
            "pull_requests": "write",
            "statuses": "write",
        },
        // The forge always sends the events of the installation, too.
        "default_events": ["push", "pull_request", "issue_comment"],
    })
}

/// An app that the forge created.
pub(crate) struct ConvertedApp {
    pub(crate) forge_app: String,
    pub(crate) slug: String,
    pub(crate) name: String,
    pub(crate) private_key: RedactedString,
    pub(crate) hook_secret: RedactedString,
}

/// Exchanges the code for the app that the forge created. Blocks. The error is shown to users.
pub(crate) fn convert_manifest(egress: &EgressClient, api: &str, code: &str) -> Result<ConvertedApp, String> {
    let url = format!("{api}/app-manifests/{}/conversions", percent_encode(code));
    let headers = vec![("accept", "application/vnd.github+json".to_owned())];
    // A POST without a body needs a length.
    let body = Some(String::new());
    let ask = EgressRequest { method: Method::POST, url, headers, body, answer_bytes_max: ANSWER_BYTES_MAX };
    let answered = egress.send(&ask);
    let answered = answered.map_err(|failed| format!("the forge could not be reached: {}", failed.why))?;
    match answered.status {
        201 => {}
        404 | 422 => return Err("the forge does not accept the code; it works once, for an hour".to_owned()),
        status => return Err(format!("the forge responded with {status}")),
    }
    let made: Value = serde_json::from_slice(&answered.body).unwrap_or_default();
    parse_app(&made).ok_or_else(|| "the forge's response cannot be parsed".to_owned())
}

fn parse_app(made: &Value) -> Option<ConvertedApp> {
    let text = |name: &str| made[name].as_str().map(str::to_owned);
    let id = made["id"].as_i64().filter(|id| *id > 0)?;
    let is_slug = |slug: &String| {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        (1..=RETURNED_NAME_CHARS_MAX).contains(&slug.len()) && slug.bytes().all(is_plain)
    };
    let slug = text("slug").filter(is_slug)?;
    let name: String =
        text("name")?.chars().filter(|c| !c.is_control()).take(RETURNED_NAME_CHARS_MAX).collect();
    let private_key = text("pem").map(RedactedString::new).filter(is_app_key)?;
    let hook_secret = text("webhook_secret")
        .filter(|secret| (1..=SECRET_BYTES_MAX).contains(&secret.len()))
        .map(RedactedString::new)?;
    let name = if name.trim().is_empty() { slug.clone() } else { name };
    Some(ConvertedApp { forge_app: id.to_string(), slug, name, private_key, hook_secret })
}
