//! GitHub Apps: creation from a manifest, access to repositories, and deliveries, with a double of GitHub.

mod access;
mod deliveries;
mod setup;

use std::time::SystemTime;

use berth_core::time::Timestamp;
use berth_engine::credential::RedactedString;
use berth_server::config::AppConfig;
use berth_server::integrations::forges::hooks::sign_hook_body;
use serde_json::{Value, json};

use super::forge::GitHubAppDouble;
use super::world::{BrowserSession, TestRequest, TestResponse, TestWorld, get, post};

const ORGANIZATION: &str = "/api/v1/organizations/acme";
const REPOSITORY_URL: &str = "https://git.acme.test/acme/shop.git";

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    Timestamp::from_micros(i64::try_from(since.as_micros()).unwrap())
}

/// A server and a double of GitHub, which hosts `git.acme.test`.
struct AppWorld {
    world: TestWorld,
    github: GitHubAppDouble,
    browser: BrowserSession,
}

/// The form that the browser sends to GitHub.
struct SentForm {
    action: String,
    manifest: Value,
    state: String,
}

impl AppWorld {
    async fn new() -> Self {
        Self::at("git.acme.test").await
    }

    async fn at(host: &str) -> Self {
        let github = GitHubAppDouble::start(now);
        // Repositories over plain HTTP need a server that only this machine can reach.
        let is_local = host == "127.0.0.1";
        let config = AppConfig {
            public_url: (!is_local).then(|| "https://berth.acme.test".into()),
            egress_allow: vec!["127.0.0.1".parse().unwrap()],
            forges: vec![format!("{host}=github={}", github.forge.url).parse().unwrap()],
            ..AppConfig::local(([127, 0, 0, 1], 8080).into())
        };
        let world = TestWorld::with_config(config).await;
        let browser = world.log_in(&world.ada.email, &world.ada.password).await;
        Self { world, github, browser }
    }

    async fn add_repository(&self, url: &str) -> String {
        let request = post(&format!("{ORGANIZATION}/repositories")).with_account(&self.world.ada);
        let made = self.world.send(request.json(&json!({"url": url}))).await;
        assert_eq!(made.status, 201, "{}", made.text);
        made.body["data"]["id"].as_str().unwrap().to_owned()
    }

    async fn connect(&self, repository: &str, body: &Value) -> TestResponse {
        let path = format!("{ORGANIZATION}/repositories/{repository}/connection/app");
        self.world.send(self.browser.post(&path).json(body)).await
    }

    /// Starts to create an app, and opens the page with the form.
    async fn open_form(&self, repository: &str) -> SentForm {
        let asked = self.connect(repository, &json!({})).await;
        assert_eq!(asked.body["data"]["status"], "appRequired", "{}", asked.text);
        let url = asked.body["data"]["url"].as_str().unwrap().to_owned();
        let page = self.world.send(self.browser.get(path_of(&url))).await;
        assert_eq!(page.status, 200, "{}", page.text);
        let policy = page.header("content-security-policy");
        assert!(policy.contains("form-action 'self' http"), "{policy}");
        let attribute = |name: &str| {
            let begin = page.text.find(&format!("{name}=\"")).unwrap() + name.len() + 2;
            let text = page.text[begin..].split('"').next().unwrap();
            text.replace("&quot;", "\"").replace("&#39;", "'").replace("&lt;", "<").replace("&amp;", "&")
        };
        let (action, manifest) =
            (attribute("form method=\"post\" action"), attribute("name=\"manifest\" value"));
        let state = action.split_once("?state=").unwrap().1.to_owned();
        SentForm { action, manifest: serde_json::from_str(&manifest).unwrap(), state }
    }

    async fn finish(&self, browser: &BrowserSession, state: &str, code: &str) -> TestResponse {
        let request = browser.post(&format!("{ORGANIZATION}/forge-apps"));
        self.world.send(request.json(&json!({"state": state, "code": code}))).await
    }

    /// Creates an app for this repository.
    async fn create_app(&self, repository: &str) -> Value {
        let form = self.open_form(repository).await;
        let code = self.github.create_app(form.manifest);
        let made = self.finish(&self.browser, &form.state, &code).await;
        assert_eq!(made.status, 201, "{}", made.text);
        made.body["data"].clone()
    }

    /// Adds a repository, creates an app, installs it and connects the repository. Returns the repository's id.
    async fn connect_repository(&self) -> String {
        let repository = self.add_repository(REPOSITORY_URL).await;
        self.create_app(&repository).await;
        self.github.install("acme/shop");
        let connected = self.connect(&repository, &json!({})).await;
        assert_eq!(connected.body["data"]["status"], "connected", "{}", connected.text);
        repository
    }

    async fn view(&self, path: &str) -> Value {
        let reply =
            self.world.send(get(&format!("{ORGANIZATION}/{path}")).with_account(&self.world.ada)).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        reply.body["data"].clone()
    }

    /// The path of the app's webhook.
    async fn hook_path(&self, repository: &str) -> String {
        let connection = self.view(&format!("repositories/{repository}/connection")).await;
        let url = connection["hookUrl"].as_str().unwrap();
        path_of(url).to_owned()
    }

    /// Sends a delivery of the app.
    async fn deliver(&self, hook: &str, event: &str, id: &str, body: &Value) -> TestResponse {
        self.world.send(signed_delivery(hook, event, id, body, GitHubAppDouble::HOOK_SECRET)).await
    }
}

fn path_of(url: &str) -> &str {
    let (_, rest) = url.split_once("://").unwrap();
    &rest[rest.find('/').unwrap()..]
}

fn signed_delivery(hook: &str, event: &str, id: &str, body: &Value, secret: &str) -> TestRequest {
    let body = body.to_string();
    let signed = sign_hook_body(&RedactedString::new(secret.to_owned()), body.as_bytes());
    post(hook)
        .header("x-github-event", event)
        .header("x-github-delivery", id)
        .header("x-hub-signature-256", &format!("sha256={signed}"))
        .raw(body)
}
