//! Stores pull requests and their claims directly, without a forge.

use berth_core::forge::{ForgeUser, PullRequestClaim, PullRequestSnapshot, PullRequestStatus};
use berth_store::tables::{pull_request, pull_request_claim};
use berth_store::{StoreError, TxContext};
use serde_json::json;

use super::audit_export::acme_org_id;
use super::world::{TestWorld, post};

pub(crate) fn snapshot(title: &str) -> PullRequestSnapshot {
    PullRequestSnapshot {
        title: title.into(),
        url: "https://git.acme.test/acme/shop/pull/42".into(),
        author: ForgeUser { id: "7".into(), name: "grace".into() },
        head: "4d6d0ebe".repeat(5),
        head_branch: "dark-mode".into(),
        base_branch: "main".into(),
        is_fork: false,
        labels: vec!["preview".into()],
        is_draft: false,
        status: PullRequestStatus::Open,
        changed_at: berth_core::time::Timestamp::from_micros(1_700_000_000_000_000),
    }
}

/// Creates a repository of acme that the pipelines with these slugs come from. Returns its id.
pub(crate) async fn create_repository(world: &TestWorld, url: &str, slugs: &[&str]) -> String {
    let made =
        post("/api/v1/organizations/acme/repositories").with_account(&world.ada).json(&json!({"url": url}));
    let made = world.send(made).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let id = made.body["data"]["id"].as_str().unwrap().to_owned();
    attach(world, &id, slugs);
    id
}

/// Makes pipelines belong to a repository, as a sync does.
pub(crate) fn attach(world: &TestWorld, repository: &str, slugs: &[&str]) {
    for slug in slugs {
        world.run_sql(&format!(
            "UPDATE pipelines SET repository_id = '{repository}', path = '.berth/{slug}/pipeline.yaml'
             WHERE slug = '{slug}'"
        ));
    }
}

pub(crate) async fn store_pull_request(
    world: &TestWorld,
    repository: &str,
    number: i64,
    seen: PullRequestSnapshot,
) {
    let (org, repository) = (acme_org_id(world).await, repository.parse().unwrap());
    let stored = world
        .app
        .store()
        .transact(TxContext::system(Some(org)), move |tx| pull_request::see(tx, repository, number, seen));
    stored.await.unwrap();
}

/// What a claim refers to.
#[derive(Default)]
pub(crate) struct ClaimTarget<'a> {
    pub(crate) pipeline: &'a str,
    pub(crate) environment: &'a str,
    pub(crate) ticket: Option<&'a str>,
    pub(crate) session: Option<&'a str>,
    pub(crate) deployment: Option<&'a str>,
}

pub(crate) async fn store_claim(world: &TestWorld, repository: &str, number: i64, of: ClaimTarget<'_>) {
    let org = acme_org_id(world).await;
    let claim = PullRequestClaim {
        repository: repository.parse().unwrap(),
        number,
        pipeline: of.pipeline.parse().unwrap(),
        environment: of.environment.parse().unwrap(),
        ticket: of.ticket.map(|id| id.parse().unwrap()),
        session: of.session.map(|id| id.parse().unwrap()),
        deployment: of.deployment.map(|id| id.parse().unwrap()),
        commit: of.deployment.map(|_| "4d6d0ebe".repeat(5)),
        is_stopped: false,
        created_at: berth_core::time::Timestamp::from_micros(1_700_000_000_000_000),
    };
    let stored = world.app.store().transact(TxContext::system(Some(org)), move |tx| {
        pull_request_claim::put(tx, &claim)?;
        Ok::<_, StoreError>(())
    });
    stored.await.unwrap();
}
