//! Prints URLs, logins and example commands once the demo has started.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use berth_core::pipeline::state::Pipeline;
use berth_engine::credential::RedactedString;
use serde_json::{Value, json};
use ureq::Agent;

use super::organizations::DemoOrganization;
use super::sites::{DemoSites, SITE_NAMES};

const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) struct DemoFacts {
    /// Base URL for API clients.
    pub(super) base: String,
    /// Base URL for browsers.
    pub(super) dashboard: String,
    pub(super) organizations: Vec<DemoOrganization>,
    /// `None` with --bare.
    pub(super) sites: Option<DemoSites>,
    /// The default address, if it was occupied and the server listens on another one.
    pub(super) moved: Option<SocketAddr>,
}

/// Formats the announcement for `--json`. `found` contains those pipelines of the first organization that were created
/// after the server started.
pub(super) fn to_json(facts: &DemoFacts, found: &[Value]) -> Value {
    let pipeline = |pipeline: &Pipeline| {
        json!({
            "id": pipeline.id.to_string(),
            "slug": pipeline.slug.as_str(),
            "environments": pipeline.outline.environments,
        })
    };
    let mut organizations: Vec<Value> = Vec::new();
    for (index, demo) in facts.organizations.iter().enumerate() {
        let created = &demo.created;
        let found = found.iter().filter(|_| index == 0).cloned();
        organizations.push(json!({
            "id": created.org.id.to_string(),
            "slug": created.org.slug.as_str(),
            "email": created.user.email.as_str(),
            "password": created.password.as_ref().map(RedactedString::reveal),
            "apiToken": created.token.reveal(),
            "pipelines": demo.pipelines.iter().map(pipeline).chain(found).collect::<Vec<_>>(),
        }));
    }
    let mut told = json!({
        "baseUrl": format!("{}/api/v1", facts.base),
        "dashboardUrl": facts.dashboard,
        "organizations": organizations,
    });
    if let Some(sites) = &facts.sites {
        let places =
            SITE_NAMES.iter().zip(&sites.addresses).map(|(place, url)| ((*place).to_owned(), json!(url)));
        told["sites"] = Value::Object(places.collect());
        told["signInUrl"] = json!(sites.login_link());
        told["storyUrl"] = json!(sites.progress_url());
    }
    told
}

pub(super) fn to_text(facts: &DemoFacts) -> String {
    let Some(DemoOrganization { created, .. }) = facts.organizations.first() else { return String::new() };
    let (base, org, token) = (&facts.base, &created.org.slug, created.token.reveal());
    let password = created.password.as_ref().map_or("", RedactedString::reveal);
    let mut text = format!("Berth demo at {}\n", facts.dashboard);
    if let Some(wanted) = facts.moved {
        let _ = writeln!(text, "({wanted} is in use)");
    }
    text.push('\n');
    if let Some(sites) = &facts.sites {
        let _ = writeln!(text, "Log in    {}  (one-time link)", sites.login_link());
    }
    let _ = writeln!(text, "Login     {}  {password}\nToken     {token}", created.user.email);
    if let Some(sites) = &facts.sites {
        for (place, url) in SITE_NAMES.iter().zip(&sites.addresses) {
            let _ = writeln!(text, "Site      {url}  {place}");
        }
    }
    let program = std::env::current_exe().map(|it| it.display().to_string()).unwrap_or_default();
    let curl = format!("curl -H \"Authorization: Bearer $BERTH_TOKEN\" $BASE/organizations/{org}");
    let _ = write!(
        text,
        "\nIn another terminal:\n  \
         BASE={base}/api/v1\n  \
         export BERTH_SERVER={base} BERTH_TOKEN={token}\n  \
         alias berth='{program}'\n\n  \
         berth env list\n  \
         {}\n  \
         {curl}/approvals\n\n\
         Press Ctrl-C to stop the demo and remove its data.",
        if facts.sites.is_some() {
            "berth env claim qa-2 --commit feature/dark --why \"the shop at night\""
        } else {
            "berth env claim play-1 --commit 9fceb02 --why \"a first look\""
        },
    );
    text
}

pub(super) fn is_healthy(base: &str) -> bool {
    http_agent().get(format!("{base}/healthz")).call().is_ok_and(|answer| answer.status().is_success())
}

/// Logs in and returns the session cookie, or an error message.
pub(super) fn log_in(base: &str, email: &str, password: &str) -> Result<String, String> {
    let body = json!({ "email": email, "password": password }).to_string();
    let request =
        http_agent().post(format!("{base}/api/v1/auth/login")).header("content-type", "application/json");
    let answer = request.send(body).map_err(|error| format!("{error}."))?;
    let cookie = answer.headers().get("set-cookie").and_then(|it| it.to_str().ok()).map(str::to_owned);
    cookie.ok_or_else(|| format!("the server returned {}.", answer.status()))
}

fn http_agent() -> Agent {
    let config = Agent::config_builder()
        .proxy(None)
        .timeout_global(Some(RESPONSE_TIMEOUT))
        .http_status_as_error(false);
    Agent::new_with_config(config.build())
}
