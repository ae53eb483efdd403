//! The conformance suite that every forge's client passes, against a double of the forge.

use std::time::{Duration, SystemTime};

use berth_core::forge::progress::DeploymentProgress;
use berth_core::forge::{ForgeUser, PullRequestSnapshot, PullRequestStatus};
use berth_core::time::Timestamp;
use berth_server::integrations::forges::{
    CommitState, CommitStatus, DESCRIPTION_CHARS_MAX, DeploymentDraft, DeploymentUpdate, ForgeClient,
    ForgeError, ForgePullRequestState,
};
use serde_json::json;

use super::doubles::{DOUBLES, ForgeDouble, HEAD, MISSING, ModelPullRequest, RunningDouble, Source, TOKEN};
use super::fake_forge::{FakeForge, FakeResponse};
use super::{BRANCHES, DRAFT, TIMEOUT, forge_client};

/// More pull requests than fit on two pages of any forge.
const OPEN: i64 = 120;
const HOOK: &str = "https://berth.acme.test/hooks/x/hook_01";

fn model_pull_request(number: i64) -> ModelPullRequest {
    ModelPullRequest {
        number,
        title: "Dark \u{1b}[31mmode\u{202e}".into(),
        head_branch: "dark-mode".into(),
        base_branch: "main".into(),
        source: Source::SameRepository,
        labels: vec!["preview", "ui"],
        draft: false,
        status: PullRequestStatus::Open,
        head: HEAD.into(),
        changed: 0,
    }
}

fn start(double: &'static dyn ForgeDouble) -> (RunningDouble, ForgeClient) {
    let plain = model_pull_request;
    let mut pull_requests = vec![
        plain(42),
        ModelPullRequest { source: Source::Fork, draft: true, ..plain(43) },
        ModelPullRequest { source: Source::DeletedFork, ..plain(44) },
        ModelPullRequest { status: PullRequestStatus::Merged, ..plain(45) },
        ModelPullRequest { status: PullRequestStatus::Closed, ..plain(46) },
    ];
    pull_requests.extend((100..97 + OPEN).map(plain));
    let running = RunningDouble::start(double, pull_requests);
    let client = forge_client(double.kind(), &running.forge.url, TOKEN, TIMEOUT);
    (running, client)
}

fn snapshot(double: &dyn ForgeDouble) -> PullRequestSnapshot {
    let labels: &[&str] = if double.has_labels() { &["preview", "ui"] } else { &[] };
    PullRequestSnapshot {
        title: "Dark mode".into(),
        url: "https://git.acme.test/acme/shop/pull/42".into(),
        author: ForgeUser { id: "7".into(), name: "grace".into() },
        head: HEAD.into(),
        head_branch: "dark-mode".into(),
        base_branch: "main".into(),
        is_fork: false,
        labels: labels.iter().map(ToString::to_string).collect(),
        is_draft: false,
        status: PullRequestStatus::Open,
        changed_at: Timestamp::parse("2026-11-18T12:00:00Z").unwrap(),
    }
}

#[test]
fn forge_clients_conform_for_pull_requests() {
    for double in DOUBLES {
        let kind = double.kind();
        let (_running, client) = start(*double);
        let plain = snapshot(*double);
        assert_eq!(client.pull_request(42), Ok(plain.clone()), "{kind}");
        let fork = client.pull_request(43).unwrap();
        assert!(fork.is_fork && fork.is_draft, "{kind}: {fork:?}");
        assert!(client.pull_request(44).unwrap().is_fork, "{kind}: the fork was deleted");
        assert_eq!(client.pull_request(45).unwrap().status, PullRequestStatus::Merged, "{kind}");
        assert_eq!(client.pull_request(46).unwrap().status, PullRequestStatus::Closed, "{kind}");
        assert_eq!(client.pull_request(MISSING), Err(ForgeError::NotFound), "{kind}");
        assert!(matches!(client.get(45), Ok(ForgePullRequestState::Merged(Some(_)))), "{kind}");
        assert_eq!(client.forge.head_ref(42).as_deref(), double.head_ref(), "{kind}");
    }
}

#[test]
fn forge_clients_conform_for_lists() {
    for double in DOUBLES {
        let kind = double.kind();
        let (_running, client) = start(*double);
        let open = client.open_pull_requests().unwrap();
        let numbers: Vec<_> = open.iter().map(|(number, _)| *number).collect();
        let expected: Vec<_> = [42, 43, 44].into_iter().chain(100..97 + OPEN).collect();
        assert_eq!(numbers, expected, "{kind}");
        assert_eq!(open[0].1, snapshot(*double), "{kind}");
        let files = client.changed_files(42).unwrap();
        assert_eq!(files.len(), 131, "{kind}: {files:?}");
        for path in ["src/old.rs", "src/file-0.rs", "src/file-129.rs"] {
            assert!(files.iter().any(|it| it == path), "{kind}: {path}");
        }
        assert_eq!(client.changed_files(MISSING), Err(ForgeError::NotFound), "{kind}");
    }
}

#[test]
fn forge_clients_conform_for_opening_pull_requests() {
    for double in DOUBLES {
        let kind = double.kind();
        let (_running, client) = start(*double);
        assert_eq!(client.find(BRANCHES), Ok(None), "{kind}");
        let opened = client.open(DRAFT).unwrap();
        assert_eq!(client.find(BRANCHES), Ok(Some(opened.clone())), "{kind}");
        assert_eq!(client.get(opened.number), Ok(ForgePullRequestState::Open), "{kind}");
        assert_eq!(client.pull_request(opened.number).unwrap().title, DRAFT.title, "{kind}");
    }
}

#[test]
fn forge_clients_conform_for_comments() {
    for double in DOUBLES {
        let kind = double.kind();
        let (running, client) = start(*double);
        let id = client.upsert_comment(42, None, "queued").unwrap();
        assert_eq!(client.upsert_comment(42, Some(&id), "deployed"), Ok(id.clone()), "{kind}");
        let texts = || running.model.lock().unwrap().comments.values().cloned().collect::<Vec<_>>();
        assert_eq!(texts(), [(42, "deployed".to_owned())], "{kind}");
        running.model.lock().unwrap().comments.clear();
        let again = client.upsert_comment(42, Some(&id), "deployed").unwrap();
        assert_ne!(again, id, "{kind}");
        assert_eq!(texts(), [(42, "deployed".to_owned())], "{kind}");
        assert_eq!(client.upsert_comment(MISSING, None, "x"), Err(ForgeError::NotFound), "{kind}");
        for number in 0..120 {
            client.upsert_comment(42, None, &format!("comment {number}")).unwrap();
        }
        let late = client.upsert_comment(42, None, "[//]: # (berth 1)\n\nqueued").unwrap();
        assert_eq!(client.find_comment(42, "[//]: # (berth 1)"), Ok(Some(late)), "{kind}");
        assert_eq!(client.find_comment(42, "[//]: # (berth 2)"), Ok(None), "{kind}");
    }
}

#[test]
fn forge_clients_conform_for_statuses() {
    for double in DOUBLES {
        let kind = double.kind();
        let (running, client) = start(*double);
        let url = "https://berth.acme.test/d/1".to_owned();
        let status = |state| CommitStatus {
            context: "berth/shop/production".into(),
            state,
            description: "é".repeat(200),
            target_url: Some(url.clone()),
        };
        for (state, name) in CommitState::ALL.iter().zip(double.states()) {
            // A repetition has no effect, and each forge accepts every order of states.
            client.set_status(HEAD, &status(*state)).unwrap();
            client.set_status(HEAD, &status(*state)).unwrap();
            let known = running.model.lock().unwrap().statuses.clone();
            assert_eq!(known.len(), 1, "{kind}: {known:?}");
            assert_eq!((known[0].commit.as_str(), known[0].state.as_str()), (HEAD, name), "{kind}");
            assert_eq!(known[0].key, "berth/shop/production", "{kind}");
            assert_eq!(known[0].url.as_ref(), Some(&url), "{kind}");
            assert_eq!(known[0].description.chars().count(), DESCRIPTION_CHARS_MAX, "{kind}");
        }
        client.set_status(HEAD, &status(CommitState::Pending)).unwrap();
        for stage in ["one", "two"] {
            let context = format!("berth/{}/{stage}", "a-long-pipeline".repeat(4));
            let status = CommitStatus { context, target_url: None, ..status(CommitState::Success) };
            client.set_status(HEAD, &status).unwrap();
        }
        assert_eq!(running.model.lock().unwrap().statuses.len(), 3, "{kind}");
    }
}

#[test]
fn forge_clients_conform_for_deployments() {
    for double in DOUBLES {
        let kind = double.kind();
        let (running, client) = start(*double);
        let draft = |deployment: &str| DeploymentDraft {
            deployment: deployment.into(),
            environment: "shop/qa-1".into(),
            commit: HEAD.into(),
            is_transient: true,
        };
        let update = |progress| DeploymentUpdate {
            progress,
            description: "é".repeat(200),
            log_url: Some("https://berth.acme.test/d/1".into()),
            environment_url: Some("https://berth.acme.test/e/1".into()),
        };
        let deployments = || running.model.lock().unwrap().deployments.clone();
        let opened = client.open_deployment(&draft("dep_1"), DeploymentProgress::InProgress).unwrap();
        let Some(states) = double.deployment_states() else {
            assert_eq!(opened, None, "{kind} has no deployments");
            client.set_deployment_state("1", &update(DeploymentProgress::Success)).unwrap();
            continue;
        };
        let id = opened.unwrap();
        let again = client.open_deployment(&draft("dep_1"), DeploymentProgress::Success).unwrap();
        assert_eq!(again.as_ref(), Some(&id), "{kind}: the response to the first request was lost");
        for progress in [DeploymentProgress::InProgress, DeploymentProgress::Success] {
            client.set_deployment_state(&id, &update(progress)).unwrap();
            client.set_deployment_state(&id, &update(progress)).unwrap();
        }
        client.set_deployment_state(&id, &update(DeploymentProgress::Inactive)).unwrap();
        let mut known = deployments().remove(0);
        known.states.dedup();
        assert_eq!(known.states[..2], states, "{kind}");
        assert_eq!((known.commit.as_str(), known.environment.as_str()), (HEAD, "shop/qa-1"), "{kind}");
        if kind == "github" {
            assert_eq!(known.states[2..], ["inactive"]);
            assert!(known.is_transient && known.urls.iter().all(Option::is_some), "{known:?}");
            assert_eq!(known.description.chars().count(), DESCRIPTION_CHARS_MAX);
        }
        let second = client.open_deployment(&draft("dep_2"), DeploymentProgress::Failure).unwrap();
        assert_ne!(second, Some(id), "{kind}: another deployment of the same commit");
        assert_eq!(deployments().len(), 2, "{kind}");
        client.set_deployment_state("999", &update(DeploymentProgress::Success)).unwrap();
    }
}

#[test]
fn forge_clients_conform_for_webhooks() {
    for double in DOUBLES {
        let kind = double.kind();
        let (running, client) = start(*double);
        let id = client.create_hook(HOOK, "hook-secret").unwrap();
        let known = running.model.lock().unwrap().hooks.clone();
        assert_eq!(known.get(&id), Some(&(HOOK.to_owned(), "hook-secret".to_owned())), "{kind}");
        assert_eq!(client.test_hook(&id), Ok(double.can_test_hooks()), "{kind}");
        assert_eq!(running.model.lock().unwrap().tests_sent, usize::from(double.can_test_hooks()), "{kind}");
        assert_eq!(client.delete_hook(&id), Ok(()), "{kind}");
        assert!(running.model.lock().unwrap().hooks.is_empty(), "{kind}");
        assert_eq!(client.delete_hook(&id), Ok(()), "{kind}: it is gone already");
    }
}

#[test]
fn forge_clients_conform_for_errors() {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    // So far ahead that the wait is limited, and does not depend on how long the test takes.
    let reset = (now + 100_000).to_string();
    let exhausted = [("x-ratelimit-remaining", "0".to_owned()), ("x-ratelimit-reset", reset)];
    for double in DOUBLES {
        let kind = double.kind();
        let (running, _) = start(*double);
        let wrong = forge_client(kind, &running.forge.url, "wrong", TIMEOUT);
        assert_eq!(wrong.pull_request(42), Err(ForgeError::NotAllowed), "{kind}");
        let failing = |status: u16, headers: &[(&'static str, String)]| {
            let headers = headers.to_vec();
            let forge = FakeForge::start_with_headers(move |_| FakeResponse {
                status,
                headers: headers.clone(),
                body: json!({"message": format!("no {TOKEN}")}).to_string(),
            });
            let client = forge_client(kind, &forge.url, TOKEN, TIMEOUT);
            let status = CommitStatus {
                context: "berth/shop/production".into(),
                state: CommitState::Pending,
                description: String::new(),
                target_url: None,
            };
            let errors = [
                client.pull_request(42).unwrap_err(),
                client.open_pull_requests().unwrap_err(),
                client.set_status(HEAD, &status).unwrap_err(),
                client.upsert_comment(42, Some("1"), "x").unwrap_err(),
                client.create_hook(HOOK, "s").unwrap_err(),
            ];
            assert!(errors.iter().all(|error| *error == errors[0]), "{kind}: {errors:?}");
            errors.into_iter().next().unwrap()
        };
        let after = [("retry-after", "7".to_owned())];
        let busy = |seconds| ForgeError::Busy(Some(Duration::from_secs(seconds)));
        assert_eq!(failing(429, &after), busy(7), "{kind}");
        assert_eq!(failing(403, &after), busy(7), "{kind}");
        assert_eq!(failing(429, &[]), ForgeError::Busy(None), "{kind}");
        assert_eq!(failing(429, &[("retry-after", "999999".into())]), busy(3_600), "{kind}");
        assert_eq!(failing(403, &[]), ForgeError::NotAllowed, "{kind}");
        assert_eq!(failing(403, &exhausted), busy(3_600), "{kind}");
        assert_eq!(failing(500, &[]), ForgeError::Refused { status: 500, said: "no …".into() }, "{kind}");
        let elsewhere = [("location", "https://evil.test/2.0/x".to_owned())];
        assert!(matches!(failing(302, &elsewhere), ForgeError::Refused { status: 302, .. }), "{kind}");
    }
}

#[test]
fn bitbucket_credential_with_user_name_uses_basic_authentication() {
    let forge = FakeForge::start(|_| (404, "{}".into()));
    for (user, expected) in [
        (Some("grace"), "Basic Z3JhY2U6Y29uZm9ybWFuY2UtdG9rZW4="),
        (Some("x-token-auth"), "Bearer conformance-token"),
        (None, "Bearer conformance-token"),
    ] {
        let mut client = forge_client("bitbucket", &forge.url, TOKEN, TIMEOUT);
        client.user = user.map(str::to_owned);
        assert_eq!(client.pull_request(1), Err(ForgeError::NotFound));
        assert_eq!(forge.requests().pop().unwrap().headers["authorization"], expected);
    }
}
