//! An organization in which every kind of resource exists, for tests that call every operation.

use berth_server::config::AppConfig;
use serde_json::{Value, json};

use super::analysis_fixture::{AnalyzedFailure, create_analysis, record_failed_pull_request};
use super::api_operations::ApiOperation;
use super::pull_request_fixture::{attach, snapshot, store_pull_request};
use super::world::{TestRequest, TestResponse, TestWorld, call, get, post};

/// Path of the environment, relative to its pipeline.
const QA: &str = "ephemeral-environments/qa-1";

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
    login: String,
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
        world.log_in(&world.ada.email, &world.ada.password).await;
        let logins = world.send(get("/api/v1/me/logins").with_account(&world.ada)).await;
        let login = logins.body["data"][0]["id"].as_str().unwrap().to_owned();
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
        let chat = json!({"name": "deploys", "type": "slack_webhook", "url": "https://127.0.0.1:9/hook"});
        let made = post("/api/v1/organizations/acme/chat-destinations").with_account(&world.ada).json(&chat);
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
        // Only after the claims, which would otherwise resolve their commits in the repository.
        attach(&world, &repository, &["shop"]);
        store_pull_request(&world, &repository, 42, snapshot("Dark mode")).await;
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
            login,
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
        let path = path.replace("{loginId}", &self.login);
        let path = path
            .replace("{userId}", &self.user)
            .replace("{invitationId}", &self.invitation)
            .replace("{code}", "not_found")
            .replace("{secretId}", "TOKEN")
            .replace("{repositoryId}", &self.repository)
            .replace("{registryId}", &self.registry)
            .replace("{runnerId}", "build-1")
            .replace("{buildNumber}", "1")
            .replace("{number}", "42")
            .replace("{envName}", "qa-1")
            .replace("{sessionId}", &self.session)
            .replace("{ticketId}", &self.ticket)
            .replace("{deploymentId}", &self.deployment)
            .replace("{approvalId}", &self.approval)
            .replace("{analysisId}", &self.analysis)
            .replace("{teamId}", &self.team)
            .replace("{grantId}", &self.grant)
            .replace("{artifactName}", "site")
            .replace("{stepId}", "deploy")
            .replace("{provider}", "corp")
            .replace("{identityId}", "idn_00000000000000000000000000")
            .replace("{host}", "github.com")
            .replace("{accountId}", "7")
            .replace("{number}", "1")
            .replace("{stage}", "qa-1")
            .replace("{notificationId}", "ntf_00000000000000000000000000")
            .replace("{forge}", "github")
            .replace("{hookId}", "hook_00000000000000000000000000")
            .replace("{appId}", "app_00000000000000000000000000")
            .replace("{webhookId}", "ops")
            .replace("{destinationId}", "deploys")
            .replace("{deliveryId}", "dlv_00000000000000000000000000");
        assert!(!path.contains('{'), "{path}: say what stands there");
        path
    }

    /// Asserts that a permitted request has reached its resource.
    pub(crate) fn assert_reached(operation: &ApiOperation, reply: &TestResponse, what: &str) {
        // The deployment has no artifacts, which only those who may read it are told.
        if operation.path.ends_with("{artifactName}") {
            assert_eq!(
                (reply.status.as_u16(), &reply.body["detail"]),
                (404, &json!("artifact not found")),
                "{what}"
            );
            return;
        }
        assert_eq!(reply.status, 200, "{what}: {}", reply.text);
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
