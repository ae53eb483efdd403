//! A double of Bitbucket Cloud.

use berth_core::forge::PullRequestStatus;
use serde_json::{Value, json};

use super::{
    Call, FakeResponse, ForgeDouble, HEAD, Model, ModelPullRequest, ModelStatus, Source, changed_files,
    no_content, ok,
};

/// Length of the commit hashes in pull requests.
const SHORT_HASH: usize = 12;
/// Maximum page size for pull requests.
const PAGE_MAX: usize = 50;
/// Maximum length of a status's key.
const KEY_MAX: usize = 40;

pub(super) struct BitbucketDouble;

impl ForgeDouble for BitbucketDouble {
    fn kind(&self) -> &'static str {
        "bitbucket"
    }

    fn states(&self) -> [&'static str; 4] {
        ["INPROGRESS", "SUCCESSFUL", "FAILED", "STOPPED"]
    }

    fn head_ref(&self) -> Option<&'static str> {
        None
    }

    fn has_labels(&self) -> bool {
        false
    }

    fn can_test_hooks(&self) -> bool {
        false
    }

    fn respond(&self, model: &mut Model, call: &Call<'_>) -> Option<FakeResponse> {
        let path: Vec<_> = call.path.iter().map(String::as_str).collect();
        let ["repositories", "acme", "shop", rest @ ..] = path.as_slice() else { return None };
        match (call.method, rest) {
            ("GET", ["pullrequests"]) => {
                let query = call.query.get("q").cloned().unwrap_or_default();
                let branch = query.split("source.branch.name=\"").nth(1).map(|it| it.trim_end_matches('"'));
                let open = model.pull_requests.iter().filter(|it| it.status == PullRequestStatus::Open);
                let found = open.filter(|it| branch.is_none_or(|branch| it.head_branch == branch));
                page(call, PAGE_MAX, &found.map(pull_request).collect::<Vec<_>>())
            }
            ("POST", ["pullrequests"]) => {
                let branch = |side: &str| call.body[side]["branch"]["name"].as_str().unwrap().to_owned();
                let made = ModelPullRequest {
                    number: 1_000 + model.new_id(),
                    title: call.text("title"),
                    head_branch: branch("source"),
                    base_branch: branch("destination"),
                    source: Source::SameRepository,
                    labels: Vec::new(),
                    draft: false,
                    status: PullRequestStatus::Open,
                    head: HEAD.into(),
                    changed: 0,
                };
                let body = pull_request(&made);
                model.pull_requests.insert(0, made);
                ok(201, &body)
            }
            ("GET", ["pullrequests", number]) => ok(200, &pull_request(model.find(number.parse().ok()?)?)),
            ("GET", ["pullrequests", number, "commits"]) => {
                let head = &model.find(number.parse().ok()?)?.head;
                page(call, PAGE_MAX, &[json!({"type": "commit", "hash": head, "message": "Dark mode"})])
            }
            // The redirect does not repeat the page.
            ("GET", ["pullrequests", number, "diffstat"]) => {
                let number = model.find(number.parse().ok()?)?.number;
                let short = &HEAD[..SHORT_HASH];
                let location = format!(
                    "{}/repositories/acme/shop/diffstat/acme/shop:{short}%0D{short}?from_pullrequest_id={number}&topic=true",
                    call.base
                );
                Some(FakeResponse { status: 302, headers: vec![("Location", location)], body: String::new() })
            }
            ("GET", ["diffstat", ..]) => {
                let file = |path: &str| json!({"path": path, "type": "commit_file"});
                let files = changed_files().map(|(path, before)| {
                    json!({"type": "diffstat", "lines_added": 1, "lines_removed": 1, "status": "modified",
                        "old": file(before.unwrap_or(&path)), "new": file(&path)})
                });
                page(call, 500, &files.collect::<Vec<_>>())
            }
            ("GET", ["pullrequests", number, "comments"]) => {
                let all = model.list_comments(number.parse().ok()?).into_iter();
                let all = all.map(|(id, text)| json!({"id": id, "content": {"raw": text}}));
                page(call, 100, &all.collect::<Vec<_>>())
            }
            ("POST", ["pullrequests", number, "comments"]) => {
                let number = model.find(number.parse().ok()?)?.number;
                let id = model.new_id();
                model.comments.insert(id, (number, comment_text(call)));
                ok(201, &json!({"id": id, "type": "pullrequest_comment", "content": call.body["content"]}))
            }
            ("PUT", ["pullrequests", number, "comments", id]) => {
                let id = id.parse().ok()?;
                let comment = model.comments.get_mut(&id).filter(|it| it.0.to_string() == *number)?;
                comment.1 = comment_text(call);
                ok(200, &json!({"id": id, "content": call.body["content"]}))
            }
            ("POST", ["commit", commit, "statuses", "build"]) => set_status(model, call, commit),
            ("POST", ["hooks"]) => {
                assert!(call.body["events"].as_array().unwrap().contains(&json!("pullrequest:updated")));
                let id = format!("{{b5d4ba5c-0000-4000-8000-{:012}}}", model.new_id());
                model.hooks.insert(id.clone(), (call.text("url"), call.text("secret")));
                ok(201, &json!({"type": "webhook_subscription", "uuid": id, "active": true}))
            }
            ("DELETE", ["hooks", id]) => model.hooks.remove(*id).and_then(|_| no_content()),
            _ => None,
        }
    }
}

fn comment_text(call: &Call<'_>) -> String {
    call.body["content"]["raw"].as_str().unwrap().to_owned()
}

fn page(call: &Call<'_>, most: usize, items: &[Value]) -> Option<FakeResponse> {
    let (page, size) = (call.number("page").unwrap_or(1), call.number("pagelen").unwrap_or(10).min(most));
    let shown: Vec<_> = items.iter().skip((page - 1) * size).take(size).collect();
    let mut body = json!({"pagelen": size, "page": page, "values": shown});
    if page * size < items.len() {
        body["next"] = json!(format!("{}/somewhere?page={}", call.base, page + 1));
    }
    ok(200, &body)
}

fn set_status(model: &mut Model, call: &Call<'_>, commit: &str) -> Option<FakeResponse> {
    let refuse = |why: &str| ok(400, &json!({"type": "error", "error": {"message": why}}));
    let status = ModelStatus {
        commit: commit.to_owned(),
        key: call.text("key"),
        state: call.text("state"),
        description: call.text("description"),
        url: call.optional_text("url"),
    };
    if status.key.is_empty() || status.key.chars().count() > KEY_MAX {
        return refuse("key: Ensure this value has at most 40 characters.");
    }
    if status.url.is_none() {
        return refuse("url: This field is required.");
    }
    let body = json!({"type": "build", "key": status.key, "state": status.state, "url": status.url});
    model.set_status(status);
    ok(201, &body)
}

fn pull_request(it: &ModelPullRequest) -> Value {
    let state = match it.status {
        PullRequestStatus::Open => "OPEN",
        PullRequestStatus::Merged => "MERGED",
        PullRequestStatus::Closed => "DECLINED",
    };
    let base = json!({"type": "repository", "full_name": "acme/shop", "uuid": "{00000000-0000-4000-8000-000000000005}"});
    let head = match it.source {
        Source::SameRepository => base.clone(),
        Source::Fork => {
            json!({"type": "repository", "full_name": "grace/shop", "uuid": "{00000000-0000-4000-8000-000000000006}"})
        }
        Source::DeletedFork => Value::Null,
    };
    let side = |branch: &str, repository: Value| json!({"branch": {"name": branch}, "commit": {"type": "commit", "hash": &it.head[..SHORT_HASH]}, "repository": repository});
    json!({
        "type": "pullrequest",
        "id": it.number,
        "title": it.title,
        "description": "Please review.",
        "state": state,
        "draft": it.draft,
        "author": {"type": "user", "uuid": "{00000000-0000-4000-8000-000000000007}", "account_id": "7",
            "display_name": "grace", "nickname": "grace"},
        "source": side(&it.head_branch, head),
        "destination": side(&it.base_branch, base),
        "links": {"html": {"href": format!("https://git.acme.test/acme/shop/pull/{}", it.number)}},
        "created_on": "2026-11-15T09:00:00.000000+00:00",
        "updated_on": format!("2026-11-18T12:{:02}:00.000000+00:00", it.changed),
    })
}
