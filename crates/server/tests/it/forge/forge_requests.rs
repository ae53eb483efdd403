//! Requests to each kind of forge, and the handling of valid, invalid and hostile responses.

use std::time::Duration;

use berth_core::time::Timestamp;
use berth_server::integrations::forges::{ForgeError, ForgePullRequestState, PullRequest};
use serde_json::json;

use super::{BRANCHES, DRAFT, FakeForge, TIMEOUT, forge_client};

const TOKEN: &str = "hunter2-token";

#[test]
fn gitlab_requests_match_its_api() {
    let made = json!({"iid": 7, "web_url": "https://gitlab.acme.test/acme/shop/-/merge_requests/7"});
    let opened = made.clone();
    let gitlab = FakeForge::start(move |asked| match asked.line.starts_with("GET") {
        true => (200, "[]".into()),
        false => (201, opened.to_string()),
    });
    let client = forge_client("gitlab", &gitlab.url, TOKEN, TIMEOUT);
    assert_eq!(client.find(BRANCHES), Ok(None));
    let url = made["web_url"].as_str().unwrap().to_owned();
    assert_eq!(client.open(DRAFT), Ok(PullRequest { number: 7, url }));
    assert_eq!(
        gitlab.request_lines(),
        [
            "GET /projects/acme%2Fshop/merge_requests?state=opened&source_branch=berth%2Ffix-0123456789ab&per_page=1",
            "POST /projects/acme%2Fshop/merge_requests",
        ]
    );
    let asked = gitlab.requests();
    assert!(asked.iter().all(|asked| asked.headers["authorization"] == format!("Bearer {TOKEN}")));
    assert_eq!(
        asked[1].body,
        json!({
            "title": "Make deploy.sh executable",
            "description": "Because.\n",
            "source_branch": "berth/fix-0123456789ab",
            "target_branch": "main",
            "remove_source_branch": true,
        })
    );
}

#[test]
fn gitea_requests_match_its_api() {
    let made = |state: &str| json!({"number": 3, "state": state, "html_url": "https://git.acme.test/acme/shop/pulls/3"});
    let states = std::sync::Mutex::new(vec![(404, json!({})), (200, made("closed")), (200, made("open"))]);
    let gitea = FakeForge::start(move |asked| match asked.line.starts_with("GET") {
        true => {
            let (status, body) = states.lock().unwrap().remove(0);
            (status, body.to_string())
        }
        false => {
            (201, json!({"number": 4, "html_url": "https://git.acme.test/acme/shop/pulls/4"}).to_string())
        }
    });
    let client = forge_client("gitea", &gitea.url, TOKEN, TIMEOUT);
    assert_eq!(client.find(BRANCHES), Ok(None), "there is none");
    assert_eq!(client.find(BRANCHES), Ok(None), "it is closed");
    assert_eq!(client.find(BRANCHES).unwrap().unwrap().number, 3);
    assert_eq!(client.open(DRAFT).unwrap().number, 4);
    let asked = gitea.requests();
    assert_eq!(asked[0].line, "GET /repos/acme/shop/pulls/main/berth%2Ffix-0123456789ab");
    assert_eq!(asked[3].line, "POST /repos/acme/shop/pulls");
    assert_eq!(asked[3].headers["authorization"], format!("token {TOKEN}"));
    let sent = json!({"title": DRAFT.title, "body": DRAFT.body, "head": BRANCHES.head, "base": "main"});
    assert_eq!(asked[3].body, sent);
}

#[test]
fn pull_request_state_is_parsed_for_each_forge() {
    let time = "2026-11-15T09:30:00Z";
    let at = Timestamp::parse(time).ok();
    let merged = json!({"state": "closed", "merged": true, "merged_at": time, "closed_at": time});
    let closed = json!({"state": "closed", "merged": false, "merged_at": null, "closed_at": time});
    let github = "GET /repos/acme/shop/pulls/7";
    let gitlab = "GET /projects/acme%2Fshop/merge_requests/7";
    for (kind, line, said, fate) in [
        ("github", github, json!({"state": "open", "merged_at": null}), Ok(ForgePullRequestState::Open)),
        ("github", github, merged.clone(), Ok(ForgePullRequestState::Merged(at))),
        ("github", github, closed.clone(), Ok(ForgePullRequestState::Closed(at))),
        ("gitea", github, json!({"state": "open"}), Ok(ForgePullRequestState::Open)),
        ("gitea", github, merged, Ok(ForgePullRequestState::Merged(at))),
        ("gitea", github, closed, Ok(ForgePullRequestState::Closed(at))),
        ("gitlab", gitlab, json!({"state": "opened"}), Ok(ForgePullRequestState::Open)),
        ("gitlab", gitlab, json!({"state": "locked"}), Ok(ForgePullRequestState::Open)),
        (
            "gitlab",
            gitlab,
            json!({"state": "merged", "merged_at": time}),
            Ok(ForgePullRequestState::Merged(at)),
        ),
        (
            "gitlab",
            gitlab,
            json!({"state": "closed", "closed_at": "soon"}),
            Ok(ForgePullRequestState::Closed(None)),
        ),
        ("gitlab", gitlab, json!({"state": "gone"}), Err(ForgeError::Odd)),
        ("github", github, json!([]), Err(ForgeError::Odd)),
    ] {
        let body = said.to_string();
        let forge = FakeForge::start(move |_| (200, body.clone()));
        assert_eq!(forge_client(kind, &forge.url, TOKEN, TIMEOUT).get(7), fate, "{kind}: {said}");
        assert_eq!(forge.request_lines(), [line]);
    }
}

#[test]
fn pull_request_opened_concurrently_is_reused() {
    let looks = std::sync::atomic::AtomicUsize::new(0);
    let there = json!([{"number": 9, "html_url": "https://github.com/acme/shop/pull/9"}]);
    let github = FakeForge::start(move |asked| match asked.line.starts_with("GET") {
        true if looks.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == 0 => (200, "[]".into()),
        true => (200, there.to_string()),
        false => (422, json!({"message": "Validation Failed"}).to_string()),
    });
    let client = forge_client("github", &github.url, TOKEN, TIMEOUT);
    assert_eq!(client.find(BRANCHES), Ok(None));
    assert_eq!(client.open(DRAFT).unwrap().number, 9);
}

#[test]
fn hostile_forge_responses_leak_no_token_and_no_links() {
    let echoed = json!({"message": format!("bad token {TOKEN} \u{1b}[31m\u{202e}")}).to_string();
    let link = |url: &str| json!({"number": 1, "html_url": url}).to_string();
    let said = |status, said: &str| ForgeError::Refused { status, said: said.into() };
    for (status, body, expected) in [
        (401, "{}".to_owned(), ForgeError::NotAllowed),
        (403, "{}".to_owned(), ForgeError::NotAllowed),
        (404, "{}".to_owned(), ForgeError::NotFound),
        (429, "{}".to_owned(), ForgeError::Busy(None)),
        (400, echoed, said(400, "bad token …")),
        (500, "<html>".to_owned(), said(500, "no reason given")),
        (302, String::new(), said(302, "no reason given")),
        (200, "not json".to_owned(), ForgeError::Odd),
        (201, "[]".to_owned(), ForgeError::Odd),
        (201, link("javascript:alert(1)"), ForgeError::Odd),
        (201, link("https://ada:secret@evil.test/"), ForgeError::Odd),
        (201, json!({"number": -1, "html_url": "https://a.test/"}).to_string(), ForgeError::Odd),
        (
            201,
            json!({"number": 1, "html_url": format!("https://a.test/{}", "x".repeat(3_000))}).to_string(),
            ForgeError::Odd,
        ),
        (
            201,
            format!(
                "{{\"number\": 1, \"html_url\": \"https://a.test/\", \"x\": \"{}\"}}",
                "x".repeat(2_000_000)
            ),
            ForgeError::Odd,
        ),
    ] {
        let shown = format!("{status} {}", &body[..body.len().min(80)]);
        let forge = FakeForge::start(move |_| (status, body.clone()));
        let error = forge_client("github", &forge.url, TOKEN, TIMEOUT).open(DRAFT).unwrap_err();
        assert_eq!(error, expected, "{shown}");
        assert!(!error.to_string().contains(TOKEN), "{error}");
    }
}

#[test]
fn forge_that_is_slow_down_or_private_is_an_error_without_a_token() {
    let slow = FakeForge::start(|_| {
        std::thread::park_timeout(Duration::from_secs(60));
        (200, "[]".into())
    });
    let error =
        forge_client("github", &slow.url, TOKEN, Duration::from_millis(300)).find(BRANCHES).unwrap_err();
    assert!(error.to_string().contains("no response within"), "{error}");
    let gone = forge_client("github", "http://127.0.0.1:1", TOKEN, TIMEOUT).find(BRANCHES).unwrap_err();
    assert!(matches!(gone, ForgeError::Unreachable(_)), "{gone}");
    for inside in ["http://10.0.0.7/api", "https://169.254.169.254/", "http://localhost.test/"] {
        let error = forge_client("github", inside, TOKEN, TIMEOUT).find(BRANCHES).unwrap_err();
        assert!(matches!(error, ForgeError::Unreachable(_)), "{error}");
    }
}
