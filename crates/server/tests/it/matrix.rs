//! Authorization matrix: calls every route as every kind of caller. The cases are generated from the route table.

use berth_core::access::Role;
use berth_core::id::{
    AnalysisId, ApprovalId, DeliveryId, DeploymentId, GrantId, OrgId, RegistryId, RepositoryId, SessionId,
    SignInId, TicketId, TokenId, UserId,
};
use berth_core::name::DisplayName;
use berth_core::time::Timestamp;
use berth_server::auth::tokens::{TokenKind, generate_token, hash_token};
use berth_server::config::AppConfig;
use berth_server::http::{OPEN_ROUTES, RouteAccess, RouteInfo};
use berth_store::tables::token::{self, Token};
use berth_store::{StoreError, TxContext};
use serde_json::json;

use super::world::{TestWorld, call, get, post};

/// The path of a route in an organization. The ids of all other resources in it do not exist.
fn route_path(route: &RouteInfo, org: &str) -> String {
    let at = Timestamp::from_micros(1);
    route
        .path
        .replace("{orgId}", org)
        .replace("{pipelineId}", "no-such-pipeline")
        .replace("{secretId}", "NO_SUCH_SECRET")
        .replace("{repositoryId}", &RepositoryId::from_parts(at, [0; 10]).to_string())
        .replace("{registryId}", &RegistryId::from_parts(at, [0; 10]).to_string())
        .replace("{runnerId}", "no-such-runner")
        .replace("{buildNumber}", "1")
        .replace("{number}", "1")
        .replace("{userId}", &UserId::from_parts(at, [0; 10]).to_string())
        .replace("{tokenId}", &TokenId::from_parts(at, [0; 10]).to_string())
        .replace("{loginId}", &SignInId::from_parts(at, [0; 10]).to_string())
        .replace("{teamId}", "no-such-team")
        .replace("{grantId}", &GrantId::from_parts(at, [0; 10]).to_string())
        .replace("{envName}", "no-such-environment")
        .replace("{sessionId}", &SessionId::from_parts(at, [0; 10]).to_string())
        .replace("{ticketId}", &TicketId::from_parts(at, [0; 10]).to_string())
        .replace("{deploymentId}", &DeploymentId::from_parts(at, [0; 10]).to_string())
        .replace("{analysisId}", &AnalysisId::from_parts(at, [0; 10]).to_string())
        .replace("{approvalId}", &ApprovalId::from_parts(at, [0; 10]).to_string())
        .replace("{stepId}", "no-such-step")
        .replace("{stage}", "no-such-stage")
        .replace("{eventId}", "evt_00000000000000000000000000")
        .replace("{notificationId}", "ntf_00000000000000000000000000")
        .replace("{forge}", "github")
        .replace("{hookId}", "hook_00000000000000000000000000")
        .replace("{appId}", "app_00000000000000000000000000")
        .replace("{webhookId}", "no-such-webhook")
        .replace("{destinationId}", "no-such-destination")
        .replace("{deliveryId}", &DeliveryId::from_parts(at, [0; 10]).to_string())
        .replace("{lockId}", "no-such-lock")
        .replace("{code}", "not_found")
        .replace("{host}", "github.com")
        .replace("{accountId}", "7")
        .replace("{number}", "1")
}

#[tokio::test]
async fn route_authorization_holds_for_every_kind_of_caller() {
    // Sends more requests with one token than the limit allows.
    let config = AppConfig { rate_limit: false, ..AppConfig::local(([127, 0, 0, 1], 8080).into()) };
    let world = TestWorld::with_config(config).await;
    let mut members = Vec::new();
    for role in Role::ALL.into_iter().filter(|role| *role != Role::Owner) {
        members.push((role, world.create_member(&format!("{role}@acme.test"), role.as_str()).await.token));
    }
    members.push((Role::Owner, world.ada.token.clone()));
    members.push((Role::Deployer, world.create_service_account("ci@acme.test", "deployer").await.1));
    let strangers = [
        ("an anonymous caller", None),
        ("an unknown token", Some(generate_token(TokenKind::Api).reveal().to_owned())),
        ("a malformed token", Some("berth_api_nonsense".to_owned())),
        ("a cookie's secret", Some(generate_token(TokenKind::SignIn).reveal().to_owned())),
        ("a revoked token", Some(create_revoked_token(&world).await)),
        ("an expired token", Some(create_expired_token(&world).await)),
    ];

    let runner = RunnerTokens::new(&world).await;
    let routes = world.edge.routes().to_vec();
    assert!(routes.len() > 25);
    for route in &routes {
        let name = format!("{} {}", route.method, route.path);
        let here = route_path(route, "acme");
        for (who, token) in &strangers {
            let asked = call(&route.method, &here).json(&json!({}));
            let reply = world.send(token.iter().fold(asked, |asked, token| asked.token(token))).await;
            match route.access {
                RouteAccess::Open => assert_ne!(reply.status, 401, "{name} as {who}"),
                RouteAccess::Caller
                | RouteAccess::InstanceAdmin
                | RouteAccess::Permission(_)
                | RouteAccess::TokenPermission(_)
                | RouteAccess::Runner
                | RouteAccess::NewRunner => {
                    assert_eq!(
                        (reply.status.as_u16(), reply.problem_code()),
                        (401, "unauthenticated"),
                        "{name} as {who}"
                    );
                    assert_eq!(reply.header("www-authenticate"), "Bearer");
                }
            }
        }
        check_runner_access(&world, route, &runner, &here).await;
        let RouteAccess::Permission(action) = route.access else { continue };

        let absent = world
            .send(
                call(&route.method, &route_path(route, "nowhere")).json(&json!({})).with_account(&world.hank),
            )
            .await;
        let foreign = world.send(call(&route.method, &here).json(&json!({})).with_account(&world.hank)).await;
        let same = |reply: &super::world::TestResponse| {
            (reply.status, reply.body["code"].clone(), reply.body["detail"].clone())
        };
        assert_eq!(same(&foreign), same(&absent), "{name}: foreign and absent look alike");
        foreign.assert_problem(404, "not_found");

        // Refused for the tokens of this test, because they expire.
        if (route.method.as_str(), route.path.ends_with("/me/forge-accounts")) == ("POST", true) {
            continue;
        }
        for (role, token) in &members {
            let reply = world.send(call(&route.method, &here).json(&json!({})).token(token)).await;
            if role.may(action) {
                assert!(![401, 403].contains(&reply.status.as_u16()), "{name} as {role}: {}", reply.text);
                assert!(!reply.text.contains("no such organization"), "{name} as {role}");
                assert!(reply.status.as_u16() < 500, "{name} as {role}: {}", reply.text);
            } else {
                assert_eq!(
                    (reply.status.as_u16(), reply.problem_code()),
                    (403, "forbidden"),
                    "{name} as {role}"
                );
                assert_eq!(reply.body["permission"], action.as_str());
            }
        }
    }
}

/// A registration token that has not been used yet, and the credential of a registered runner.
struct RunnerTokens {
    fresh: String,
    credential: String,
}

impl RunnerTokens {
    async fn new(world: &TestWorld) -> Self {
        let add = async |name: &str| {
            let asked = post("/api/v1/organizations/acme/runners")
                .with_account(&world.ada)
                .json(&json!({"name": name}));
            world.send(asked).await.body["data"]["token"].as_str().unwrap().to_owned()
        };
        let register = post("/api/v1/runner/register").token(&add("came").await);
        let registered = world.send(register.json(&json!({"protocol": 2, "version": "0"}))).await;
        let credential = registered.body["data"]["credential"].as_str().unwrap().to_owned();
        Self { fresh: add("waits").await, credential }
    }
}

/// Checks that runners can use only runner endpoints, and that users cannot use those.
async fn check_runner_access(world: &TestWorld, route: &RouteInfo, runner: &RunnerTokens, path: &str) {
    let name = format!("{} {}", route.method, route.path);
    let as_one =
        async |token: &str| world.send(call(&route.method, path).json(&json!({})).token(token)).await;
    let (fresh, credential) = (as_one(&runner.fresh).await, as_one(&runner.credential).await);
    let known = |reply: &super::world::TestResponse| reply.status != 401;
    let (is_new, is_work) = match route.access {
        RouteAccess::Open => (true, true),
        RouteAccess::Caller
        | RouteAccess::InstanceAdmin
        | RouteAccess::Permission(_)
        | RouteAccess::TokenPermission(_) => (false, false),
        RouteAccess::Runner => (false, true),
        RouteAccess::NewRunner => (true, false),
    };
    assert_eq!(
        (known(&fresh), known(&credential)),
        (is_new, is_work),
        "{name}: {} {}",
        fresh.text,
        credential.text
    );
    for reply in [fresh, credential] {
        assert!(reply.status.as_u16() < 500, "{name}: {}", reply.text);
    }
    if matches!(route.access, RouteAccess::Runner | RouteAccess::NewRunner) {
        as_one(&world.ada.token).await.assert_problem(401, "unauthenticated");
    }
}

#[tokio::test]
async fn open_routes_match_the_allow_list() {
    let world = TestWorld::new().await;
    let open: Vec<_> = world.edge.routes().iter().filter(|route| route.access == RouteAccess::Open).collect();
    assert_eq!(open.len(), OPEN_ROUTES.len());
}

#[tokio::test]
async fn foreign_ids_are_not_found_in_the_own_organization() {
    let world = TestWorld::new().await;
    let pipeline = world.create_pipeline("shop").await;
    let of = |list: &str| get(&format!("/api/v1/organizations/acme/{list}")).with_account(&world.ada);
    let first =
        async |list: &str| world.send(of(list)).await.body["data"][0]["id"].as_str().unwrap().to_owned();
    let place = json!({"name": "tools", "url": "/srv/git/tools.git"});
    let made = post("/api/v1/organizations/acme/step-registries").with_account(&world.ada).json(&place);
    let registry = world.send(made).await.body["data"]["id"].as_str().unwrap().to_owned();
    let (event, member, token) = (first("events").await, first("members").await, first("api-tokens").await);
    for (method, path) in [
        ("GET", format!("pipelines/{pipeline}")),
        ("GET", format!("pipelines/{pipeline}/definition")),
        ("POST", format!("pipelines/{pipeline}/stop")),
        ("DELETE", format!("pipelines/{pipeline}")),
        ("GET", format!("events/{event}")),
        ("GET", format!("members/{member}")),
        ("PATCH", format!("members/{member}")),
        ("DELETE", format!("members/{member}")),
        ("DELETE", format!("members/{member}/second-factor")),
        ("DELETE", format!("api-tokens/{token}")),
        ("GET", format!("step-registries/{registry}")),
        ("GET", format!("step-registries/{registry}/steps")),
        ("GET", format!("step-registries/{registry}/builds")),
        ("GET", format!("step-registries/{registry}/builds/1/logs")),
        ("POST", format!("step-registries/{registry}/sync")),
        ("PATCH", format!("step-registries/{registry}")),
        ("DELETE", format!("step-registries/{registry}")),
    ] {
        let path = format!("/api/v1/organizations/globex/{path}");
        world
            .send(call(method, &path).with_account(&world.hank).json(&json!({})))
            .await
            .assert_problem(404, "not_found");
    }
    let plan = post("/api/v1/organizations/globex/pipelines/plan").with_account(&world.hank);
    world.send(plan.json(&json!({"pipelineId": pipeline}))).await.assert_problem(404, "not_found");
    let untouched =
        world.send(get("/api/v1/organizations/acme/pipelines/shop").with_account(&world.ada)).await;
    assert_eq!(untouched.body["data"]["status"], "active");
}

#[tokio::test]
async fn foreign_cursor_filter_or_key_reveals_nothing() {
    let world = TestWorld::new().await;
    let pipeline = world.create_pipeline("a").await;
    world.create_pipeline("b").await;
    let list = world.send(get("/api/v1/organizations/acme/pipelines?limit=1").with_account(&world.ada)).await;
    let cursor = list.body["pagination"]["nextCursor"].as_str().unwrap();
    let path = format!("/api/v1/organizations/globex/pipelines?cursor={cursor}");
    assert_eq!(world.send(get(&path).with_account(&world.hank)).await.body["data"], json!([]));
    let path = format!("/api/v1/organizations/globex/events?pipeline={pipeline}");
    assert_eq!(world.send(get(&path).with_account(&world.hank)).await.body["data"], json!([]));

    // Different callers can use the same idempotency key independently.
    let body = json!({"name": "x"});
    let create =
        |org: &str| post(&format!("/api/v1/organizations/{org}/api-tokens")).header("idempotency-key", "k");
    let ours = world.send(create("acme").with_account(&world.ada).json(&body)).await;
    let theirs = world.send(create("globex").with_account(&world.hank).json(&body)).await;
    assert_ne!(ours.body["data"]["id"], theirs.body["data"]["id"]);
    assert_eq!(theirs.header("idempotent-replayed"), "");
}

#[tokio::test]
async fn refused_action_is_recorded_at_most_once_per_second() {
    let world = TestWorld::new().await;
    let viewer = world.create_member("vera@acme.test", "viewer").await;
    for _ in 0..5 {
        world
            .send(post("/api/v1/organizations/acme/pipelines").with_account(&viewer))
            .await
            .assert_problem(403, "forbidden");
    }
    let denied = world.event_kinds().await.into_iter().filter(|kind| kind == "access_denied").count();
    assert!((1..=2).contains(&denied), "{denied}");
}

async fn create_revoked_token(world: &TestWorld) -> String {
    let path = "/api/v1/organizations/acme/api-tokens";
    let made = world.send(post(path).with_account(&world.ada).json(&json!({"name": "gone"}))).await;
    let id = made.body["data"]["id"].as_str().unwrap();
    let reply = world.send(call("DELETE", &format!("{path}/{id}")).with_account(&world.ada)).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    made.body["data"]["token"].as_str().unwrap().to_owned()
}

async fn create_expired_token(world: &TestWorld) -> String {
    let me = world.send(get("/api/v1/me").with_account(&world.ada)).await.body["data"].clone();
    let user: UserId = me["user"]["id"].as_str().unwrap().parse().unwrap();
    let org: OrgId = me["organizations"][0]["id"].as_str().unwrap().parse().unwrap();
    let secret = generate_token(TokenKind::Api);
    let hashed = hash_token(secret.reveal());
    let insert = world.app.store().transact(TxContext::system(Some(org)), move |tx| {
        let record = Token {
            id: TokenId::from_parts(tx.now(), tx.entropy()?),
            user,
            name: DisplayName::parse("old").unwrap(),
            prefix: String::new(),
            created_at: tx.now(),
            expires_at: Some(tx.now().plus_seconds(-1)),
            restriction: None,
            environment: None,
            last_used_at: None,
            last_used_address: None,
            last_used_client: None,
            revoked_at: None,
        };
        token::insert(tx, &record, &hashed)?;
        let kind = berth_core::event::EventKind::TokenCreated;
        let subject = berth_core::event::EventSubject::new("token", record.id, None);
        tx.record(berth_core::event::NewEvent::new(kind, subject))?;
        Ok::<_, StoreError>(())
    });
    insert.await.unwrap();
    secret.reveal().to_owned()
}
