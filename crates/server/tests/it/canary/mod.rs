//! Leak test: sends credentials as canaries to every endpoint. None of them may appear in a response, a log line, an
//! event, a panic message or a file in the data directory.

mod canary_set;
mod output_capture;
mod resources;

use std::collections::{BTreeMap, BTreeSet};

use berth_server::auth::passwords;
use berth_server::auth::tokens::{TokenKind, generate_token};
use berth_server::config::AppConfig;
use serde_json::{Value, json};

use self::canary_set::{CanarySet, percent_encode};
use self::output_capture::OutputCapture;
use self::resources::create_resources;
use super::api_operations::{ApiOperation, list_operations, sample_value};
use super::world::{
    BrowserSession, DEFINITION, MemberAccount, TestRequest, TestResponse, TestWorld, call, get, post,
    token_of_link,
};

/// JSON members whose values all members of the organization can read, so they do not get canaries as valid values.
const VISIBLE_MEMBERS: &[&str] = &[
    "name",
    "reason",
    "slug",
    "email",
    "definition",
    "description",
    "commitId",
    "context",
    "contact",
    "label",
    "comment",
    "machine",
];
/// JSON members that take an object. An error names the unknown members of that object.
const OBJECT_MEMBERS: &[&str] = &["head", "scope", "overrideDrain", "bypass", "limits"];
/// Part of a pipeline definition. The test must find it in a file of the data directory, which shows that the search
/// works, but not in the log or in an event.
const VISIBLE_MARK: &str = "a-mark-that-every-member-may-read";
/// Operations that return the CSRF token. A browser requests it again when a page is reloaded.
const CSRF_SHOWN_BY: &[&str] =
    &["POST /api/v1/auth/login", "GET /api/v1/me", "POST /api/v1/me/password", "POST /api/v1/auth/confirm"];
const PASSWORDS_HASHED_BY: &[&str] =
    &["POST /api/v1/auth/login", "POST /api/v1/me/password", "POST /api/v1/auth/confirm"];
const TOKENS: &str = "/api/v1/organizations/acme/api-tokens";

#[tokio::test]
async fn credentials_never_leak_into_responses_logs_events_panics_or_files() {
    let watch = OutputCapture::get_or_install();
    let egress_allow = vec!["127.0.0.1".parse().unwrap()];
    let config =
        AppConfig { rate_limit: false, egress_allow, ..AppConfig::local(([127, 0, 0, 1], 8080).into()) };
    let world = TestWorld::with_config(config).await;
    let mut search = LeakSearch::start(world).await;
    search.use_credentials().await;
    let operations = list_operations(&search.world).await;
    for (number, operation) in operations.iter().enumerate() {
        // Password hashing is slow, so operations that do it are called by only three callers: an anonymous one, an
        // owner, and the owner of another organization.
        let name = operation.name();
        let hashes = PASSWORDS_HASHED_BY.contains(&name.as_str());
        let callers = if hashes { 3 } else { search.callers.len() };
        for who in 0..callers {
            search.send_everywhere(operation, who, number + who).await;
        }
    }
    assert!(search.sent > 4_000, "only {} requests", search.sent);
    search.read_events().await;

    let log = watch.log();
    assert!(log.lines().filter(|line| line.contains("answered")).count() >= search.sent);
    search.search_text("the log", &log, "");
    assert!(!log.contains(VISIBLE_MARK), "a definition is in the log");
    assert_eq!(watch.panics(), "");
    search.search_files();
    assert!(search.leaks.is_empty(), "{:#?}", search.leaks);
}

#[derive(Clone)]
enum CanaryCaller {
    Anonymous,
    Token(String),
    Cookie { cookie: String, csrf: String },
}

struct LeakSearch {
    world: TestWorld,
    canaries: CanarySet,
    callers: Vec<CanaryCaller>,
    /// Names or ids of existing resources. The keys are path parameters.
    real: BTreeMap<&'static str, String>,
    /// Names of the query parameters of each operation.
    queries: BTreeMap<String, Vec<String>>,
    sent: usize,
    /// Texts that were already searched, because many responses are equal.
    seen: BTreeSet<String>,
    leaks: BTreeSet<String>,
}

impl LeakSearch {
    async fn start(world: TestWorld) -> Self {
        let mut canaries = CanarySet::default();
        let mut callers = vec![CanaryCaller::Anonymous];
        for (name, account) in [("ada", &world.ada), ("hank", &world.hank)] {
            callers.push(plant_account(&mut canaries, name, account));
        }
        for role in ["viewer", "deployer", "admin"] {
            callers.push(plant_account(
                &mut canaries,
                role,
                &world.create_member(&format!("{role}@acme.test"), role).await,
            ));
        }
        let (_, token) = world.create_service_account("ci@acme.test", "deployer").await;
        canaries.plant("the token of a service account", &token);
        callers.push(CanaryCaller::Token(token));
        let root = std::fs::read(world.dir.path().join("root.key")).unwrap();
        let root: String = root.iter().map(|byte| format!("{byte:02x}")).collect();
        canaries.plant("the root key", &root);
        let marked = format!("type: dummy\n      env: {{ MARK: {VISIBLE_MARK} }}");
        let definition = DEFINITION.replace("type: dummy", &marked);
        let body = json!({"slug": "shop", "definition": definition});
        let made = world
            .send(post("/api/v1/organizations/acme/pipelines").with_account(&world.ada).json(&body))
            .await;
        assert_eq!(made.status, 201, "{}", made.text);
        let value = format!("value/ünd+\"long\" {}", passwords::generate().reveal());
        let body = json!({"name": "TOKEN", "value": value});
        let made =
            world.send(post("/api/v1/organizations/acme/secrets").with_account(&world.ada).json(&body)).await;
        assert_eq!(made.status, 201, "{}", made.text);
        canaries.plant("the value of a secret", &value);
        let real = create_resources(&world).await;
        let queries = list_operations(&world).await.into_iter().map(|operation| {
            let names = operation.query.iter().map(|(name, _)| name.clone()).collect();
            (operation.name(), names)
        });
        let queries = queries.collect();
        Self {
            world,
            canaries,
            callers,
            real,
            queries,
            sent: 0,
            seen: BTreeSet::new(),
            leaks: BTreeSet::new(),
        }
    }

    /// Uses every kind of credential, valid and invalid, and repeats requests with an idempotency key.
    async fn use_credentials(&mut self) {
        let (email, old) = (self.world.ada.email.clone(), self.world.ada.password.clone());
        let wrong = format!("wrong/ünd+\"long\" {}", passwords::generate().reveal());
        let new = format!("new/ünd+\"long\" {}", passwords::generate().reveal());
        let unknown = generate_token(TokenKind::Api);
        for (what, value) in [
            ("a wrong password", wrong.as_str()),
            ("a new password", &new),
            ("an unknown token", unknown.reveal()),
            ("an unknown cookie", generate_token(TokenKind::SignIn).reveal()),
        ] {
            self.canaries.plant(what, value);
        }
        let log_in = |email: &str, password: &str| {
            post("/api/v1/auth/login").json(&json!({"email": email, "password": password}))
        };
        for (email, password) in
            [(email.as_str(), wrong.as_str()), ("unknown@acme.test", &wrong), (&wrong, &old)]
        {
            self.send("POST /api/v1/auth/login", log_in(email, password)).await;
        }
        let browser = self.world.log_in(&email, &old).await;
        let secret = browser.cookie.split_once('=').unwrap().1.to_owned();
        self.canaries.plant("a cookie's secret", &secret);
        self.canaries.plant_visible_in("a CSRF token", &browser.csrf, CSRF_SHOWN_BY);
        for (current, wanted) in [(&wrong, &new), (&old, &"short".to_owned()), (&old, &new)] {
            let change = browser.post("/api/v1/me/password");
            let body = json!({"currentPassword": current, "newPassword": wanted});
            self.send("POST /api/v1/me/password", change.json(&body)).await;
        }
        let BrowserSession { cookie, csrf } = browser;
        self.callers.push(CanaryCaller::Cookie { cookie, csrf });

        // A token or a link is returned only once. The response to a retry does not contain it.
        let create = |path: &str, body: Value| {
            post(path).with_account(&self.world.ada).header("idempotency-key", "canary").json(&body)
        };
        let invitations = "/api/v1/organizations/acme/invitations";
        let person = json!({"email": "once@acme.test", "role": "viewer"});
        let made = self.world.send(create(TOKENS, json!({"name": "once"}))).await;
        let added = self.world.send(create(invitations, person.clone())).await;
        let repeats = [create(TOKENS, json!({"name": "once"})), create(invitations, person)];
        let token = made.body["data"]["token"].as_str().unwrap();
        self.canaries.plant("a token that was shown once", token);
        let link = token_of_link(&added.body["data"]["url"]);
        self.canaries.plant("the link of an invitation", &link);
        let id = made.body["data"]["id"].as_str().unwrap();
        let revoke = call("DELETE", &format!("{TOKENS}/{id}")).with_account(&self.world.ada);
        let (used, gone) = (get("/api/v1/me").token(token), get("/api/v1/me").token(token));
        for repeat in repeats {
            let reply = self.send("a repeat", repeat).await;
            assert_eq!(reply.header("idempotent-replayed"), "true");
        }
        for (operation, call) in [("use", used), ("revoke", revoke), ("use", gone)] {
            self.send(operation, call).await;
        }
    }

    /// Sends a canary in every body member, query parameter, header and path segment of the operation.
    async fn send_everywhere(&mut self, operation: &ApiOperation, who: usize, mut turn: usize) {
        let who = self.callers[who].clone();
        let name = operation.name();
        let here = fill_path(operation, &self.real, |_| None);
        let mut calls: Vec<TestRequest> = Vec::new();
        let mut next = || {
            turn += 1;
            self.canaries.value(turn).to_owned()
        };
        for body in canary_bodies(operation, &mut next) {
            calls.push(call(&operation.method, &here).json(&body));
        }
        let value = next();
        let sent =
            |text: String, kind: &str| call(&operation.method, &here).header("content-type", kind).raw(text);
        calls.push(sent(value.clone(), "application/json"));
        calls.push(sent(format!("{{\"reason\": \"{value}"), "application/json"));
        calls.push(sent(format!("[\"{value}\"]"), "application/json"));
        calls.push(sent(value, "text/plain"));
        for parameter in operation.query.iter().map(|(name, _)| name.as_str()).chain(["token", "password"]) {
            let target = format!("{here}?limit=1&{parameter}={}", percent_encode(&next()));
            calls.push(call(&operation.method, &target));
        }
        for header in [
            "idempotency-key",
            "if-match",
            "if-none-match",
            "x-request-id",
            "x-forwarded-for",
            "content-type",
            "accept",
            "origin",
            "referer",
            "user-agent",
            "x-berth-csrf",
            "cookie",
            "x-token",
        ] {
            // Header values can only contain ASCII characters.
            let value: String = next().chars().filter(char::is_ascii).collect();
            if ["x-request-id", "user-agent"].contains(&header) && !value.starts_with("berth_") {
                continue;
            }
            calls.push(call(&operation.method, &here).header(header, &value).json(&operation.minimal_body()));
        }
        for parameter in operation.path_parameters() {
            let value = percent_encode(&next());
            let there = fill_path(operation, &self.real, |name| (name == parameter).then(|| value.clone()));
            calls.push(call(&operation.method, &there).json(&operation.minimal_body()));
        }
        if matches!(who, CanaryCaller::Anonymous) {
            for kind in ["Basic ", "Token ", "Bearer x ", "Bearer ", ""] {
                let value: String = next().chars().filter(char::is_ascii).collect();
                let call = call(&operation.method, &here).header("authorization", &format!("{kind}{value}"));
                calls.push(call.json(&json!({})));
            }
        }
        for call in calls {
            let call = match &who {
                CanaryCaller::Anonymous => call,
                CanaryCaller::Token(token) => call.token(token),
                CanaryCaller::Cookie { cookie, csrf } => {
                    let call = call.header("cookie", cookie).header("x-berth-csrf", csrf);
                    call.header("sec-fetch-site", "same-origin")
                }
            };
            self.send(&name, call).await;
        }
    }

    async fn send(&mut self, operation: &str, call: TestRequest) -> TestResponse {
        let (asked, query) = (call.0.uri().path().to_owned(), call.0.uri().query().unwrap_or("").to_owned());
        let mut reply = self.world.send(call).await;
        self.sent += 1;
        // The member `instance` is the only one that may repeat the path of the request.
        if let Some(instance) = reply.body.get_mut("instance") {
            assert_eq!(instance.take(), asked);
            reply.text = reply.body.to_string();
        }
        let headers = reply.headers.iter().map(|(name, value)| format!("{name}: {value:?}\n"));
        let mut headers: String = headers.collect();
        // It is not a leak if pagination links repeat query parameters of the request, which may be canaries.
        let known = self.queries.get(operation).into_iter().flatten();
        for parameter in known {
            let sent = query.split('&').find(|pair| pair.starts_with(&format!("{parameter}=")));
            headers = sent.map_or(headers.clone(), |pair| headers.replace(pair, ""));
        }
        self.search_text(&format!("the answer to {operation}"), &reply.text, operation);
        self.search_text(&format!("the headers of {operation}"), &headers, operation);
        reply
    }

    fn search_text(&mut self, place: &str, text: &str, operation: &str) {
        if self.seen.insert(format!("{operation} {text}")) {
            let found = self.canaries.find_leaks(text, operation).into_iter();
            self.leaks.extend(found.map(|found| format!("{found} is in {place}")));
        }
    }

    async fn read_events(&mut self) {
        for (org, who) in [("acme", self.world.ada.clone()), ("globex", self.world.hank.clone())] {
            let mut query = "limit=200".to_owned();
            loop {
                let list = get(&format!("/api/v1/organizations/{org}/events?{query}")).with_account(&who);
                let reply = self.send("GET events", list).await;
                assert!(!reply.text.contains(VISIBLE_MARK), "a definition is in an event");
                let Some(cursor) = reply.body["pagination"]["nextCursor"].as_str() else { break };
                query = format!("limit=200&cursor={cursor}");
            }
        }
    }

    fn search_files(&mut self) {
        let (mut seen, mut dirs) = (0, vec![self.world.dir.path().to_owned()]);
        while let Some(dir) = dirs.pop() {
            for entry in std::fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    dirs.push(path);
                    continue;
                }
                let bytes = std::fs::read(&path).unwrap();
                let text = String::from_utf8_lossy(&bytes);
                seen += usize::from(text.contains(VISIBLE_MARK));
                self.search_text(&path.file_name().unwrap().to_string_lossy(), &text, "");
            }
        }
        assert!(seen > 0, "what is stored is found");
        assert!(self.canaries.count() > 15);
    }
}

fn plant_account(canaries: &mut CanarySet, name: &str, account: &MemberAccount) -> CanaryCaller {
    canaries.plant(&format!("the password of {name}"), &account.password);
    canaries.plant(&format!("the token of {name}"), &account.token);
    CanaryCaller::Token(account.token.clone())
}

/// The operation's path with the names of existing resources. A request to delete the pipeline gets an unknown name.
fn fill_path(
    operation: &ApiOperation,
    real: &BTreeMap<&'static str, String>,
    other: impl Fn(&str) -> Option<String>,
) -> String {
    let is_in_danger = |name: &str| name == "{pipelineId}" && operation.path.ends_with(name);
    let real =
        |name: &str| match real.get(name).filter(|_| operation.method != "DELETE" || !is_in_danger(name)) {
            Some(real) => real.clone(),
            None => "unknown".to_owned(),
        };
    let part = |part: &str| match part.starts_with('{') {
        true => other(part).unwrap_or_else(|| real(part)),
        false => part.to_owned(),
    };
    operation.path.split('/').map(part).collect::<Vec<_>>().join("/")
}

fn canary_bodies(operation: &ApiOperation, next: &mut impl FnMut() -> String) -> Vec<Value> {
    let mut bodies = vec![operation.minimal_body()];
    let names: Vec<String> = operation.members.iter().flat_map(|members| members.keys().cloned()).collect();
    let filled = names.iter().map(|name| {
        let hidden = !VISIBLE_MEMBERS.contains(&name.as_str());
        (name.clone(), if hidden { json!(next()) } else { sample_value(name) })
    });
    bodies.push(filled.collect());
    // Leaves out definitions and labels: other members can read them, and diagnostics quote lines of a definition.
    let is_tried = |name: &String| !["definition", "labels"].contains(&name.as_str());
    let names = names.into_iter().filter(is_tried).collect::<Vec<_>>();
    for name in names.iter().map(String::as_str).chain(["token", "value"]) {
        // Values that are always invalid: a list, an object, and a string with a control character.
        for wrong in [json!([next()]), json!({ next(): 1 }), json!(format!("{}\u{1}", next()))] {
            let mut body = operation.minimal_body();
            body[name] = wrong;
            // Errors name unknown members, so it is not a leak if a canary was used as such a name.
            let is_known = !OBJECT_MEMBERS.contains(&name) && names.iter().any(|known| known == name);
            if !body[name].is_object() || is_known {
                bodies.push(body);
            }
        }
    }
    bodies
}
