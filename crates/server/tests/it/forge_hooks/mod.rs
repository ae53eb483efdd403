//! Deliveries of forges, and connections of repositories to forges.

mod burst;
mod connect;
mod corpus;
mod hostile;
mod payloads;
mod receive;

use berth_core::forge::ForgeKind;
use berth_core::id::{OrgId, RepositoryId};
use berth_core::time::Timestamp;
use berth_engine::credential::RedactedString;
use berth_server::config::AppConfig;
use berth_server::integrations::forges::hooks::sign_hook_body;
use berth_store::tables::organization;
use serde_json::{Value, json};

use super::world::{TestRequest, TestResponse, TestWorld, get, post};

const REPOSITORIES: &str = "/api/v1/organizations/acme/repositories";

/// The repository of the payloads of a forge.
fn repository_url(forge: ForgeKind) -> &'static str {
    match forge {
        ForgeKind::GitHub => "https://github.com/acme/shop.git",
        ForgeKind::GitLab => "https://gitlab.acme.test/acme/web/shop.git",
        ForgeKind::Gitea => "git@gitea.acme.test:acme/shop.git",
        ForgeKind::Bitbucket => "https://bitbucket.org/acme/shop",
    }
}

/// The event that the header of a payload names.
pub(crate) fn event_header(forge: ForgeKind, name: &str) -> (&'static str, &'static str) {
    match (forge, name) {
        (ForgeKind::GitHub, "push") => ("x-github-event", "push"),
        (ForgeKind::GitHub, "ping") => ("x-github-event", "ping"),
        (ForgeKind::GitHub, "comment") => ("x-github-event", "issue_comment"),
        (ForgeKind::GitHub, _) => ("x-github-event", "pull_request"),
        (ForgeKind::GitLab, "push") => ("x-gitlab-event", "Push Hook"),
        (ForgeKind::GitLab, "comment") => ("x-gitlab-event", "Note Hook"),
        (ForgeKind::GitLab, _) => ("x-gitlab-event", "Merge Request Hook"),
        (ForgeKind::Gitea, "push") => ("x-gitea-event", "push"),
        (ForgeKind::Gitea, "comment") => ("x-gitea-event", "issue_comment"),
        (ForgeKind::Gitea, _) => ("x-gitea-event", "pull_request"),
        (ForgeKind::Bitbucket, "push") => ("x-event-key", "repo:push"),
        (ForgeKind::Bitbucket, "comment") => ("x-event-key", "pullrequest:comment_created"),
        (ForgeKind::Bitbucket, "opened" | "draft" | "fork") => ("x-event-key", "pullrequest:created"),
        (ForgeKind::Bitbucket, "merged") => ("x-event-key", "pullrequest:fulfilled"),
        (ForgeKind::Bitbucket, "closed") => ("x-event-key", "pullrequest:rejected"),
        (ForgeKind::Bitbucket, _) => ("x-event-key", "pullrequest:updated"),
    }
}

pub(crate) fn delivery_header(forge: ForgeKind) -> &'static str {
    match forge {
        ForgeKind::GitHub => "x-github-delivery",
        ForgeKind::GitLab => "idempotency-key",
        ForgeKind::Gitea => "x-gitea-delivery",
        ForgeKind::Bitbucket => "x-request-uuid",
    }
}

/// The signature that a forge sends for a body.
pub(crate) fn signature(forge: ForgeKind, secret: &str, body: &[u8]) -> (&'static str, String) {
    let signed = sign_hook_body(&RedactedString::new(secret.to_owned()), body);
    match forge {
        ForgeKind::GitHub => ("x-hub-signature-256", format!("sha256={signed}")),
        ForgeKind::GitLab => ("x-gitlab-token", secret.to_owned()),
        ForgeKind::Gitea => ("x-gitea-signature", signed),
        ForgeKind::Bitbucket => ("x-hub-signature", format!("sha256={signed}")),
    }
}

pub(crate) fn read_payload(forge: ForgeKind, name: &str) -> Vec<u8> {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/forge_hooks/payloads");
    std::fs::read(format!("{dir}/{forge}/{name}.json")).unwrap()
}

/// A server that forges can reach.
fn public_config() -> AppConfig {
    AppConfig {
        public_url: Some("https://berth.acme.test".into()),
        egress_allow: vec!["127.0.0.1".parse().unwrap()],
        ..AppConfig::local(([127, 0, 0, 1], 8080).into())
    }
}

/// A connected repository whose webhook was not created by Berth.
struct ConnectedRepository {
    world: TestWorld,
    forge: ForgeKind,
    repository: String,
    path: String,
    secret: String,
}

impl ConnectedRepository {
    async fn new(forge: ForgeKind) -> Self {
        Self::in_world(TestWorld::with_config(public_config()).await, forge).await
    }

    async fn in_world(world: TestWorld, forge: ForgeKind) -> Self {
        let repository = create_repository(&world, repository_url(forge)).await;
        let connected = connect(&world, &repository, &json!({})).await;
        assert_eq!(connected.status, 201, "{}", connected.text);
        let data = &connected.body["data"];
        let path = data["hookUrl"].as_str().unwrap().strip_prefix("https://berth.acme.test").unwrap();
        let (path, secret) = (path.to_owned(), data["secret"].as_str().unwrap().to_owned());
        Self { world, forge, repository, path, secret }
    }

    /// A delivery of one of the payloads, as its forge sends it.
    fn delivery(&self, name: &str, id: &str) -> TestRequest {
        self.delivery_of(name, id, read_payload(self.forge, name))
    }

    fn delivery_of(&self, name: &str, id: &str, body: Vec<u8>) -> TestRequest {
        let (event, signed) = (event_header(self.forge, name), signature(self.forge, &self.secret, &body));
        let request = post(&self.path).header("content-type", "application/json").header(event.0, event.1);
        let request = request.header("content-length", &body.len().to_string());
        request.header(delivery_header(self.forge), id).header(signed.0, &signed.1).raw(body)
    }

    async fn deliver(&self, name: &str, id: &str) -> TestResponse {
        self.world.send(self.delivery(name, id)).await
    }

    async fn outcomes(&self) -> Vec<String> {
        let path = format!("{REPOSITORIES}/{}/deliveries", self.repository);
        let listed = self.world.send(get(&path).with_account(&self.world.ada)).await;
        assert_eq!(listed.status, 200, "{}", listed.text);
        let items = listed.body["data"].as_array().unwrap();
        items.iter().map(|it| format!("{}: {}", it["kind"], it["outcome"]).replace('"', "")).collect()
    }

    async fn view(&self) -> Value {
        let path = format!("{REPOSITORIES}/{}/connection", self.repository);
        self.world.send(get(&path).with_account(&self.world.ada)).await.body["data"].clone()
    }

    fn id(&self) -> RepositoryId {
        self.repository.parse().unwrap()
    }

    /// When the next sync is due.
    async fn sync_due_at(&self) -> Option<Timestamp> {
        let (org, id) = (find_organization(&self.world).await, self.id());
        let read = self.world.app.store().read(Some(org), move |db| {
            Ok::<_, berth_store::StoreError>(berth_store::tables::repository::by_id(db, id)?.unwrap())
        });
        read.await.unwrap().seen.due_at
    }

    /// Everything that a delivery can change: pull requests, commands and the time of the next sync.
    async fn state(&self) -> String {
        let (org, id) = (find_organization(&self.world).await, self.id());
        let read = self.world.app.store().read(Some(org), move |db| {
            use berth_store::tables::{pull_request, pull_request_command, repository};
            let all = pull_request::by_number(db, id, 42)?;
            let commands = pull_request_command::list_unanswered(db, id, 42, 100)?;
            let due = repository::by_id(db, id)?.unwrap().seen.due_at;
            Ok::<_, berth_store::StoreError>(format!("{all:?} {commands:?} {due:?}"))
        });
        read.await.unwrap()
    }
}

async fn find_organization(world: &TestWorld) -> OrgId {
    let read = world.app.store().read(None, |db| {
        let slug = berth_core::name::Slug::parse("acme").unwrap();
        Ok::<_, berth_store::StoreError>(organization::by_slug(db, &slug)?.unwrap().id)
    });
    read.await.unwrap()
}

async fn create_repository(world: &TestWorld, url: &str) -> String {
    let made = world.send(post(REPOSITORIES).with_account(&world.ada).json(&json!({"url": url}))).await;
    assert_eq!(made.status, 201, "{}", made.text);
    made.body["data"]["id"].as_str().unwrap().to_owned()
}

async fn connect(world: &TestWorld, repository: &str, body: &Value) -> TestResponse {
    let path = format!("{REPOSITORIES}/{repository}/connection");
    world.send(post(&path).with_account(&world.ada).json(body)).await
}
