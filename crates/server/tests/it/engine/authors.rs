//! Authors of a change try to approve it. The authors are read from a real repository.

use std::time::Instant;

use serde_json::{Value, json};

use super::{ORG, PATIENCE, PipelineFixture, expect_data};
use crate::git::OriginRepository;
use crate::world::{MemberAccount, POLL_EVERY, get, post};

/// A repository with a pipeline whose stage requires approval, and several members who could approve.
struct AuthorsFixture {
    fixture: PipelineFixture,
    origin: OriginRepository,
    repository: String,
    bob: MemberAccount,
    carol: MemberAccount,
    /// Starts the deployments. Is the author of commits only where a test says so.
    rob: MemberAccount,
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
fn name_and_email(name: &str) -> (String, String) {
    match name.split_once('@') {
        Some((local, _)) => (local.to_owned(), name.to_owned()),
        None => (name.to_owned(), format!("{}@acme.test", name.to_lowercase())),
    }
}

impl AuthorsFixture {
    /// Registers a repository with a single commit, made by Ada.
    async fn new(definition: &str) -> Self {
        let (fixture, origin) = (PipelineFixture::start().await, OriginRepository::new());
        let bob = fixture.world.create_member("bob@acme.test", "deployer").await;
        let carol = fixture.world.create_member("carol@acme.test", "admin").await;
        let rob = fixture.world.create_member("rob@acme.test", "deployer").await;
        origin.write(".berth/shop/pipeline.yaml", definition);
        origin.commit("by Ada");
        let made = fixture.post("/repositories", &json!({"url": origin.url().as_str()})).await;
        let repository = expect_data(&made, 201)["id"].as_str().unwrap().to_owned();
        let shop = Self { fixture, origin, repository, bob, carol, rob };
        shop.wait_until("/pipelines", |it| it[0]["slug"] == "shop").await;
        shop
    }

    async fn wait_until(&self, path: &str, is_met: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let seen = self.fixture.fetch(path).await;
            if is_met(&seen) {
                return seen;
            }
            assert!(Instant::now() < deadline, "{seen}");
            tokio::time::sleep(POLL_EVERY).await;
        }
    }

    /// Commits with this author and committer, and returns the hash.
    fn commit(&self, author: &str, committer: &str, message: &str) -> String {
        let ((name, email), (committer_name, committer_email)) =
            (name_and_email(author), name_and_email(committer));
        let (committer_name, committer_email) =
            (format!("user.name={committer_name}"), format!("user.email={committer_email}"));
        let author = format!("--author={name} <{email}>");
        let commit = ["commit", "--quiet", "--allow-empty", &author, "-m", message];
        self.origin.git(&[&["-c", &committer_name, "-c", &committer_email][..], &commit].concat());
        self.origin.git(&["rev-parse", "HEAD"])
    }

    async fn start_deployment(&self, token: &str, body: &Value) -> String {
        let path = format!("{ORG}/pipelines/shop/deployments");
        let started = self.fixture.send(post(&path).token(token).json(body)).await;
        expect_data(&started, 202)["id"].as_str().unwrap().to_owned()
    }

    /// Deploys a commit as Rob and returns the pending approval.
    async fn request_approval(&self, commit: &str) -> Value {
        let id = self.start_deployment(&self.rob.token, &json!({"commitId": commit})).await;
        self.fixture.wait_for_approval(&id).await
    }

    /// Deploys a commit and bypasses the approval.
    async fn deploy_with_bypass(&self, commit: &str) -> String {
        let body = json!({"commitId": commit, "bypass": {"reason": "first"}});
        let id = self.start_deployment(&self.fixture.ada().token, &body).await;
        assert_eq!(self.fixture.wait_for_end(&id).await["status"], "succeeded");
        id
    }

    fn head_commit(&self) -> String {
        self.origin.git(&["rev-parse", "HEAD"])
    }

    async fn assert_refused(&self, approval: &Value, who: &MemberAccount) {
        self.fixture.approve(approval, who).await.assert_problem(403, "not_eligible");
    }

    async fn load_approval(&self, approval: &Value) -> Value {
        self.fixture.fetch(&format!("/approvals/{}", approval["id"].as_str().unwrap())).await
    }
}

const RULE: &str = "{ self_approval: false }";
/// A branch to which nothing is pushed, so that deployments start only on request.
const UNTRACKED_BRANCH: &str = "release";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn author_cannot_approve_own_change_behind_a_merge_commit() {
    let shop = AuthorsFixture::new(&definition(RULE, "main")).await;
    let fixture = &shop.fixture;
    let first = fixture.wait_for_approval(&fixture.wait_for_first_deployment().await).await;
    shop.assert_refused(&first, fixture.ada()).await;
    assert_eq!(fixture.approve(&first, &shop.bob).await.status, 200);
    fixture.wait_for_end(first["deploymentId"].as_str().unwrap()).await;

    // Carol merges Bob's commit, and Rob adds a commit on top of the merge.
    shop.origin.git(&["checkout", "--quiet", "-b", "feature"]);
    shop.commit("Bob", "Bob", "a change");
    shop.origin.git(&["checkout", "--quiet", "main"]);
    let merge = ["merge", "--quiet", "--no-ff", "--no-edit", "feature"];
    shop.origin.git(&[&["-c", "user.name=Carol", "-c", "user.email=Carol@Acme.Test"][..], &merge].concat());
    let head = shop.commit("Rob", "Rob", "on top");
    fixture.post(&format!("/repositories/{}/sync", shop.repository), &json!({})).await;
    let is_there = |it: &Value| it[0]["resolvedCommitId"] == json!(head);
    let pushed = shop.wait_until("/pipelines/shop/deployments", is_there).await[0].clone();
    assert_eq!(pushed["trigger"], "push", "{pushed}");
    let asked = fixture.wait_for_approval(pushed["id"].as_str().unwrap()).await;
    assert_eq!(asked["excluded"], json!(["bob", "carol", "rob"]), "{asked}");
    for who in [&shop.bob, &shop.carol, &shop.rob] {
        shop.assert_refused(&asked, who).await;
    }
    // Ada's commit is already deployed in the stage, so she is not an author of this change.
    let said = expect_data(&fixture.approve(&asked, fixture.ada()).await, 200);
    assert_eq!((&said["status"], &said["required"]), (&json!("approved"), &json!(1)), "{said}");
    assert_eq!(fixture.wait_for_end(pushed["id"].as_str().unwrap()).await["status"], "succeeded");
    shop.fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn committers_and_co_authors_cannot_approve() {
    let shop = AuthorsFixture::new(&definition(RULE, UNTRACKED_BRANCH)).await;
    shop.deploy_with_bypass(&shop.head_commit()).await;
    let message = "together\n\nMore of it.\n\nSigned-off-by: Ada <ada@acme.test>\nco-authored-by: C. <CAROL@acme.test>\n";
    shop.commit("Dora", "Bob", message);
    let dora = shop.fixture.world.create_member("dora@acme.test", "deployer").await;
    let asked = shop.request_approval(&shop.head_commit()).await;
    for who in [&dora, &shop.bob, &shop.carol, &shop.rob] {
        shop.assert_refused(&asked, who).await;
    }
    let no = format!("{ORG}/approvals/{}/reject", asked["id"].as_str().unwrap());
    assert_eq!(asked["required"], 1, "{asked}");
    assert_eq!(
        shop.fixture.send(post(&no).with_account(&shop.carol).json(&json!({}))).await.status,
        200,
        "authors may reject"
    );
    shop.fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unknown_authors_raise_the_quorum_by_one_in_total() {
    let shop = AuthorsFixture::new(&definition(RULE, UNTRACKED_BRANCH)).await;
    let fixture = &shop.fixture;
    shop.deploy_with_bypass(&shop.head_commit()).await;
    let merged = shop.commit("Rob", "noreply@github.com", "merged on the forge");
    assert_eq!(shop.request_approval(&merged).await["required"], 1, "a forge is no author");
    shop.commit("ghost@example.org", "ghost@example.org", "unknown");
    let head = shop.commit("other@example.org", "Rob", "unknown too");
    let asked = shop.request_approval(&head).await;
    assert_eq!((&asked["required"], &asked["rule"]["approvals"]), (&json!(2), &json!(1)), "{asked}");
    let why = asked["raisedBecause"].as_str().unwrap();
    assert!(why.contains("ghost@example.org, other@example.org"), "{why}");
    let first = expect_data(&fixture.approve(&asked, &shop.bob).await, 200);
    assert_eq!((&first["status"], &first["given"]), (&json!("pending"), &json!(1)), "{first}");
    let waits = fixture.fetch(&format!("/deployments/{}", asked["deploymentId"].as_str().unwrap())).await;
    assert_eq!(waits["blockedBy"][0]["detail"], "stage \"production\" needs 2 approvals; 1 so far");

    // If only one of the unknown authors becomes a member, two approvals are still required. Once both are members,
    // Bob's approval is enough.
    fixture.world.create_member("ghost@example.org", "viewer").await;
    assert_eq!(shop.load_approval(&asked).await["required"], 2);
    fixture.world.create_member("Other@example.org", "deployer").await;
    let ended = fixture.wait_for_end(asked["deploymentId"].as_str().unwrap()).await;
    assert_eq!(ended["status"], "succeeded");
    let granted = shop.load_approval(&asked).await;
    assert_eq!((&granted["status"], &granted["required"]), (&json!("approved"), &json!(1)), "{granted}");
    shop.fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rollback_excludes_the_person_who_started_it_alone() {
    let shop = AuthorsFixture::new(&definition(RULE, UNTRACKED_BRANCH)).await;
    let fixture = &shop.fixture;
    shop.deploy_with_bypass(&shop.commit("Bob", "Bob", "one")).await;
    let second = shop.deploy_with_bypass(&shop.commit("ghost@example.org", "Carol", "two")).await;
    let back = expect_data(&fixture.roll_back(&second, &json!({})).await, 202);
    let asked = fixture.wait_for_approval(back["id"].as_str().unwrap()).await;
    assert_eq!((&asked["required"], &asked["excluded"]), (&json!(1), &json!(["ada"])), "{asked}");
    shop.assert_refused(&asked, fixture.ada()).await;
    assert_eq!(fixture.approve(&asked, &shop.bob).await.status, 200);
    assert_eq!(fixture.wait_for_end(back["id"].as_str().unwrap()).await["status"], "succeeded");
    shop.fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn authors_are_read_again_after_a_rollback_of_the_stage() {
    let shop =
        AuthorsFixture::new(&definition("{ approvals: 2, self_approval: false }", UNTRACKED_BRANCH)).await;
    let fixture = &shop.fixture;
    let dora = fixture.world.create_member("dora@acme.test", "deployer").await;
    shop.deploy_with_bypass(&shop.head_commit()).await;
    let second = shop.deploy_with_bypass(&shop.commit("Bob", "Bob", "two")).await;
    let asked = shop.request_approval(&shop.commit("Carol", "Carol", "three")).await;
    assert_eq!(expect_data(&fixture.approve(&asked, &shop.bob).await, 200)["given"], 1);

    let back =
        expect_data(&fixture.roll_back(&second, &json!({})).await, 202)["id"].as_str().unwrap().to_owned();
    let to_go_back = fixture.wait_for_approval(&back).await;
    for who in [&shop.bob, &dora] {
        assert_eq!(fixture.approve(&to_go_back, who).await.status, 200);
    }
    assert_eq!(fixture.wait_for_end(&back).await["status"], "succeeded");
    let path = format!("/approvals/{}", asked["id"].as_str().unwrap());
    let now = shop.wait_until(&path, |it| it["given"] == 0).await;
    assert_eq!(now["votes"][0]["counts"], false, "what Bob wrote is no longer in the stage: {now}");
    assert_eq!(now["excluded"], json!(["bob", "carol", "rob"]), "{now}");
    shop.fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn first_deployment_of_a_stage_counts_its_last_250_commits() {
    let shop = AuthorsFixture::new(&definition(RULE, UNTRACKED_BRANCH)).await;
    shop.commit("Bob", "Bob", "long ago");
    shop.origin.add_commits(250, |_| "ada@acme.test".to_owned());
    let asked = shop.request_approval(&shop.origin.git(&["rev-parse", "main~1"])).await;
    assert_eq!(asked["excluded"], json!(["ada", "bob", "rob"]), "{asked}");
    shop.assert_refused(&asked, &shop.bob).await;
    let asked = shop.request_approval(&shop.origin.git(&["rev-parse", "main"])).await;
    assert_eq!(asked["excluded"], json!(["ada", "rob"]), "{asked}");
    assert_eq!(shop.fixture.approve(&asked, &shop.bob).await.status, 200);
    shop.fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn service_account_owner_and_token_creator_cannot_approve() {
    let shop = AuthorsFixture::new(&definition(RULE, UNTRACKED_BRANCH)).await;
    let fixture = &shop.fixture;
    shop.deploy_with_bypass(&shop.head_commit()).await;
    let commit = shop.commit("Rob", "Rob", "a change");
    let (service, _) = fixture.world.create_service_account("ci@acme.test", "deployer").await;
    let create = post(&format!("{ORG}/api-tokens")).with_account(&shop.carol);
    let made = fixture.send(create.json(&json!({"name": "shared", "ownerId": service}))).await;
    let token = expect_data(&made, 201)["token"].as_str().unwrap().to_owned();
    let id = shop.start_deployment(&token, &json!({"commitId": commit})).await;
    let asked = fixture.wait_for_approval(&id).await;
    assert_eq!(asked["excluded"], json!(["ada", "carol", "rob"]), "{asked}");
    for who in [fixture.ada(), &shop.carol, &shop.rob] {
        shop.assert_refused(&asked, who).await;
    }
    assert_eq!(fixture.approve(&asked, &shop.bob).await.status, 200);
    shop.fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unreachable_quorum_is_shown_with_advice() {
    let shop =
        AuthorsFixture::new(&definition("{ approvals: 2, self_approval: false }", UNTRACKED_BRANCH)).await;
    let fixture = &shop.fixture;
    shop.deploy_with_bypass(&shop.head_commit()).await;
    let commit = shop.commit("Bob", "Carol", "a change");
    let asked = shop.request_approval(&commit).await;
    let why = asked["unreachable"].as_str().unwrap();
    assert_eq!(
        why,
        "2 approvals are needed, but only 1 of the members can approve; people who wrote or started the change cannot. \
         Add members who may approve, or deploy again with a bypass, which is recorded."
    );
    let waits = fixture.fetch(&format!("/deployments/{}", asked["deploymentId"].as_str().unwrap())).await;
    let detail = &waits["blockedBy"][0]["detail"];
    assert_eq!(detail, "stage \"production\" needs 2 approvals; 0 so far; too few members can approve");
    let listed = fixture.fetch("/approvals").await;
    assert_eq!(listed[0]["unreachable"], asked["unreachable"]);
    fixture.world.create_member("dora@acme.test", "deployer").await;
    assert_eq!(shop.load_approval(&asked).await["unreachable"], json!(null));
    shop.deploy_with_bypass(&commit).await;
    assert!(fixture.world.event_kinds().await.iter().any(|kind| kind == "bypass_used"));
    shop.fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn approval_step_in_an_environment_excludes_the_authors() {
    let steps = "  steps:
    - { name: Ask, type: approval, params: { self_approval: false } }
";
    let plain = definition("{ approvals: 1 }", UNTRACKED_BRANCH);
    let (body, _) = plain.split_once("  steps:").unwrap();
    let shop = AuthorsFixture::new(&format!("{body}{steps}")).await;
    let fixture = &shop.fixture;
    let commit = shop.commit("Bob", "Bob", "a change");
    let (_, id) = fixture.claim(&commit).await;
    let is_asked = |it: &Value| it[0]["deploymentId"] == json!(id);
    let asked = shop.wait_until("/approvals", is_asked).await[0].clone();
    let path = format!("/approvals/{}", asked["id"].as_str().unwrap());
    shop.wait_until(&path, |it| it["excluded"] == json!(["ada", "bob"])).await;
    shop.assert_refused(&asked, &shop.bob).await;
    shop.assert_refused(&asked, fixture.ada()).await;
    assert_eq!(fixture.approve(&asked, &shop.rob).await.status, 200);
    assert_eq!(fixture.wait_for_end(&id).await["status"], "succeeded");
    let listed = fixture.send(get(&format!("{ORG}{path}")).with_account(&shop.rob)).await;
    assert_eq!(expect_data(&listed, 200)["status"], "approved");
    shop.fixture.shut_down().await;
}
