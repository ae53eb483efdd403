//! The server notices when a person merges or closes the pull request of a fix, and then allows another one.

use berth_core::time::Timestamp;
use berth_server::config::AppConfig;
use berth_server::jobs::notice_fix_ends;
use serde_json::{Value, json};

use super::PipelineFixture;
use super::fixes::{BRANCH, CHMOD_DIFF, clone_bare, create_broken_origin, run_git};
use crate::forge::{FakeForge, TOKEN, call_emulator_with, start_github};
use crate::git::serve_git;

impl PipelineFixture {
    /// Checks the forge once, and returns the pull request of the analysis.
    async fn refresh_pull_request(&self, analysis: &str) -> Value {
        notice_fix_ends(self.world.app.jobs()).await.unwrap();
        self.fetch(&format!("/analyses/{analysis}/pull-request")).await
    }

    /// Kinds of the events about fixes, oldest first. Their common prefix is removed.
    async fn fix_event_kinds(&self) -> Vec<String> {
        let mut events = self.fix_events().await;
        events.sort_by_key(|event| event["id"].as_str().unwrap().to_owned());
        let kind = |event: &Value| event["kind"].as_str().unwrap().replace("fix_pull_request_", "");
        events.iter().map(kind).collect()
    }
}

fn parse_time(value: &Value) -> Timestamp {
    Timestamp::parse(value.as_str().unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fix_state_is_read_from_github() {
    let Some(github) = start_github() else { return };
    let origin = create_broken_origin();
    let (root, _) = clone_bare(&origin);
    let login: &'static str = Box::leak(format!("x-access-token:{TOKEN}").into_boxed_str());
    let url = format!("{}/admin/shop.git", serve_git(root.path().to_owned(), login));
    let config = AppConfig {
        forges: vec![format!("127.0.0.1=github={}", github.url).parse().unwrap()],
        egress_allow: vec!["127.0.0.1".parse().unwrap()],
        ..AppConfig::local(([127, 0, 0, 1], 8080).into())
    };
    let fixture = PipelineFixture::with_config(config).await;
    let secret = json!({"name": "GIT_TOKEN", "value": TOKEN});
    assert_eq!(fixture.post("/secrets", &secret).await.status, 201);
    let (repository, failed) =
        fixture.register_failing_repository(&json!({"url": url, "credential": "GIT_TOKEN"})).await;
    let analysis = fixture.create_analysis(&repository, &failed, 1, Some(CHMOD_DIFF)).await;
    let first = fixture.request_pull_request(&analysis).await;
    assert_eq!(fixture.refresh_pull_request(&analysis).await, first, "the pull request is unchanged");

    let path = format!("/repos/admin/shop/pulls/{}", first["number"]);
    call_emulator_with(&github.url, "PATCH", &path, Some(&json!({"state": "closed"})));
    let closed = fixture.refresh_pull_request(&analysis).await;
    assert_eq!((&closed["state"], &closed["url"]), (&json!("closed"), &first["url"]), "{closed}");
    assert!(parse_time(&closed["endedAt"]) >= parse_time(&first["createdAt"]), "{closed}");
    assert_eq!(fixture.refresh_pull_request(&analysis).await, closed, "it ends once");

    let second = fixture.request_pull_request(&analysis).await;
    assert_eq!(
        (&second["state"], &second["branch"], &second["endedAt"]),
        (&json!("open"), &json!(format!("{BRANCH}-2")), &Value::Null)
    );
    assert_ne!(second["number"], first["number"]);
    assert_eq!(fixture.request_pull_request(&analysis).await, second, "it is open: there is no third");
    let path = format!("/repos/admin/shop/pulls/{}/merge", second["number"]);
    assert_eq!(call_emulator_with(&github.url, "PUT", &path, Some(&json!({})))["merged"], true);

    // A request for another fix checks the previous pull request at once, without waiting for the background job.
    let third = fixture.request_pull_request(&analysis).await;
    assert_eq!((&third["state"], &third["branch"]), (&json!("open"), &json!(format!("{BRANCH}-3"))));
    assert_eq!(
        fixture.fix_event_kinds().await,
        ["requested", "opened", "closed", "requested", "opened", "merged", "requested", "opened"]
    );
    fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fix_state_is_read_from_branches_of_a_plain_remote() {
    let origin = create_broken_origin();
    let fixture = PipelineFixture::start().await;
    let (repository, failed) =
        fixture.register_failing_repository(&json!({"url": origin.url().as_str()})).await;
    let analysis = fixture.create_analysis(&repository, &failed, 1, Some(CHMOD_DIFF)).await;
    let first = fixture.request_pull_request(&analysis).await;
    assert_eq!(fixture.refresh_pull_request(&analysis).await, first, "the branch is unchanged");

    origin.git(&["branch", "--delete", "--force", BRANCH]);
    let closed = fixture.refresh_pull_request(&analysis).await;
    assert_eq!(closed["state"], "closed", "{closed}");
    assert!(parse_time(&closed["endedAt"]) >= parse_time(&first["updatedAt"]), "{closed}");

    let second = fixture.request_pull_request(&analysis).await;
    let branch = second["branch"].as_str().unwrap();
    assert_eq!((&second["state"], branch), (&json!("pushed"), format!("{BRANCH}-2").as_str()));
    origin.git(&["merge", "--quiet", "--no-ff", "-m", "Take the fix", branch]);
    let merged = fixture.refresh_pull_request(&analysis).await;
    assert_eq!((&merged["state"], &merged["commitId"]), (&json!("merged"), &second["commitId"]), "{merged}");
    assert_eq!(
        fixture.fix_event_kinds().await,
        ["requested", "opened", "closed", "requested", "opened", "merged"]
    );
    let shown = fixture.fetch(&format!("/analyses/{analysis}")).await;
    assert_eq!(shown["pullRequest"], merged);
    fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fix_state_is_kept_while_the_forge_fails_and_else_read_from_the_branch() {
    let origin = create_broken_origin();
    let (root, bare) = clone_bare(&origin);
    let status = std::sync::Arc::new(std::sync::atomic::AtomicU16::new(500));
    let answers = status.clone();
    let gitea = FakeForge::start(move |asked| match asked.line.as_str() {
        line if line.ends_with("/pulls/5") => {
            (answers.load(std::sync::atomic::Ordering::SeqCst), "{}".into())
        }
        line if line.starts_with("GET") => (404, "{}".into()),
        _ => (201, json!({"number": 5, "html_url": "https://git.acme.test/a/b/pulls/5"}).to_string()),
    });
    let config = AppConfig {
        forges: vec![format!("127.0.0.1=gitea={}", gitea.url).parse().unwrap()],
        egress_allow: vec!["127.0.0.1".parse().unwrap()],
        ..AppConfig::local(([127, 0, 0, 1], 8080).into())
    };
    let fixture = PipelineFixture::with_config(config).await;
    let secret = json!({"name": "GIT_TOKEN", "value": "hunter2-token"});
    assert_eq!(fixture.post("/secrets", &secret).await.status, 201);
    let url = format!("{}/admin/shop.git", serve_git(root.path().to_owned(), "x-access-token:hunter2-token"));
    let (repository, failed) =
        fixture.register_failing_repository(&json!({"url": url, "credential": "GIT_TOKEN"})).await;
    let analysis = fixture.create_analysis(&repository, &failed, 1, Some(CHMOD_DIFF)).await;
    let first = fixture.request_pull_request(&analysis).await;
    assert_eq!(fixture.refresh_pull_request(&analysis).await, first, "a forge that fails says nothing");
    assert_eq!(
        fixture.request_pull_request(&analysis).await,
        first,
        "so what there is stays the one there is"
    );

    status.store(404, std::sync::atomic::Ordering::SeqCst);
    assert_eq!(fixture.refresh_pull_request(&analysis).await, first, "its branch is still there");
    run_git(&bare, &["branch", "-D", BRANCH]);
    assert_eq!(fixture.refresh_pull_request(&analysis).await["state"], "closed");
    fixture.shut_down().await;
}
