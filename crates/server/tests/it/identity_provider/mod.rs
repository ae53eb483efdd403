//! Login through an OpenID Connect provider. The provider is a separate program, `provider.mjs`.

mod bad_tokens;
mod groups;
mod linking;
mod login;
mod passwords;
mod refresh;
mod standing;

use std::path::Path;

use berth_core::name::Slug;
use berth_engine::credential::RedactedString;
use berth_server::config::AppConfig;
use berth_server::integrations::oidc::{PasswordLogin, ProviderConfig, ProvisionRule};
use berth_server::jobs::check_providers;
use serde_json::{Value, json};

use super::npm::{NodeServer, package_file};
use super::world::{BrowserSession, TestRequest, TestResponse, TestWorld, get, post};

const LOGIN: &str = "/api/v1/auth/providers/corp/login";
const LINK: &str = "/api/v1/auth/providers/corp/link";

/// A running provider.
pub(crate) struct TestProvider {
    /// The name in the server's configuration.
    name: &'static str,
    server: NodeServer,
    agent: ureq::Agent,
}

/// A login that was sent to the provider: what the browser has to remember.
struct StartedLogin {
    url: String,
    cookie: String,
}

impl TestProvider {
    /// Starts a provider. Returns `None` if its npm package is not installed, after reporting that.
    fn start() -> Option<Self> {
        Self::start_named("corp")
    }

    fn start_named(name: &'static str) -> Option<Self> {
        let library = package_file("oauth2-mock-server/dist/index.mjs")?;
        let npm = library.ancestors().find(|dir| dir.ends_with("node_modules")).and_then(Path::parent)?;
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/identity_provider/provider.mjs");
        let server = NodeServer::start(&program, &[npm.to_str().unwrap(), "PORT"]);
        let config = ureq::Agent::config_builder().max_redirects(0).http_status_as_error(false);
        Some(Self { name, server, agent: config.build().into() })
    }

    fn config(&self) -> ProviderConfig {
        ProviderConfig {
            name: Slug::parse(self.name).unwrap(),
            label: "Acme SSO".into(),
            issuer: self.server.url.clone(),
            client_id: "berth".into(),
            client_secret: Some(RedactedString::new("s3cret".into())),
            scopes: ["openid", "email", "offline_access"].map(str::to_owned).to_vec(),
            groups_claim: Some("groups".into()),
            provision: ProvisionRule::Always,
            groups: [
                ("sre", "team:sre"),
                ("qa", "team:qa"),
                ("admins", "role:admin"),
                ("ops", "role:deployer"),
            ]
            .map(|(group, mapping)| (group.to_owned(), mapping.parse().unwrap()))
            .into(),
            organization: Slug::parse("acme").unwrap(),
        }
    }

    /// A server that uses this provider.
    async fn world(&self, change: impl FnOnce(&mut ProviderConfig)) -> TestWorld {
        self.world_with(change, PasswordLogin::Everyone).await
    }

    async fn world_with(
        &self,
        change: impl FnOnce(&mut ProviderConfig),
        password_login: PasswordLogin,
    ) -> TestWorld {
        let mut provider = self.config();
        change(&mut provider);
        world_of(vec![provider], password_login).await
    }

    /// Changes the provider's behaviour.
    fn set(&self, changes: &Value) {
        let url = format!("{}/control", self.server.url);
        let sent = self.agent.post(&url).send(changes.to_string()).unwrap();
        assert_eq!(sent.status(), 200);
    }

    /// What the provider was asked for.
    fn fetch_requests(&self) -> Value {
        let url = format!("{}/control", self.server.url);
        let text = self.agent.get(&url).call().unwrap().body_mut().read_to_string().unwrap();
        serde_json::from_str(&text).unwrap()
    }

    /// Opens a URL of the provider, as the browser does, and returns the path that it redirects to.
    fn open(&self, url: &str) -> String {
        let answer = self.agent.get(url).call().unwrap();
        assert_eq!(answer.status(), 302, "{url}");
        let to = answer.headers()["location"].to_str().unwrap();
        to.strip_prefix("http://berth.localhost:8080").unwrap().to_owned()
    }

    /// Logs in with the account that the provider is set to, and returns the response to the callback.
    async fn log_in(&self, world: &TestWorld) -> TestResponse {
        let path = format!("/api/v1/auth/providers/{}/login", self.name);
        let started = start_login(world, post(&path).json(&json!({"next": "/acme"}))).await;
        self.finish(world, &started).await
    }

    /// Links the account that the provider is set to, and returns the response to the callback.
    async fn link(&self, world: &TestWorld, browser: &BrowserSession) -> TestResponse {
        let path = format!("/api/v1/auth/providers/{}/link", self.name);
        let started = start_login(world, browser.post(&path).json(&json!({"next": "/profile"}))).await;
        self.finish_in(world, &started, browser).await
    }

    /// Like [`Self::finish`], in a browser that is logged in.
    async fn finish_in(
        &self,
        world: &TestWorld,
        started: &StartedLogin,
        browser: &BrowserSession,
    ) -> TestResponse {
        let path = self.open(&started.url);
        let cookies = format!("{}; {}", started.cookie, browser.cookie);
        world.send(get(&path).header("cookie", &cookies)).await
    }

    async fn finish(&self, world: &TestWorld, started: &StartedLogin) -> TestResponse {
        let path = self.open(&started.url);
        world.send(get(&path).header("cookie", &started.cookie)).await
    }

    /// Logs in and returns the browser.
    async fn browser(&self, world: &TestWorld) -> BrowserSession {
        let reply = self.log_in(world).await;
        assert_eq!(reply.status, 303, "{}", reply.text);
        let cookie = find_cookie(&reply, "berth_local=");
        let me = world.send(get("/api/v1/me").header("cookie", &cookie)).await;
        BrowserSession { csrf: me.body["data"]["csrfToken"].as_str().unwrap().to_owned(), cookie }
    }
}

/// A server that uses these providers.
async fn world_of(providers: Vec<ProviderConfig>, password_login: PasswordLogin) -> TestWorld {
    TestWorld::with_config(AppConfig {
        providers,
        password_login,
        egress_allow: vec!["127.0.0.1".parse().unwrap()],
        ..AppConfig::local(([127, 0, 0, 1], 8080).into())
    })
    .await
}

async fn start_login(world: &TestWorld, request: TestRequest) -> StartedLogin {
    let reply = world.send(request).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    let url = reply.body["data"]["url"].as_str().unwrap().to_owned();
    StartedLogin { url, cookie: find_cookie(&reply, "berth_local-provider=") }
}

fn find_cookie(reply: &TestResponse, prefix: &str) -> String {
    let all = reply.headers.get_all("set-cookie").iter().map(|it| it.to_str().unwrap());
    let found = all.into_iter().find(|it| it.starts_with(prefix)).unwrap_or_else(|| panic!("{}", reply.text));
    found.split(';').next().unwrap().to_owned()
}

/// Creates an API token for the person in the browser.
async fn create_token(world: &TestWorld, browser: &BrowserSession) -> String {
    create_token_in(world, browser, "acme").await
}

async fn create_token_in(world: &TestWorld, browser: &BrowserSession, org: &str) -> String {
    let path = format!("/api/v1/organizations/{org}/api-tokens");
    let create = browser.post(&path).json(&json!({"name": "cli"}));
    let created = world.send(create).await;
    created.body["data"]["token"].as_str().unwrap_or_else(|| panic!("{}", created.text)).to_owned()
}

/// Makes the next check of all accounts due, and runs it.
async fn check_now(world: &TestWorld) {
    world.run_sql("UPDATE provider_identities SET next_check_at = 0");
    check_providers(world.app.jobs()).await.unwrap();
}

/// Moves the last confirmation of all accounts into the past.
fn age_confirmation(world: &TestWorld, seconds: i64) {
    let micros = seconds * 1_000_000;
    world.run_sql(&format!("UPDATE provider_identities SET verified_at = verified_at - {micros}"));
}
