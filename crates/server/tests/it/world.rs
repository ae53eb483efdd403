//! Test fixture: two organizations with their owners, members with any role, and an API client.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use axum::body::Body;
use berth_core::name::{Email, Slug};
use berth_engine::vault::{SecretVault, WhenMissing};
use berth_server::app::App;
use berth_server::auth::passwords::PasswordCost;
use berth_server::config::AppConfig;
use berth_server::http::HttpService;
use berth_server::setup::create_organization;
use berth_store::Store;
use berth_testkit::{ScratchDatabase, copy_dir, template_dir};
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::builder::RunnerRegistryBuilder;
use super::contract::{ContractRequest, RequestJson};

pub(crate) const DEFINITION: &str = "version: 1\npipeline:\n  name: Shop API\n  stages:\n    - name: staging\n  steps:\n    - name: Deploy\n      type: dummy\n  ephemeral_environments:\n    qa-1: {}\n";

/// Polling interval of tests. Long enough to stay within a token's rate limit and to leave CPU time to other processes.
pub(crate) const POLL_EVERY: std::time::Duration = std::time::Duration::from_millis(25);

pub(crate) struct TestWorld {
    pub(crate) edge: HttpService,
    pub(crate) app: Arc<App>,
    /// Owner of `acme`.
    pub(crate) ada: MemberAccount,
    /// Owner of `globex`.
    pub(crate) hank: MemberAccount,
    pub(crate) dir: tempfile::TempDir,
    /// The database, if the tests run on PostgreSQL. Must be dropped last.
    pub(crate) postgres: Option<ScratchDatabase>,
}

#[derive(Clone, serde::Serialize, serde::Deserialize)]
pub(crate) struct MemberAccount {
    pub(crate) email: String,
    pub(crate) password: String,
    pub(crate) token: String,
}

impl TestWorld {
    pub(crate) async fn new() -> Self {
        Self::with_config(AppConfig::local(([127, 0, 0, 1], 8080).into())).await
    }

    pub(crate) async fn with_config(config: AppConfig) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().to_owned();
        let made = tokio::task::spawn_blocking(move || open_template_copy(&path)).await.unwrap();
        let (store, vault, [ada, hank], postgres) = made;
        let config = AppConfig {
            data_dir: dir.path().to_owned(),
            own_dir: dir.path().to_owned(),
            password_cost: PasswordCost::MIN,
            ..config
        };
        let builder = Arc::new(RunnerRegistryBuilder::without_sandbox());
        let app = Arc::new(App::new(store, vault, config, CancellationToken::new()).with_builder(builder));
        Self { edge: HttpService::new(app.clone()), app, ada, hank, dir, postgres }
    }

    /// Starts a second server on the same database. Returns `None` on SQLite.
    pub(crate) async fn another_server(&self) -> Option<Self> {
        let (url, from) = (self.postgres.as_ref()?.url(), self.dir.path().to_owned());
        let dir = tempfile::tempdir().unwrap();
        let to = dir.path().to_owned();
        let opened = tokio::task::spawn_blocking(move || {
            let store = open_store(&to, Some(&url));
            let vault = SecretVault::open(&store, &from.join("root.key"), WhenMissing::Refuse).unwrap();
            (store, vault)
        });
        let (store, vault) = opened.await.unwrap();
        let path = dir.path().to_owned();
        let config = AppConfig { data_dir: path.clone(), own_dir: path, ..self.app.config().clone() };
        let app = Arc::new(App::new(store, vault, config, CancellationToken::new()));
        let (ada, hank) = (self.ada.clone(), self.hank.clone());
        Some(Self { edge: HttpService::new(app.clone()), app, ada, hank, dir, postgres: None })
    }

    pub(crate) async fn send(&self, call: TestRequest) -> TestResponse {
        self.send_from(call, [127, 0, 0, 1].into()).await
    }

    /// Sends a request from this client address.
    pub(crate) async fn send_from(&self, call: TestRequest, address: IpAddr) -> TestResponse {
        let asked = ContractRequest::from_request(&call.0);
        let response = self.edge.handle_request(call.0, address).await;
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        let body = serde_json::from_str(&text).unwrap_or(Value::Null);
        let reply = TestResponse { status: parts.status, headers: parts.headers, text, body };
        asked.check_response(&reply);
        reply
    }

    /// Creates a member of acme with this role and a token.
    pub(crate) async fn create_member(&self, email: &str, role: &str) -> MemberAccount {
        let link = self.invite(email, role).await;
        let password = format!("{} a quiet harbour at dawn", email.len());
        let body = json!({"token": link, "password": password});
        let reply = self.send(post("/api/v1/auth/sign-up").json(&body)).await;
        let browser = BrowserSession::from_response(&reply);
        let create = browser.post("/api/v1/organizations/acme/api-tokens").json(&json!({"name": "test"}));
        let token = self.send(create).await.body["data"]["token"].as_str().unwrap().to_owned();
        MemberAccount { email: email.into(), password, token }
    }

    /// Invites a person to acme and returns the token from the link.
    pub(crate) async fn invite(&self, email: &str, role: &str) -> String {
        let body = json!({"email": email, "role": role});
        let made = self
            .send(post("/api/v1/organizations/acme/invitations").with_account(&self.ada).json(&body))
            .await;
        assert_eq!(made.status, 201, "{}", made.text);
        token_of_link(&made.body["data"]["url"])
    }

    /// Creates a service account in acme with this role. Returns its id and a token.
    pub(crate) async fn create_service_account(&self, email: &str, role: &str) -> (String, String) {
        let body = json!({"email": email, "role": role, "kind": "service"});
        let added =
            self.send(post("/api/v1/organizations/acme/members").with_account(&self.ada).json(&body)).await;
        let id = added.body["data"]["id"].as_str().unwrap().to_owned();
        let body = json!({"name": "ci", "ownerId": id});
        let token = self
            .send(post("/api/v1/organizations/acme/api-tokens").with_account(&self.ada).json(&body))
            .await;
        (id, token.body["data"]["token"].as_str().unwrap().to_owned())
    }

    pub(crate) async fn log_in(&self, email: &str, password: &str) -> BrowserSession {
        let body = json!({"email": email, "password": password});
        BrowserSession::from_response(&self.send(post("/api/v1/auth/login").json(&body)).await)
    }

    /// Creates a pipeline in acme and returns its id.
    pub(crate) async fn create_pipeline(&self, slug: &str) -> String {
        let body = json!({"slug": slug, "definition": DEFINITION});
        let made =
            self.send(post("/api/v1/organizations/acme/pipelines").with_account(&self.ada).json(&body)).await;
        assert_eq!(made.status, 201, "{}", made.text);
        made.body["data"]["id"].as_str().unwrap().to_owned()
    }

    /// Creates a pending approval in acme and returns its id.
    pub(crate) async fn create_approval(&self) -> String {
        let definition =
            DEFINITION.replace("    - name: staging\n", "    - name: staging\n      requires: {}\n");
        let body = json!({"slug": "gated", "definition": definition});
        let pipelines = "/api/v1/organizations/acme/pipelines";
        let made = self.send(post(pipelines).with_account(&self.ada).json(&body)).await;
        assert_eq!(made.status, 201, "{}", made.text);
        let start = post(&format!("{pipelines}/gated/deployments")).json(&json!({"commitId": "9fceb02"}));
        assert_eq!(self.send(start.with_account(&self.ada)).await.status, 202);
        berth_server::jobs::tick(self.app.jobs()).await.unwrap();
        let open = self.send(get("/api/v1/organizations/acme/approvals").with_account(&self.ada)).await;
        open.body["data"][0]["id"].as_str().unwrap().to_owned()
    }

    /// Runs SQL directly on the database, for changes that otherwise only happen over time.
    pub(crate) fn run_sql(&self, text: &str) {
        match &self.postgres {
            None => {
                let db = rusqlite::Connection::open(self.dir.path().join("berth.db")).unwrap();
                db.execute_batch(text).unwrap();
            }
            // The blocking client must not run on a thread of the async runtime.
            Some(scratch) => std::thread::scope(|scope| {
                scope.spawn(|| scratch.connect().batch_execute(text).unwrap()).join().unwrap();
            }),
        }
    }

    /// Runs a query that returns one number directly on the database.
    pub(crate) fn count_rows(&self, query: &str) -> i64 {
        match &self.postgres {
            None => {
                let db = rusqlite::Connection::open(self.dir.path().join("berth.db")).unwrap();
                db.query_row(query, [], |row| row.get(0)).unwrap()
            }
            Some(scratch) => std::thread::scope(|scope| {
                scope.spawn(|| scratch.connect().query_one(query, &[]).unwrap().get(0)).join().unwrap()
            }),
        }
    }

    /// Kinds of acme's events, oldest first.
    pub(crate) async fn event_kinds(&self) -> Vec<String> {
        let list =
            self.send(get("/api/v1/organizations/acme/events?limit=200").with_account(&self.ada)).await;
        let events = list.body["data"].as_array().unwrap();
        events.iter().rev().map(|event| event["kind"].as_str().unwrap().to_owned()).collect()
    }
}

pub(crate) fn open_store(path: &Path, postgres: Option<&str>) -> Store {
    match postgres {
        None => Store::open_sqlite(&path.join("berth.db")).unwrap(),
        Some(url) => Store::open_postgres(url).unwrap(),
    }
}

/// File in the template directory. It contains the name of the PostgreSQL database to copy.
const TEMPLATE_DATABASE: &str = "postgres-template";
const TEMPLATE_ACCOUNTS: &str = "accounts.json";

/// Opens a copy of the template database. Only the first test of a run migrates and fills the template.
fn open_template_copy(path: &Path) -> (Store, SecretVault, [MemberAccount; 2], Option<ScratchDatabase>) {
    let server = ScratchDatabase::is_wanted().then(ScratchDatabase::shared_server).flatten();
    if ScratchDatabase::is_wanted() && server.is_none() {
        let postgres = ScratchDatabase::new_if_wanted();
        let accounts = create_accounts(path, postgres.as_ref().map(ScratchDatabase::url).as_deref());
        return open_database(path, postgres, accounts);
    }
    let name = if server.is_some() { "world-postgres" } else { "world" };
    let program = std::env::current_exe().unwrap();
    let template = template_dir(name, &program, server.as_deref().unwrap_or_default(), |dir| {
        let postgres = ScratchDatabase::new_if_wanted();
        let accounts = create_accounts(dir, postgres.as_ref().map(ScratchDatabase::url).as_deref());
        std::fs::write(dir.join(TEMPLATE_ACCOUNTS), serde_json::to_vec(&accounts).unwrap()).unwrap();
        if let Some(postgres) = postgres {
            std::fs::write(dir.join(TEMPLATE_DATABASE), postgres.into_template()).unwrap();
        }
    });
    copy_dir(&template, path);
    let accounts = serde_json::from_slice(&std::fs::read(path.join(TEMPLATE_ACCOUNTS)).unwrap()).unwrap();
    std::fs::remove_file(path.join(TEMPLATE_ACCOUNTS)).unwrap();
    let postgres = std::fs::read_to_string(path.join(TEMPLATE_DATABASE)).ok().map(|name| {
        std::fs::remove_file(path.join(TEMPLATE_DATABASE)).unwrap();
        ScratchDatabase::copy_template(&name).unwrap()
    });
    open_database(path, postgres, accounts)
}

fn open_database(
    path: &Path,
    postgres: Option<ScratchDatabase>,
    accounts: [MemberAccount; 2],
) -> (Store, SecretVault, [MemberAccount; 2], Option<ScratchDatabase>) {
    let store = open_store(path, postgres.as_ref().map(ScratchDatabase::url).as_deref());
    let vault = SecretVault::open(&store, &path.join("root.key"), WhenMissing::Refuse).unwrap();
    (store, vault, accounts, postgres)
}

/// Creates two organizations and their owners, then closes the database.
fn create_accounts(path: &Path, postgres: Option<&str>) -> [MemberAccount; 2] {
    let store = open_store(path, postgres);
    let account = |org: &str, email: &str| {
        let made = create_organization(
            &store,
            Slug::parse(org).unwrap(),
            Email::parse(email).unwrap(),
            PasswordCost::MIN,
        );
        let made = made.unwrap();
        MemberAccount {
            email: email.into(),
            password: made.password.unwrap().reveal().to_owned(),
            token: made.token.reveal().to_owned(),
        }
    };
    let accounts = [account("acme", "ada@acme.test"), account("globex", "hank@globex.test")];
    SecretVault::open(&store, &path.join("root.key"), WhenMissing::Create).unwrap();
    accounts
}

pub(crate) struct TestRequest(pub(crate) Request<Body>);

pub(crate) fn call(method: &str, path: &str) -> TestRequest {
    let method = Method::from_bytes(method.as_bytes()).unwrap();
    let request = Request::builder().method(method).uri(path).header("host", "berth.test");
    TestRequest(request.body(Body::empty()).unwrap())
}

pub(crate) fn get(path: &str) -> TestRequest {
    call("GET", path)
}

pub(crate) fn post(path: &str) -> TestRequest {
    call("POST", path)
}

impl TestRequest {
    pub(crate) fn with_account(self, who: &MemberAccount) -> Self {
        self.token(&who.token)
    }

    pub(crate) fn token(self, token: &str) -> Self {
        self.header("authorization", &format!("Bearer {token}"))
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        let name = http::HeaderName::try_from(name).unwrap();
        self.0.headers_mut().append(name, value.parse().unwrap());
        self
    }

    pub(crate) fn json(self, body: &Value) -> Self {
        let mut call = self.header("content-type", "application/json").raw(body.to_string());
        call.0.extensions_mut().insert(RequestJson(body.clone()));
        call
    }

    pub(crate) fn raw(mut self, body: impl Into<Body>) -> Self {
        *self.0.body_mut() = body.into();
        self
    }
}

/// A logged-in browser.
pub(crate) struct BrowserSession {
    pub(crate) cookie: String,
    pub(crate) csrf: String,
}

impl BrowserSession {
    /// Creates a browser from the response to its login request.
    pub(crate) fn from_response(reply: &TestResponse) -> Self {
        assert_eq!(reply.status, 200, "{}", reply.text);
        let cookie = reply.header("set-cookie").split(';').next().unwrap().to_owned();
        Self { cookie, csrf: reply.body["data"]["csrfToken"].as_str().unwrap().to_owned() }
    }

    pub(crate) fn get(&self, path: &str) -> TestRequest {
        get(path).header("cookie", &self.cookie)
    }

    pub(crate) fn post(&self, path: &str) -> TestRequest {
        self.write_request("POST", path)
    }

    pub(crate) fn write_request(&self, method: &str, path: &str) -> TestRequest {
        let call = call(method, path).header("cookie", &self.cookie).header("x-berth-csrf", &self.csrf);
        call.header("sec-fetch-site", "same-origin")
    }
}

pub(crate) struct TestResponse {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
    pub(crate) body: Value,
}

impl TestResponse {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    pub(crate) fn problem_code(&self) -> &str {
        self.body["code"].as_str().unwrap_or("")
    }

    /// Asserts the status and the problem code.
    pub(crate) fn assert_problem(&self, status: u16, code: &str) {
        assert_eq!((self.status.as_u16(), self.problem_code()), (status, code), "{}", self.text);
    }
}

impl TestResponse {
    /// Asserts status 400, with the code for an unknown member or for another kind of invalid body.
    pub(crate) fn assert_invalid_input(&self) {
        let mut errors = self.body["errors"].as_array().into_iter().flatten();
        let has_unknown = errors.any(|error| error["code"] == "unknown_member");
        self.assert_problem(400, if has_unknown { "unknown_member" } else { "invalid_request" });
    }
}

/// The token in an invitation link, which is the fragment of its URL.
pub(crate) fn token_of_link(url: &Value) -> String {
    url.as_str().and_then(|url| url.split_once('#')).unwrap().1.to_owned()
}
