//! What approving would change: commits, files, definition and secrets.

use std::time::Instant;

use serde_json::{Value, json};

use super::{ORG, PATIENCE, PipelineFixture, expect_data};
use crate::git::OriginRepository;
use crate::world::{POLL_EVERY, get};

const DEFINITION: &str = "version: 1
pipeline:
  name: Shop
  tracks: main
  stages:
    - name: production
      requires: { approvals: 1 }
  steps:
    - name: Deploy
      type: script
      params: { run: 'true' }
      env: { A: '${{ secrets.OLD_KEY }}', B: '${{ secrets.KEPT_KEY }}', C: '${{ secrets.ROTATED_KEY }}' }
";

/// A repository on a plain remote, whose only stage requires an approval.
struct ChangesFixture {
    fixture: PipelineFixture,
    origin: OriginRepository,
    repository: String,
}

impl ChangesFixture {
    async fn start() -> Self {
        let (fixture, origin) = (PipelineFixture::start().await, OriginRepository::new());
        for name in ["OLD_KEY", "KEPT_KEY", "ROTATED_KEY"] {
            let made = fixture.post("/secrets", &json!({"name": name, "value": "hunter2-value"})).await;
            assert_eq!(made.status, 201, "{}", made.text);
        }
        origin.write(".berth/shop/pipeline.yaml", DEFINITION);
        origin.write("a.txt", "1\n2\n");
        origin.commit("first");
        let made = fixture.post("/repositories", &json!({"url": origin.url().as_str()})).await;
        let repository = expect_data(&made, 201)["id"].as_str().unwrap().to_owned();
        Self { fixture, origin, repository }
    }

    /// Commits all files, and returns the approval that the push asks for.
    async fn push(&self, message: &str) -> Value {
        let head = self.origin.commit(message);
        let path = format!("/repositories/{}/sync", self.repository);
        assert_eq!(self.fixture.post(&path, &json!({})).await.status, 202);
        let deadline = Instant::now() + PATIENCE;
        loop {
            let seen = self.fixture.fetch("/pipelines/shop/deployments").await;
            if seen[0]["commitId"] == head.as_str() {
                return self.fixture.wait_for_approval(seen[0]["id"].as_str().unwrap()).await;
            }
            assert!(Instant::now() < deadline, "{seen}");
            tokio::time::sleep(POLL_EVERY).await;
        }
    }

    async fn fetch_changes(&self, approval: &Value) -> Value {
        self.fixture.fetch(&changes_path(approval)).await
    }

    async fn approve(&self, approval: &Value) {
        assert_eq!(self.fixture.approve(approval, self.fixture.ada()).await.status, 200);
        let ended = self.fixture.wait_for_end(approval["deploymentId"].as_str().unwrap()).await;
        assert_eq!(ended["status"], "succeeded", "{ended}");
    }
}

fn changes_path(approval: &Value) -> String {
    format!("/approvals/{}/changes", approval["id"].as_str().unwrap())
}

fn titles(changes: &Value) -> Vec<&str> {
    changes["commits"].as_array().unwrap().iter().map(|it| it["title"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn approval_changes_list_commits_files_definition_and_secrets() {
    let shop = ChangesFixture::start().await;
    let fixture = &shop.fixture;
    let first = fixture.wait_for_approval(&fixture.wait_for_first_deployment().await).await;
    let changes = shop.fetch_changes(&first).await;
    assert_eq!((&changes["from"], &changes["to"]["title"]), (&Value::Null, &json!("first")));
    assert_eq!((titles(&changes), &changes["commitCount"]), (vec!["first"], &json!(1)));
    for unknown in ["files", "fileCount", "compareUrl", "definition"] {
        assert_eq!(changes[unknown], Value::Null, "{unknown}");
    }
    let added = |name: &str| json!({"name": name, "change": "added"});
    assert_eq!(changes["secrets"], json!([added("KEPT_KEY"), added("OLD_KEY"), added("ROTATED_KEY")]));
    shop.approve(&first).await;

    let secrets = fixture.fetch("/secrets").await;
    let rotated = secrets.as_array().unwrap().iter().find(|it| it["name"] == "ROTATED_KEY").unwrap();
    let path = format!("{ORG}/secrets/{}", rotated["id"].as_str().unwrap());
    let call = crate::world::call("PATCH", &path).with_account(fixture.ada());
    assert_eq!(fixture.send(call.json(&json!({"value": "hunter3-value"}))).await.status, 200);
    let made = fixture.post("/secrets", &json!({"name": "NEW_KEY", "value": "hunter2-value"})).await;
    assert_eq!(made.status, 201, "{}", made.text);
    shop.origin.write("a.txt", "1\n3\n4\n");
    shop.origin.commit("second");
    shop.origin.write(".berth/shop/pipeline.yaml", &DEFINITION.replace("OLD_KEY", "NEW_KEY"));
    let asked = shop.push("third").await;
    let changes = shop.fetch_changes(&asked).await;
    assert_eq!((&changes["from"]["title"], &changes["to"]["title"]), (&json!("first"), &json!("third")));
    assert_eq!((titles(&changes), &changes["commitCount"]), (vec!["third", "second"], &json!(2)));
    assert_eq!(changes["to"], changes["commits"][0]);
    let file =
        |path: &str, added: u64, removed: u64| json!({"path": path, "added": added, "removed": removed});
    assert_eq!(changes["files"], json!([file(".berth/shop/pipeline.yaml", 1, 1), file("a.txt", 2, 1)]));
    assert_eq!((&changes["fileCount"], &changes["compareUrl"]), (&json!(2), &Value::Null));
    assert_eq!(changes["definition"], json!({"added": 1, "removed": 1}));
    let secret = |name: &str, change: &str| json!({"name": name, "change": change});
    let expected =
        [secret("NEW_KEY", "added"), secret("OLD_KEY", "removed"), secret("ROTATED_KEY", "updated")];
    assert_eq!(changes["secrets"], json!(expected));
    assert!(
        !changes.to_string().contains("acme.test") && !changes.to_string().contains("hunter"),
        "{changes}"
    );

    let mut partial = changes.clone();
    for hidden in ["files", "fileCount", "definition", "secrets"] {
        partial[hidden] = Value::Null;
    }
    for (email, scope, expected) in [
        ("stella@acme.test", "stage:shop@production", &partial),
        ("paul@acme.test", "pipeline:shop", &changes),
    ] {
        let member = fixture.world.create_member(email, "member").await;
        let grant = json!({"subject": format!("user:{email}"), "role": "viewer", "scope": scope});
        expect_data(&fixture.post("/grants", &grant).await, 201);
        let seen = fixture.send(get(&format!("{ORG}{}", changes_path(&asked))).token(&member.token)).await;
        assert_eq!(seen.body["data"], *expected, "{scope}");
    }

    // After the end, the comparison is still with what was there before.
    shop.approve(&asked).await;
    assert_eq!(shop.fetch_changes(&asked).await, changes);
    shop.fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn approval_changes_without_a_mirror_or_repository_are_null() {
    let shop = ChangesFixture::start().await;
    let fixture = &shop.fixture;
    let first = fixture.wait_for_approval(&fixture.wait_for_first_deployment().await).await;
    shop.approve(&first).await;
    shop.origin.write("a.txt", "3\n");
    let asked = shop.push("second").await;
    let services = fixture.world.app.services();
    let org = crate::audit_export::acme_org_id(&fixture.world).await;
    services.git.remove_mirror(org, shop.repository.parse().unwrap()).await;
    let changes = shop.fetch_changes(&asked).await;
    assert_eq!((&changes["from"]["title"], &changes["to"]["title"]), (&json!("first"), &json!("second")));
    for unknown in ["commits", "commitCount", "files", "fileCount", "definition"] {
        assert_eq!(changes[unknown], Value::Null, "{unknown}");
    }
    assert_eq!(changes["secrets"], json!([]));
    shop.fixture.shut_down().await;

    let fixture = PipelineFixture::start().await;
    let body = "  stages: [{ name: production, requires: { approvals: 1 } }]
  steps: [{ name: Deploy, type: dummy }]\n";
    fixture.create_pipeline(body).await;
    let asked = fixture.wait_for_approval(&fixture.start_deployment("4f2a1c9").await).await;
    let nothing = ["from", "to", "commits", "commitCount", "files", "fileCount", "compareUrl", "definition"];
    let mut expected: serde_json::Map<_, _> =
        nothing.iter().map(|name| ((*name).to_owned(), Value::Null)).collect();
    expected.insert("secrets".into(), json!([]));
    assert_eq!(fixture.fetch(&changes_path(&asked)).await, Value::Object(expected));
    fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn approval_changes_require_permission_to_read_the_approval_and_its_pipeline() {
    let shop = ChangesFixture::start().await;
    let fixture = &shop.fixture;
    let asked = fixture.wait_for_approval(&fixture.wait_for_first_deployment().await).await;
    let path = format!("{ORG}{}", changes_path(&asked));
    let viewer = fixture.world.create_member("vera@acme.test", "viewer").await;
    assert_eq!(fixture.send(get(&path).token(&viewer.token)).await.status, 200);
    assert_eq!(fixture.send(get(&path)).await.status, 401);
    let token = json!({"name": "ci", "restrictTo": [{"permissions": ["approvals:read"], "scope": "org"}]});
    let made = fixture.post("/api-tokens", &token).await;
    let token = expect_data(&made, 201)["token"].as_str().unwrap().to_owned();
    let approval = format!("{ORG}/approvals/{}", asked["id"].as_str().unwrap());
    assert_eq!(fixture.send(get(&approval).token(&token)).await.status, 200);
    fixture.send(get(&path).token(&token)).await.assert_problem(404, "not_found");
    let missing = "/approvals/apr_01k9x8s6q0e3v8n5j2m4t7w9yb/changes";
    let missing = get(&format!("{ORG}{missing}")).with_account(fixture.ada());
    fixture.send(missing).await.assert_problem(404, "not_found");
    shop.fixture.shut_down().await;
}
