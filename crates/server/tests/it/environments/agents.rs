//! Agents: their owners and limits, and the switch that stops all of them.

use berth_core::time::Timestamp;
use serde_json::{Value, json};

use super::{EnvironmentsFixture, environments_path, expect_data, expect_str};
use crate::world::{MemberAccount, TestResponse, call, get, post};

const MEMBERS: &str = "/api/v1/organizations/acme/members";
const AGENTS: &str = "/api/v1/organizations/acme/agents";
const TOKENS: &str = "/api/v1/organizations/acme/api-tokens";

impl EnvironmentsFixture {
    /// Creates an agent of Grace. Its `email` is its id.
    async fn create_agent(&self, name: &str, role: &str, limits: &Value) -> MemberAccount {
        let owner = self.user_id(&self.grace).await;
        let body = json!({"kind": "agent", "name": name, "role": role, "ownerId": owner, "limits": limits});
        let id = expect_str(&expect_data(self.post_as_ada(MEMBERS, &body).await, 201)["id"]);
        let body = json!({"name": "agent", "ownerId": id});
        let token = self.post_as_ada("/api/v1/organizations/acme/api-tokens", &body).await;
        let token = expect_str(&expect_data(token, 201)["token"]);
        MemberAccount { email: id, password: String::new(), token }
    }

    async fn post_as_ada(&self, path: &str, body: &Value) -> TestResponse {
        self.send(post(path).with_account(&self.ada).json(body)).await
    }

    async fn claim_in(&self, environment: &str, who: &MemberAccount, body: &Value) -> TestResponse {
        let path = environments_path(&format!("{environment}/sessions"));
        self.send(post(&path).with_account(who).json(body)).await
    }

    async fn set_limits(&self, agent: &MemberAccount, limits: &Value) -> TestResponse {
        let change = call("PATCH", &format!("{MEMBERS}/{}", agent.email)).with_account(&self.ada);
        self.send(change.json(&json!({"limits": limits}))).await
    }
}

fn assert_limit(reply: &TestResponse, limit: &str) {
    reply.assert_problem(409, "agent_limit");
    assert_eq!(reply.body["limit"], limit, "{}", reply.text);
}

fn seconds_from_claim(session: &Value, member: &str) -> i64 {
    let at = |member: &str| Timestamp::parse(&expect_str(&session[member])).unwrap();
    at(member).seconds_since(at("claimedAt"))
}

/// Commands in comments are not limited as requests of agents are.
#[tokio::test]
async fn agent_cannot_link_an_account_of_a_forge() {
    let shop = EnvironmentsFixture::new().await;
    let agent = shop.create_agent("claude", "tester", &json!({})).await;
    let link = post("/api/v1/organizations/acme/me/forge-accounts").with_account(&agent).json(&json!({}));
    let refused = shop.send(link).await;
    assert_eq!(refused.status, 403, "{}", refused.text);
    assert!(refused.text.contains("an agent cannot link an account"), "{}", refused.text);
}

#[tokio::test]
async fn agent_is_shown_with_its_owner_and_gets_a_lease() {
    let shop = EnvironmentsFixture::new().await;
    let agent = shop.create_agent("claude", "tester", &json!({"sessionSeconds": 900})).await;
    let shown = shop.send(get(&format!("{MEMBERS}/{}", agent.email)).with_account(&shop.ada)).await;
    let shown = expect_data(shown, 200);
    assert_eq!(
        (&shown["kind"], &shown["ownerId"]),
        (&json!("agent"), &json!(shop.user_id(&shop.grace).await))
    );
    assert_eq!(
        shown["limits"],
        json!({"sessions": 1, "sessionSeconds": 900, "deploymentsPerHour": 30, "forceClaim": "never"})
    );
    let me = shop.send(get("/api/v1/me").with_account(&agent)).await;
    assert_eq!(me.body["data"]["user"]["kind"], "agent");

    let session = shop.claim_session(&agent, &json!({})).await;
    let holder = &session["holder"];
    assert_eq!(
        [&holder["type"], &holder["name"], &holder["owner"]["name"]],
        [&json!("agent"), &json!("claude"), &json!("grace")]
    );
    assert_eq!(session["leaseSeconds"], 60);
    assert_eq!(
        seconds_from_claim(&session, "expiresAt"),
        900,
        "the limit, because the environment has no ttl"
    );
    let refused = shop.claim(&shop.ada, &json!({})).await;
    assert!(refused.text.contains("claude, agent of grace"), "{}", refused.text);
    assert_eq!(refused.body["holder"], *holder);
    assert_eq!(shop.fetch("qa-1").await["lock"]["holder"], *holder);
}

#[tokio::test]
async fn session_limits_of_an_agent_are_enforced() {
    let shop = EnvironmentsFixture::new().await;
    let agent = shop.create_agent("claude", "tester", &json!({"sessionSeconds": 900})).await;
    assert_limit(&shop.claim(&agent, &json!({"ttlSeconds": 901})).await, "sessionSeconds");
    let session = shop.claim_session(&agent, &json!({"ttlSeconds": 600, "leaseSeconds": 120})).await;
    assert_eq!(session["leaseSeconds"], 120);
    let extend = async |body: Value| shop.post_to_session(&agent, &session, "extend", &body).await;
    assert_limit(&extend(json!({"ttlSeconds": 901})).await, "sessionSeconds");
    let extended = expect_data(extend(json!({"ttlSeconds": 890})).await, 200);
    assert!(seconds_from_claim(&extended, "expiresAt") <= 900, "{extended}");

    shop.claim_in("qa-3", &shop.grace, &json!({})).await;
    for (environment, body) in [("qa-2", json!({})), ("qa-3", json!({"queue": true}))] {
        assert_limit(&shop.claim_in(environment, &agent, &body).await, "sessions");
    }
    assert_eq!(shop.set_limits(&agent, &json!({"sessions": 2})).await.status, 200);
    expect_data(shop.claim_in("qa-3", &agent, &json!({"queue": true})).await, 202);
    assert_limit(&shop.claim_in("qa-2", &agent, &json!({})).await, "sessions");
    let own = shop.claim_in("qa-2", &shop.grace, &json!({})).await;
    let path = environments_path(&format!("qa-2/sessions/{}", expect_str(&own.body["data"]["sessionId"])));
    let to_agent = post(&format!("{path}/hand-over")).with_account(&shop.grace);
    assert_limit(&shop.send(to_agent.json(&json!({"to": agent.email}))).await, "sessions");
}

#[tokio::test]
async fn session_handed_over_by_an_agent_keeps_its_end() {
    let shop = EnvironmentsFixture::new().await;
    let agent = shop.create_agent("claude", "tester", &json!({"sessionSeconds": 900, "sessions": 2})).await;
    let other = shop.create_agent("other", "tester", &json!({})).await;
    let session = shop.claim_session(&agent, &json!({"ttlSeconds": 600})).await;
    let hand_over = async |to: &MemberAccount| {
        shop.post_to_session(&agent, &session, "hand-over", &json!({"to": to.email})).await
    };
    let refused = hand_over(&agent).await;
    refused.assert_problem(409, "invalid_state");
    assert!(refused.text.contains("you hold this session already"), "{}", refused.text);
    let next = expect_data(hand_over(&other).await, 200);
    assert_eq!(
        [&next["expiresAt"], &next["leaseSeconds"], &next["ttlSeconds"]],
        [&session["expiresAt"], &json!(60), &session["ttlSeconds"]]
    );
    let extended = shop.post_to_session(&other, &next, "extend", &json!({"ttlSeconds": 901})).await;
    assert_limit(&extended, "sessionSeconds");
}

#[tokio::test]
async fn deployments_of_an_agent_are_limited() {
    let shop = EnvironmentsFixture::new().await;
    let agent = shop.create_agent("claude", "deployer", &json!({"deploymentsPerHour": 2})).await;
    let session = shop.claim_session(&agent, &json!({"commitId": "main"})).await;
    let deploy =
        async || shop.post_to_session(&agent, &session, "deploy", &json!({"commitId": "main"})).await;
    assert_eq!(deploy().await.status, 202);
    assert_limit(&deploy().await, "deploymentsPerHour");
    let start = post(&format!("{}/deployments", super::PIPELINE)).with_account(&agent);
    let started = shop.send(start.json(&json!({"commitId": "main"}))).await;
    assert_limit(&started, "deploymentsPerHour");
    assert_eq!(shop.set_limits(&agent, &json!({"deploymentsPerHour": 3})).await.status, 200);
    assert_eq!(deploy().await.status, 202);
}

#[tokio::test]
async fn takeovers_of_an_agent_need_its_limit() {
    let shop = EnvironmentsFixture::new().await;
    let other = shop.create_agent("other", "tester", &json!({})).await;
    let agent = shop.create_agent("claude", "deployer", &json!({})).await;
    let held = shop.claim_session(&other, &json!({})).await;
    assert_limit(&shop.force_claim(&agent, &json!({})).await, "forceClaim");
    shop.set_limits(&agent, &json!({"forceClaim": "agents"})).await;
    let taken = expect_data(shop.force_claim(&agent, &json!({})).await, 201);
    assert_eq!(shop.session_status(&held).await["status"], "overridden");
    shop.release(&agent, &taken).await;
    let held = shop.claim_session(&shop.grace, &json!({})).await;
    assert_limit(&shop.force_claim(&agent, &json!({})).await, "forceClaim");
    shop.set_limits(&agent, &json!({"forceClaim": "anyone"})).await;
    expect_data(shop.force_claim(&agent, &json!({})).await, 201);
    assert_eq!(shop.session_status(&held).await["status"], "overridden");
}

#[tokio::test]
async fn stop_ends_what_agents_hold_until_they_are_resumed() {
    let shop = EnvironmentsFixture::new().await;
    let agent = shop.create_agent("claude", "deployer", &json!({})).await;
    let other = shop.create_agent("other", "tester", &json!({})).await;
    let session = shop.claim_session(&agent, &json!({"commitId": "main"})).await;
    let ticket = shop.join_queue(&other, &json!({})).await;
    let next = shop.join_queue(&shop.grace, &json!({})).await;
    let since = shop.events(0).await.len();
    let stop = format!("{AGENTS}/stop");
    let denied = shop.send(post(&stop).with_account(&shop.grace)).await;
    denied.assert_problem(403, "forbidden");
    let stopped = expect_data(shop.post_as_ada(&stop, &json!({"reason": "runaway"})).await, 200);
    assert_eq!(
        [&stopped["stopped"], &stopped["reason"], &stopped["sessionsEnded"], &stopped["ticketsCancelled"]],
        [&json!(true), &json!("runaway"), &json!(1), &json!(1)]
    );
    assert_eq!(
        shop.post_as_ada(&stop, &json!({})).await.body["data"]["reason"],
        "runaway",
        "it stays stopped"
    );

    let ended = shop.session_status(&session).await;
    assert_eq!(
        [&ended["status"], &ended["endReason"], &ended["endedBy"]["name"]],
        [&json!("released"), &json!("agents_stopped"), &json!("ada")]
    );
    assert_eq!(ended["deploymentHistory"][0]["status"], "cancelled");
    let ticket_of =
        async |ticket: &Value| shop.fetch(&format!("qa-1/queue/{}", expect_str(&ticket["ticketId"]))).await;
    let cancelled = ticket_of(&ticket).await;
    assert_eq!((&cancelled["status"], &cancelled["cause"]), (&json!("cancelled"), &json!("agents_stopped")));
    assert_eq!(ticket_of(&next).await["status"], "granted");
    let kinds = shop.kinds_since(since).await;
    for kind in ["session_released", "ticket_cancelled", "ticket_granted", "agents_stopped"] {
        assert_eq!(kinds.iter().filter(|it| *it == kind).count(), 1, "{kind}: {kinds:?}");
    }

    shop.claim_in("qa-2", &agent, &json!({})).await.assert_problem(409, "agents_stopped");
    let start = post(&format!("{}/deployments", super::PIPELINE)).with_account(&agent);
    shop.send(start.json(&json!({"commitId": "main"}))).await.assert_problem(409, "agents_stopped");
    let late = shop.post_to_session(&agent, &session, "heartbeat", &json!({})).await;
    late.assert_problem(409, "session_not_active");
    expect_data(shop.claim_in("qa-3", &shop.ada, &json!({})).await, 201);

    let status = expect_data(shop.send(get(AGENTS).with_account(&shop.grace)).await, 200);
    assert_eq!(status["stoppedBy"]["name"], "ada");
    expect_data(shop.post_as_ada(&format!("{AGENTS}/resume"), &json!({})).await, 200);
    expect_data(shop.claim_in("qa-2", &agent, &json!({})).await, 201);
}

#[tokio::test]
async fn agent_cannot_lift_its_limits_whatever_its_role() {
    let shop = EnvironmentsFixture::new().await;
    let agent = shop.create_agent("claude", "admin", &json!({})).await;
    shop.post_as_ada(&format!("{AGENTS}/stop"), &json!({})).await;
    let (ci, _) = shop.world.create_service_account("ci@acme.test", "deployer").await;
    let robot = json!({"kind": "service", "email": "robot@acme.test", "role": "admin"});
    let member = format!("{MEMBERS}/{}", agent.email);
    let attempts = [
        call("PATCH", &member).json(&json!({"limits": {"sessions": 100}})),
        post(MEMBERS).json(&robot),
        post("/api/v1/organizations/acme/invitations")
            .json(&json!({"email": "a@acme.test", "role": "admin"})),
        post("/api/v1/organizations/acme/grants")
            .json(&json!({"subject": format!("user:{}", agent.email), "role": "admin", "scope": "org"})),
        post(&format!("{AGENTS}/resume")),
        post(TOKENS).json(&json!({"name": "x", "ownerId": ci})),
    ];
    for request in attempts {
        let refused = shop.send(request.with_account(&agent)).await;
        refused.assert_problem(403, "forbidden");
    }
    let visible = shop.send(get(TOKENS).with_account(&agent)).await;
    assert_eq!(visible.body["pagination"]["total"], 1, "{}", visible.text);
    assert_eq!(visible.body["data"][0]["ownerId"], agent.email);
    let all = shop.send(get(TOKENS).with_account(&shop.ada)).await;
    let all = all.body["data"].as_array().unwrap();
    let other = all.iter().find(|it| it["ownerId"] != agent.email.as_str()).unwrap();
    let revoke = call("DELETE", &format!("{TOKENS}/{}", expect_str(&other["id"])));
    shop.send(revoke.with_account(&agent)).await.assert_problem(404, "not_found");
    let explain = get(&format!("{member}/access?resource=org")).with_account(&shop.ada);
    let explained = expect_data(shop.send(explain).await, 200);
    let permissions = explained["permissions"].as_array().unwrap();
    let manage = permissions.iter().find(|it| it["permission"] == "tokens:manage").unwrap();
    assert_eq!(manage["allowed"], false, "{explained}");
    expect_data(shop.post_as_ada(MEMBERS, &robot).await, 201);
    shop.claim_in("qa-2", &agent, &json!({})).await.assert_problem(409, "agents_stopped");
}

#[tokio::test]
async fn agent_with_invalid_owner_or_limits_is_refused() {
    let shop = EnvironmentsFixture::new().await;
    let (robot, _) = shop.world.create_service_account("ci@acme.test", "tester").await;
    let stranger = shop.user_id(&shop.world.hank).await;
    for (body, pointer) in [
        (json!({"kind": "agent"}), "/name"),
        (json!({"kind": "agent", "name": "a", "ownerId": robot}), "/ownerId"),
        (json!({"kind": "agent", "name": "a", "ownerId": stranger}), "/ownerId"),
        (json!({"kind": "agent", "name": "a", "limits": {"sessions": 0}}), "/limits/sessions"),
        (json!({"kind": "agent", "name": "a", "limits": {"sessionSeconds": 59}}), "/limits/sessionSeconds"),
        (json!({"kind": "service", "email": "a@acme.test", "role": "tester", "limits": {}}), "/kind"),
    ] {
        let refused = shop.post_as_ada(MEMBERS, &body).await;
        refused.assert_problem(400, "invalid_request");
        assert_eq!(refused.body["errors"][0]["pointer"], pointer, "{}", refused.text);
    }
    let person = MemberAccount { email: shop.user_id(&shop.grace).await, ..shop.grace.clone() };
    let refused = shop.set_limits(&person, &json!({"sessions": 2})).await;
    assert_eq!(refused.body["errors"][0]["pointer"], "/limits", "{}", refused.text);
}

#[tokio::test]
async fn queue_by_class_grants_people_before_ci_and_agents() {
    let shop = EnvironmentsFixture::new().await;
    let by_class = super::DEFINITION.replace("qa-1: {}", "qa-1: { queue: { order: class, ageing: 1h } }");
    let put = call("PUT", &format!("{}/definition", super::PIPELINE)).with_account(&shop.ada);
    assert_eq!(shop.send(put.json(&json!({"definition": by_class}))).await.status, 200);
    let configuration = &shop.fetch("qa-1").await["configuration"]["queue"];
    assert_eq!(*configuration, json!({"order": "class", "ageingSeconds": 3_600}));

    let agent = shop.create_agent("claude", "tester", &json!({})).await;
    let (_, token) = shop.world.create_service_account("ci@acme.test", "tester").await;
    let ci = MemberAccount { token, ..agent.clone() };
    let session = shop.claim_session(&shop.grace, &json!({})).await;
    let last = shop.join_queue(&agent, &json!({"leaseSeconds": 30})).await;
    shop.join_queue(&ci, &json!({})).await;
    let first = shop.join_queue(&shop.ada, &json!({})).await;
    assert_eq!(first["position"], 1, "the response shows the place that it takes");
    let queue = shop.fetch("qa-1/queue").await;
    let names: Vec<_> = queue.as_array().unwrap().iter().map(|it| it["holder"]["name"].clone()).collect();
    assert_eq!(json!(names), json!(["ada", "ci", "claude"]));
    let seen = shop.fetch(&format!("qa-1/queue/{}", expect_str(&last["ticketId"]))).await;
    assert_eq!(seen["position"], 3);
    for name in ["ada", "ci", "claude"] {
        let lock = shop.fetch("qa-1").await["lock"].clone();
        let holder = json!({"sessionId": lock["sessionId"]});
        assert_eq!(shop.release(&shop.ada, &holder).await.status, 200);
        assert_eq!(shop.fetch("qa-1").await["lock"]["holder"]["name"], name);
    }
    assert_eq!(shop.session_status(&session).await["status"], "released");
}
