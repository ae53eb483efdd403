//! Authors of a change try to approve it. The authors are read from a real repository.

use std::time::Instant;

use serde_json::{Value, json};

use super::{Harbour, ORG, PATIENCE, data};
use crate::git::Origin;
use crate::world::{Account, POLL_EVERY, get, post};

/// A repository with a pipeline whose stage requires approval, and several members who could approve.
struct Shop {
    harbour: Harbour,
    origin: Origin,
    repository: String,
    bob: Account,
    carol: Account,
    /// Starts the deployments. Is the author of commits only where a test says so.
    rob: Account,
}

/// `tracks` is the branch whose pushes are deployed automatically.
fn definition(rule: &str, tracks: &str) -> String {
    format!(
        "version: 1
pipeline:
  name: Shop
  tracks: {tracks}
  stages:
    - name: production
      requires: {rule}
  ephemeral_environments: {{ qa-1: {{}} }}
  steps:
    - {{ name: Deploy, type: script, params: {{ run: 'true' }} }}
"
    )
}

/// Name and email address of a person. For `Bob`, the address is `bob@acme.test`. `name` can also be an email address.
fn person(name: &str) -> (String, String) {
    match name.split_once('@') {
        Some((local, _)) => (local.to_owned(), name.to_owned()),
        None => (name.to_owned(), format!("{}@acme.test", name.to_lowercase())),
    }
}

impl Shop {
    /// Registers a repository with a single commit, made by Ada.
    async fn open(definition: &str) -> Self {
        let (harbour, origin) = (Harbour::open().await, Origin::new());
        let bob = harbour.world.member("bob@acme.test", "deployer").await;
        let carol = harbour.world.member("carol@acme.test", "admin").await;
        let rob = harbour.world.member("rob@acme.test", "deployer").await;
        origin.write(".berth/shop/pipeline.yaml", definition);
        origin.commit("by Ada");
        let made = harbour.post("/repositories", &json!({"url": origin.url().as_str()})).await;
        let repository = data(&made, 201)["id"].as_str().unwrap().to_owned();
        let shop = Self { harbour, origin, repository, bob, carol, rob };
        shop.eventually("/pipelines", |it| it[0]["slug"] == "shop").await;
        shop
    }

    async fn eventually(&self, path: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let seen = self.harbour.see(path).await;
            if is_so(&seen) {
                return seen;
            }
            assert!(Instant::now() < deadline, "{seen}");
            tokio::time::sleep(POLL_EVERY).await;
        }
    }

    /// Commits with this author and committer, and returns the hash.
    fn commit(&self, author: &str, committer: &str, message: &str) -> String {
        let ((name, email), (by, of)) = (person(author), person(committer));
        let (by, of) = (format!("user.name={by}"), format!("user.email={of}"));
        let author = format!("--author={name} <{email}>");
        let commit = ["commit", "--quiet", "--allow-empty", &author, "-m", message];
        self.origin.git(&[&["-c", &by, "-c", &of][..], &commit].concat());
        self.origin.git(&["rev-parse", "HEAD"])
    }

    async fn start_with(&self, token: &str, body: &Value) -> String {
        let path = format!("{ORG}/pipelines/shop/deployments");
        let started = self.harbour.send(post(&path).token(token).json(body)).await;
        data(&started, 202)["id"].as_str().unwrap().to_owned()
    }

    /// Deploys a commit as Rob and returns the pending approval.
    async fn ask(&self, commit: &str) -> Value {
        let id = self.start_with(&self.rob.token, &json!({"commitId": commit})).await;
        self.harbour.asked(&id).await
    }

    /// Deploys a commit and bypasses the approval.
    async fn bypass(&self, commit: &str) -> String {
        let body = json!({"commitId": commit, "bypass": {"reason": "first"}});
        let id = self.start_with(&self.harbour.ada().token, &body).await;
        assert_eq!(self.harbour.end_of(&id).await["status"], "succeeded");
        id
    }

    fn head(&self) -> String {
        self.origin.git(&["rev-parse", "HEAD"])
    }

    async fn assert_refused(&self, approval: &Value, who: &Account) {
        self.harbour.approve(approval, who).await.is(403, "not_eligible");
    }

    async fn see(&self, approval: &Value) -> Value {
        self.harbour.see(&format!("/approvals/{}", approval["id"].as_str().unwrap())).await
    }
}

const RULE: &str = "{ self_approval: false }";
/// A branch to which nothing is pushed, so that deployments start only on request.
const BY_HAND: &str = "release";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn author_cannot_approve_own_change_behind_a_merge_commit() {
    let shop = Shop::open(&definition(RULE, "main")).await;
    let harbour = &shop.harbour;
    let first = harbour.asked(&harbour.first_deployment().await).await;
    shop.assert_refused(&first, harbour.ada()).await;
    assert_eq!(harbour.approve(&first, &shop.bob).await.status, 200);
    harbour.end_of(first["deploymentId"].as_str().unwrap()).await;

    // Carol merges Bob's commit, and Rob adds a commit on top of the merge.
    shop.origin.git(&["checkout", "--quiet", "-b", "feature"]);
    shop.commit("Bob", "Bob", "a change");
    shop.origin.git(&["checkout", "--quiet", "main"]);
    let merge = ["merge", "--quiet", "--no-ff", "--no-edit", "feature"];
    shop.origin.git(&[&["-c", "user.name=Carol", "-c", "user.email=Carol@Acme.Test"][..], &merge].concat());
    let head = shop.commit("Rob", "Rob", "on top");
    harbour.post(&format!("/repositories/{}/sync", shop.repository), &json!({})).await;
    let is_there = |it: &Value| it[0]["resolvedCommitId"] == json!(head);
    let pushed = shop.eventually("/pipelines/shop/deployments", is_there).await[0].clone();
    assert_eq!(pushed["trigger"], "push", "{pushed}");
    let asked = harbour.asked(pushed["id"].as_str().unwrap()).await;
    assert_eq!(asked["excluded"], json!(["bob", "carol", "rob"]), "{asked}");
    for who in [&shop.bob, &shop.carol, &shop.rob] {
        shop.assert_refused(&asked, who).await;
    }
    // Ada's commit is already deployed in the stage, so she is not an author of this change.
    let said = data(&harbour.approve(&asked, harbour.ada()).await, 200);
    assert_eq!((&said["status"], &said["required"]), (&json!("approved"), &json!(1)), "{said}");
    assert_eq!(harbour.end_of(pushed["id"].as_str().unwrap()).await["status"], "succeeded");
    shop.harbour.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn committers_and_co_authors_cannot_approve() {
    let shop = Shop::open(&definition(RULE, BY_HAND)).await;
    shop.bypass(&shop.head()).await;
    let message = "together\n\nMore of it.\n\nSigned-off-by: Ada <ada@acme.test>\nco-authored-by: C. <CAROL@acme.test>\n";
    shop.commit("Dora", "Bob", message);
    let dora = shop.harbour.world.member("dora@acme.test", "deployer").await;
    let asked = shop.ask(&shop.head()).await;
    for who in [&dora, &shop.bob, &shop.carol, &shop.rob] {
        shop.assert_refused(&asked, who).await;
    }
    let no = format!("{ORG}/approvals/{}/reject", asked["id"].as_str().unwrap());
    assert_eq!(asked["required"], 1, "{asked}");
    assert_eq!(
        shop.harbour.send(post(&no).by(&shop.carol).json(&json!({}))).await.status,
        200,
        "authors may reject"
    );
    shop.harbour.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unknown_authors_raise_the_quorum_by_one_in_total() {
    let shop = Shop::open(&definition(RULE, BY_HAND)).await;
    let harbour = &shop.harbour;
    shop.bypass(&shop.head()).await;
    let merged = shop.commit("Rob", "noreply@github.com", "merged on the forge");
    assert_eq!(shop.ask(&merged).await["required"], 1, "a forge is no author");
    shop.commit("ghost@example.org", "ghost@example.org", "unknown");
    let head = shop.commit("other@example.org", "Rob", "unknown too");
    let asked = shop.ask(&head).await;
    assert_eq!((&asked["required"], &asked["rule"]["approvals"]), (&json!(2), &json!(1)), "{asked}");
    let why = asked["raisedBecause"].as_str().unwrap();
    assert!(why.contains("ghost@example.org, other@example.org"), "{why}");
    let first = data(&harbour.approve(&asked, &shop.bob).await, 200);
    assert_eq!((&first["status"], &first["given"]), (&json!("pending"), &json!(1)), "{first}");
    let waits = harbour.see(&format!("/deployments/{}", asked["deploymentId"].as_str().unwrap())).await;
    assert_eq!(waits["blockedBy"][0]["detail"], "stage \"production\" needs 2 approvals; 1 so far");

    // If only one of the unknown authors becomes a member, two approvals are still required. Once both are members,
    // Bob's approval is enough.
    harbour.world.member("ghost@example.org", "viewer").await;
    assert_eq!(shop.see(&asked).await["required"], 2);
    harbour.world.member("Other@example.org", "deployer").await;
    let ended = harbour.end_of(asked["deploymentId"].as_str().unwrap()).await;
    assert_eq!(ended["status"], "succeeded");
    let granted = shop.see(&asked).await;
    assert_eq!((&granted["status"], &granted["required"]), (&json!("approved"), &json!(1)), "{granted}");
    shop.harbour.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rollback_excludes_the_person_who_started_it_alone() {
    let shop = Shop::open(&definition(RULE, BY_HAND)).await;
    let harbour = &shop.harbour;
    shop.bypass(&shop.commit("Bob", "Bob", "one")).await;
    let second = shop.bypass(&shop.commit("ghost@example.org", "Carol", "two")).await;
    let back = data(&harbour.roll_back(&second, &json!({})).await, 202);
    let asked = harbour.asked(back["id"].as_str().unwrap()).await;
    assert_eq!((&asked["required"], &asked["excluded"]), (&json!(1), &json!(["ada"])), "{asked}");
    shop.assert_refused(&asked, harbour.ada()).await;
    assert_eq!(harbour.approve(&asked, &shop.bob).await.status, 200);
    assert_eq!(harbour.end_of(back["id"].as_str().unwrap()).await["status"], "succeeded");
    shop.harbour.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn authors_are_read_again_after_a_rollback_of_the_stage() {
    let shop = Shop::open(&definition("{ approvals: 2, self_approval: false }", BY_HAND)).await;
    let harbour = &shop.harbour;
    let dora = harbour.world.member("dora@acme.test", "deployer").await;
    shop.bypass(&shop.head()).await;
    let second = shop.bypass(&shop.commit("Bob", "Bob", "two")).await;
    let asked = shop.ask(&shop.commit("Carol", "Carol", "three")).await;
    assert_eq!(data(&harbour.approve(&asked, &shop.bob).await, 200)["given"], 1);

    let back = data(&harbour.roll_back(&second, &json!({})).await, 202)["id"].as_str().unwrap().to_owned();
    let to_go_back = harbour.asked(&back).await;
    for who in [&shop.bob, &dora] {
        assert_eq!(harbour.approve(&to_go_back, who).await.status, 200);
    }
    assert_eq!(harbour.end_of(&back).await["status"], "succeeded");
    let path = format!("/approvals/{}", asked["id"].as_str().unwrap());
    let now = shop.eventually(&path, |it| it["given"] == 0).await;
    assert_eq!(now["votes"][0]["counts"], false, "what Bob wrote is no longer in the stage: {now}");
    assert_eq!(now["excluded"], json!(["bob", "carol", "rob"]), "{now}");
    shop.harbour.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn first_deployment_of_a_stage_counts_its_last_250_commits() {
    let shop = Shop::open(&definition(RULE, BY_HAND)).await;
    shop.commit("Bob", "Bob", "long ago");
    shop.origin.pile_up(250, |_| "ada@acme.test".to_owned());
    let asked = shop.ask(&shop.origin.git(&["rev-parse", "main~1"])).await;
    assert_eq!(asked["excluded"], json!(["ada", "bob", "rob"]), "{asked}");
    shop.assert_refused(&asked, &shop.bob).await;
    let asked = shop.ask(&shop.origin.git(&["rev-parse", "main"])).await;
    assert_eq!(asked["excluded"], json!(["ada", "rob"]), "{asked}");
    assert_eq!(shop.harbour.approve(&asked, &shop.bob).await.status, 200);
    shop.harbour.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn service_account_owner_and_token_creator_cannot_approve() {
    let shop = Shop::open(&definition(RULE, BY_HAND)).await;
    let harbour = &shop.harbour;
    shop.bypass(&shop.head()).await;
    let commit = shop.commit("Rob", "Rob", "a change");
    let (service, _) = harbour.world.service("ci@acme.test", "deployer").await;
    let create = post(&format!("{ORG}/api-tokens")).by(&shop.carol);
    let made = harbour.send(create.json(&json!({"name": "shared", "ownerId": service}))).await;
    let token = data(&made, 201)["token"].as_str().unwrap().to_owned();
    let id = shop.start_with(&token, &json!({"commitId": commit})).await;
    let asked = harbour.asked(&id).await;
    assert_eq!(asked["excluded"], json!(["ada", "carol", "rob"]), "{asked}");
    for who in [harbour.ada(), &shop.carol, &shop.rob] {
        shop.assert_refused(&asked, who).await;
    }
    assert_eq!(harbour.approve(&asked, &shop.bob).await.status, 200);
    shop.harbour.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unreachable_quorum_is_shown_with_advice() {
    let shop = Shop::open(&definition("{ approvals: 2, self_approval: false }", BY_HAND)).await;
    let harbour = &shop.harbour;
    shop.bypass(&shop.head()).await;
    let commit = shop.commit("Bob", "Carol", "a change");
    let asked = shop.ask(&commit).await;
    let why = asked["unreachable"].as_str().unwrap();
    assert_eq!(
        why,
        "2 approvals are needed, but only 1 of the members can approve; people who wrote or started the change cannot. \
         Add members who may approve, or deploy again with a bypass, which is recorded."
    );
    let waits = harbour.see(&format!("/deployments/{}", asked["deploymentId"].as_str().unwrap())).await;
    let detail = &waits["blockedBy"][0]["detail"];
    assert_eq!(detail, "stage \"production\" needs 2 approvals; 0 so far; too few members can approve");
    let listed = harbour.see("/approvals").await;
    assert_eq!(listed[0]["unreachable"], asked["unreachable"]);
    harbour.world.member("dora@acme.test", "deployer").await;
    assert_eq!(shop.see(&asked).await["unreachable"], json!(null));
    shop.bypass(&commit).await;
    assert!(harbour.world.kinds().await.iter().any(|kind| kind == "bypass_used"));
    shop.harbour.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn approval_step_in_an_environment_excludes_the_authors() {
    let steps = "  steps:
    - { name: Ask, type: approval, params: { self_approval: false } }
";
    let plain = definition("{ approvals: 1 }", BY_HAND);
    let (body, _) = plain.split_once("  steps:").unwrap();
    let shop = Shop::open(&format!("{body}{steps}")).await;
    let harbour = &shop.harbour;
    let commit = shop.commit("Bob", "Bob", "a change");
    let (_, id) = harbour.claim(&commit).await;
    let is_asked = |it: &Value| it[0]["deploymentId"] == json!(id);
    let asked = shop.eventually("/approvals", is_asked).await[0].clone();
    let path = format!("/approvals/{}", asked["id"].as_str().unwrap());
    shop.eventually(&path, |it| it["excluded"] == json!(["ada", "bob"])).await;
    shop.assert_refused(&asked, &shop.bob).await;
    shop.assert_refused(&asked, harbour.ada()).await;
    assert_eq!(harbour.approve(&asked, &shop.rob).await.status, 200);
    assert_eq!(harbour.end_of(&id).await["status"], "succeeded");
    let listed = harbour.send(get(&format!("{ORG}{path}")).by(&shop.rob)).await;
    assert_eq!(data(&listed, 200)["status"], "approved");
    shop.harbour.close().await;
}
