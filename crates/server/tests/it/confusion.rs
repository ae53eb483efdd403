//! Sends hundreds of ambiguous paths for every route. Each one is either refused for every caller, or it is an accepted
//! spelling of the route and has the same authorization.

use std::collections::BTreeSet;

use berth_server::config::AppConfig;
use berth_server::http::{RouteAccess, RouteInfo};
use http::Uri;
use serde_json::{Value, json};

use super::analysis_fixture::{AnalyzedFailure, create_analysis, record_failed_pull_request};
use super::api_operations::{ApiOperation, list_operations};
use super::world::{TestRequest, TestResponse, TestWorld, call, get, post};

const VARIANTS_MIN: usize = 500;
/// Path of the environment, relative to its pipeline.
const QA: &str = "ephemeral-environments/qa-1";

/// Segments that are inserted into a path.
const SEGMENTS: &[&str] = &[
    "",
    ".",
    "..",
    "...",
    "%2e",
    "%2E",
    "%2e%2e",
    "%2E%2E",
    ".%2e",
    "%2e.",
    "%252e%252e",
    "%25252e",
    "..;",
    ";..",
    ".;",
    "..%00",
    "%00",
    "..%2f",
    "..%5c",
    "..%255c",
    "%2f",
    "%2F",
    "%5c",
    "%5C",
    "%252f",
    "%c0%ae%c0%ae",
    "%e0%80%ae",
    "%f0%80%80%ae",
    "%c0%af",
    "%e0%80%af",
    "%c1%9c",
    "%ef%bc%8f",
    "%ef%bc%8e",
    "%u002e%u002e",
    "%ff",
    "%fe",
    "%",
    "%2",
    "%zz",
    ";",
    ";x=1",
    "%3b",
    "%3Bx",
    "\\",
    "..\\",
    "\\..",
    "%0a",
    "%0d%0a",
    "%09",
    "%20",
    "%7f",
    "%e2%80%ae",
    "*",
    "%2a",
    "~",
    "@",
    "%40",
    "-",
    "_",
    "null",
    "x",
];

/// Strings that are appended to a segment.
const SUFFIXES: &[&str] = &[
    ".json",
    ".html",
    ".css",
    ".js",
    ".png",
    ".ico",
    ".xml",
    ".txt",
    ".bak",
    "%00",
    "%00.html",
    "%00.json",
    "%2500",
    ";",
    ";jsessionid=1",
    ";x",
    ";.css",
    ";/.css",
    "%3b",
    "%3b.js",
    "/..;",
    "/.;",
    "%20",
    "%20%20",
    "+",
    "%09",
    "%0a",
    "%0d",
    "%0d%0aX-Evil:%20yes",
    ".",
    "..",
    "%2e",
    "%2e%2e",
    "%252e",
    "/.",
    "/..",
    "/./",
    "/../",
    "/%2e",
    "/%2e%2e",
    "%2f",
    "%2F",
    "%2f%2f",
    "%252f",
    "%5c",
    "%5C",
    "\\",
    "\\.",
    "/%2f",
    "/%5c",
    "//",
    "///",
    "/;",
    "/;/",
    "%c0%af",
    "%e0%80%af",
    "%c0%ae",
    "%ef%bc%8f",
    "%ff",
    "%",
    "%2",
    "%zz",
    "%23",
    "%23x",
    "%3f",
    "%3fx=1",
    "%3F.css",
    "~",
    "~1",
    "'",
    "%27",
    "%22",
    "$",
    "%24",
    "!",
    "@",
    "%40evil.test",
    ":80",
    ":",
    ",",
    "|",
    "*",
    "(",
    ")",
    "=1",
    "&x=1",
    "%26x",
    "%c2%a0",
    "%e2%80%8b",
    "%ef%bb%bf",
    "%cc%81",
    "%f0%9f%9a%a2",
];

/// Strings that are prepended to a path.
const PREFIXES: &[&str] = &[
    "/.",
    "/..",
    "/./.",
    "/x/..",
    "/%2e",
    "/%2e%2e",
    "/%2e%2e%2f",
    "/..%2f",
    "/..;",
    "/;",
    "/;x",
    "/%00",
    "/%20",
    "/%09",
    "/docs/..",
    "/docs/errors/..",
    "/healthz/..",
    "/healthz/..;",
    "/api/v1/openapi.json/..",
    "/api/v1/auth/login/..",
    "/api/v1/openapi.json/%2e%2e",
    "/api/v1/openapi.json;",
    "//",
    "///",
    "/\\",
    "\\",
    "/%5c",
    "/%2f",
    "/%ef%bc%8f",
    "/api/v1",
    "/api/v1/x/..",
    "/api",
    "/v1",
    "/api/v2",
    "/API",
    "/Api/V1",
    "/api/v1.0",
    "/organizations/..",
    "/organizations/acme/..",
    "/@",
    "/*",
    "/%252e%252e",
    "/%c0%ae%c0%ae",
    "/static",
    "/assets/..",
];

/// Variants of a path that must be refused for every caller.
fn ambiguous_variants(path: &str) -> Vec<String> {
    let mut made = BTreeSet::new();
    let forms = [Some(path), path.strip_prefix("/api/v1").filter(|rest| rest.starts_with("/organizations"))];
    for path in forms.into_iter().flatten() {
        made.extend(PREFIXES.iter().map(|prefix| format!("{prefix}{path}")));
        let parts: Vec<&str> = path.split('/').skip(1).filter(|part| !part.is_empty()).collect();
        let joined = |parts: &[String]| format!("/{}", parts.join("/"));
        for place in 0..=parts.len() {
            let owned: Vec<String> = parts.iter().map(ToString::to_string).collect();
            let mut insert = |segment: &str| {
                let mut with = owned.clone();
                with.insert(place, segment.to_owned());
                made.insert(joined(&with));
            };
            SEGMENTS.iter().for_each(|segment| insert(segment));
            let Some(part) = parts.get(place) else { continue };
            let mut replace = |other: String| {
                let mut with = owned.clone();
                with[place] = other;
                made.insert(joined(&with));
            };
            SUFFIXES.iter().for_each(|suffix| replace(format!("{part}{suffix}")));
            replace(part.to_uppercase());
            replace(format!("{}{}", part[..1].to_uppercase(), &part[1..]));
            replace(format!("%25{:02x}{}", part.as_bytes()[0], &part[1..]));
            replace(format!("{part}%2f{part}"));
        }
    }
    // A short path has too few variants, so some combine two modifications.
    let mixed = SEGMENTS.iter().flat_map(|one| SUFFIXES.iter().map(move |two| (one, two)));
    for (segment, suffix) in mixed.step_by(7) {
        if made.len() > VARIANTS_MIN + 150 {
            break;
        }
        made.insert(format!("{}/{segment}{suffix}", path.trim_end_matches('/')));
    }
    for same in accepted_spellings(path) {
        made.remove(&same);
    }
    // Drops variants that are not valid URIs or that are the original path.
    made.retain(|variant| variant.parse::<Uri>().is_ok_and(|uri| uri.path() != path));
    // A long path has thousands of variants, so only a sample is tested, which differs from route to route.
    let step = (made.len() / VARIANTS_MIN).max(1);
    made.into_iter().skip(path.len() % step).step_by(step).collect()
}

/// Alternative spellings of a path that the server accepts on purpose.
fn accepted_spellings(path: &str) -> Vec<String> {
    let mut same = vec![path.to_owned(), format!("http://elsewhere.test{path}"), format!("{path}?x=/../y;z")];
    if path != "/" {
        same.push(format!("{path}/"));
    }
    if let Some(rest) = path.strip_prefix("/api/v1") {
        same.push(format!("/api/v1/{rest}"));
        if rest.starts_with("/organizations") {
            same.extend([rest.to_owned(), format!("/{rest}"), format!("{rest}/")]);
            same.push(path.replace("/acme", "/%61cme"));
        }
    }
    same
}

/// Creates a registry with a failed build.
async fn create_failed_registry(world: &TestWorld) -> String {
    let origin = super::git::OriginRepository::new();
    origin.commit("nothing to build");
    let place = json!({"name": "tools", "url": origin.url().as_str()});
    let made = post("/api/v1/organizations/acme/step-registries").with_account(&world.ada).json(&place);
    let id = world.send(made).await.body["data"]["id"].as_str().unwrap().to_owned();
    berth_server::jobs::tick(world.app.jobs()).await.unwrap();
    id
}

pub(crate) struct ResourceTarget {
    pub(crate) world: TestWorld,
    pub(crate) pipeline: String,
    repository: String,
    registry: String,
    event: String,
    token: String,
    invitation: String,
    user: String,
    session: String,
    ticket: String,
    deployment: String,
    approval: String,
    analysis: String,
    team: String,
    grant: String,
}

impl ResourceTarget {
    pub(crate) async fn new() -> Self {
        let egress_allow = vec!["127.0.0.1".parse().unwrap()];
        let config =
            AppConfig { rate_limit: false, egress_allow, ..AppConfig::local(([127, 0, 0, 1], 8080).into()) };
        let world = TestWorld::with_config(config).await;
        let pipeline = world.create_pipeline("shop").await;
        let secret = json!({"name": "TOKEN", "value": "hunter2-hunter2"});
        let made = post("/api/v1/organizations/acme/secrets").with_account(&world.ada).json(&secret);
        assert_eq!(world.send(made).await.status, 201);
        let place = json!({"url": "/srv/git/shop.git"});
        let made = post("/api/v1/organizations/acme/repositories").with_account(&world.ada).json(&place);
        let repository = world.send(made).await.body["data"]["id"].as_str().unwrap().to_owned();
        let registry = create_failed_registry(&world).await;
        let first = async |list: &str| {
            let list = get(&format!("/api/v1/organizations/acme/{list}")).with_account(&world.ada);
            world.send(list).await.body["data"][0]["id"].as_str().unwrap().to_owned()
        };
        let (event, token, user) = (first("events").await, first("api-tokens").await, first("members").await);
        world.invite("invited@acme.test", "viewer").await;
        let invitation = first("invitations").await;
        let claim = async |body: Value| {
            let path = format!("/api/v1/organizations/acme/pipelines/{pipeline}/{QA}/sessions");
            world.send(post(&path).with_account(&world.ada).json(&body)).await.body["data"].clone()
        };
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let held = claim(json!({"commitId": "9fceb02"})).await;
        let waits = claim(json!({"queue": true})).await;
        let (session, deployment) = (text(&held["sessionId"]), text(&held["deploymentId"]));
        let ticket = text(&waits["ticketId"]);
        berth_server::jobs::tick(world.app.jobs()).await.unwrap();
        let hook = json!({"name": "ops", "url": "https://127.0.0.1:9/hook", "kinds": ["*"]});
        let made = post("/api/v1/organizations/acme/webhooks").with_account(&world.ada).json(&hook);
        assert_eq!(world.send(made).await.status, 201);
        let runner = post("/api/v1/organizations/acme/runners")
            .with_account(&world.ada)
            .json(&json!({"name": "build-1"}));
        assert_eq!(world.send(runner).await.status, 201);
        let approval = world.create_approval().await;
        let failure = AnalyzedFailure {
            deployment: deployment.clone(),
            pipeline: pipeline.clone(),
            repository: repository.clone(),
            step: format!("stp_{}", "0".repeat(26)),
            attempt: 1,
            commit: "9fceb02d0ae598e95dc970b74767f19372d61af8".into(),
            fingerprint: "0".repeat(32),
            diff: Some("diff".into()),
        };
        let analysis = create_analysis(&world, failure).await;
        record_failed_pull_request(&world, &analysis).await;
        let create = async |list: &str, body: Value| {
            let list = post(&format!("/api/v1/organizations/acme/{list}"));
            let created = world.send(list.with_account(&world.ada).json(&body)).await;
            created.body["data"]["id"].as_str().unwrap().to_owned()
        };
        let team = create("teams", json!({"slug": "sre"})).await;
        let scope = json!({"subject": "team:sre", "role": "viewer", "scope": "pipeline:shop"});
        let grant = create("grants", scope).await;
        Self {
            world,
            pipeline,
            repository,
            registry,
            event,
            token,
            invitation,
            user,
            session,
            ticket,
            deployment,
            approval,
            analysis,
            team,
            grant,
        }
    }

    /// The operation's path with existing resources, so that a wrongly routed request would have an effect.
    pub(crate) fn fill_path(&self, operation: &ApiOperation) -> String {
        let path = operation.path.replace("{orgId}", "acme").replace("{pipelineId}", &self.pipeline);
        let path = path.replace("{eventId}", &self.event).replace("{tokenId}", &self.token);
        let path = path
            .replace("{userId}", &self.user)
            .replace("{invitationId}", &self.invitation)
            .replace("{code}", "not_found")
            .replace("{secretId}", "TOKEN")
            .replace("{repositoryId}", &self.repository)
            .replace("{registryId}", &self.registry)
            .replace("{runnerId}", "build-1")
            .replace("{buildNumber}", "1")
            .replace("{envName}", "qa-1")
            .replace("{sessionId}", &self.session)
            .replace("{ticketId}", &self.ticket)
            .replace("{deploymentId}", &self.deployment)
            .replace("{approvalId}", &self.approval)
            .replace("{analysisId}", &self.analysis)
            .replace("{teamId}", &self.team)
            .replace("{grantId}", &self.grant)
            .replace("{stepId}", "deploy")
            .replace("{stage}", "qa-1")
            .replace("{webhookId}", "ops")
            .replace("{deliveryId}", "dlv_00000000000000000000000000");
        assert!(!path.contains('{'), "{path}: say what stands there");
        path
    }

    pub(crate) async fn send_request(
        &self,
        operation: &ApiOperation,
        path: &str,
        token: Option<&str>,
    ) -> TestResponse {
        let body = if operation.members.is_some() { operation.minimal_body() } else { Value::Null };
        let asked: TestRequest = call(&operation.method, path).header("accept", "text/html");
        let asked = if body.is_null() { asked } else { asked.json(&body) };
        self.world.send(token.into_iter().fold(asked, TestRequest::token)).await
    }

    /// Everything that a wrongly routed request could change.
    pub(crate) async fn snapshot(&self) -> Value {
        let mut all = Vec::new();
        let environment = format!("pipelines/{}/{QA}", self.pipeline);
        for list in ["pipelines", "members", "events?limit=200", &environment] {
            let list = get(&format!("/api/v1/organizations/acme/{list}")).with_account(&self.world.ada);
            all.push(self.world.send(list).await.body["data"].clone());
        }
        json!(all)
    }
}

#[tokio::test]
async fn ambiguous_path_is_refused_on_every_route_for_every_caller() {
    let target = ResourceTarget::new().await;
    let before = target.snapshot().await;
    let callers = [Some(target.world.ada.token.as_str()), None, Some(target.world.hank.token.as_str())];
    let mut sent = 0;
    for operation in list_operations(&target.world).await {
        let path = target.fill_path(&operation);
        let variants = ambiguous_variants(&path);
        assert!(variants.len() >= VARIANTS_MIN, "{}: only {} variants", operation.path, variants.len());
        for variant in &variants {
            for token in callers {
                let reply = target.send_request(&operation, variant, token).await;
                let what = format!("{} {variant} as {token:?}: {}", operation.method, reply.text);
                assert!([400, 401, 404, 405].contains(&reply.status.as_u16()), "{} {what}", reply.status);
                assert_eq!(reply.header("content-type"), "application/problem+json", "{what}");
                assert_eq!(reply.header("location"), "", "{what}");
                sent += 1;
            }
        }
    }
    assert!(sent >= 32 * VARIANTS_MIN * callers.len(), "{sent}");
    assert_eq!(target.snapshot().await, before, "nothing was changed");
}

#[tokio::test]
async fn alternative_path_spelling_has_the_same_authorization() {
    let target = ResourceTarget::new().await;
    let world = &target.world;
    let routes = world.edge.routes().to_vec();
    for operation in &list_operations(world).await {
        let is_its =
            |route: &&RouteInfo| (&route.method, &route.path) == (&operation.method, &operation.path);
        let route = routes.iter().find(is_its).unwrap();
        // Skips writes that need no credentials, because repeating them would be refused.
        if operation.method != "GET" && route.access == RouteAccess::Open {
            continue;
        }
        for variant in accepted_spellings(&target.fill_path(operation)) {
            let what = format!("{} {variant}", operation.method);
            let anonymous = target.send_request(operation, &variant, None).await.status.as_u16();
            match route.access {
                RouteAccess::Open => assert_eq!(anonymous, 200, "{what}"),
                RouteAccess::Caller | RouteAccess::Runner | RouteAccess::NewRunner => {
                    assert_eq!(anonymous, 401, "{what}");
                }
                RouteAccess::Permission(_) => {
                    let foreign = target.send_request(operation, &variant, Some(&world.hank.token)).await;
                    assert_eq!((anonymous, foreign.status.as_u16()), (401, 404), "{what}");
                }
            }
            if operation.method == "GET" {
                let own = target.send_request(operation, &variant, Some(&world.ada.token)).await;
                assert_eq!(own.status, 200, "{what}: {}", own.text);
            }
        }
    }
}
