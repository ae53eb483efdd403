//! A double of GitLab.

use berth_core::forge::PullRequestStatus;
use serde_json::{Value, json};

use super::{
    Call, FakeResponse, ForgeDouble, HEAD, Model, ModelDeployment, ModelPullRequest, ModelStatus, Source,
    changed_files, no_content, ok, page_with_link,
};

/// GitLab's maximum page size.
const PAGE_MAX: usize = 100;

pub(super) struct GitLabDouble;

impl ForgeDouble for GitLabDouble {
    fn kind(&self) -> &'static str {
        "gitlab"
    }

    fn states(&self) -> [&'static str; 4] {
        ["pending", "success", "failed", "canceled"]
    }

    fn head_ref(&self) -> Option<&'static str> {
        Some("refs/merge-requests/42/head")
    }

    fn deployment_states(&self) -> Option<[&'static str; 2]> {
        Some(["running", "success"])
    }

    fn respond(&self, model: &mut Model, call: &Call<'_>) -> Option<FakeResponse> {
        let path: Vec<_> = call.path.iter().map(String::as_str).collect();
        let ["projects", "acme/shop", rest @ ..] = path.as_slice() else { return None };
        match (call.method, rest) {
            ("GET", ["merge_requests"]) => {
                assert_eq!(call.query["state"], "opened");
                let head = call.query.get("source_branch");
                let open = model.pull_requests.iter().filter(|it| it.status == PullRequestStatus::Open);
                let found = open.filter(|it| head.is_none_or(|head| it.head_branch == *head));
                page_with_link(call, "per_page", PAGE_MAX, &found.map(merge_request).collect::<Vec<_>>())
            }
            ("POST", ["merge_requests"]) => {
                let made = ModelPullRequest {
                    number: 1_000 + model.new_id(),
                    title: call.text("title"),
                    head_branch: call.text("source_branch"),
                    base_branch: call.text("target_branch"),
                    source: Source::SameRepository,
                    labels: Vec::new(),
                    draft: false,
                    status: PullRequestStatus::Open,
                    head: HEAD.into(),
                    changed: 0,
                };
                let body = merge_request(&made);
                model.pull_requests.insert(0, made);
                ok(201, &body)
            }
            ("GET", ["merge_requests", number]) => ok(200, &merge_request(model.find(number.parse().ok()?)?)),
            ("GET", ["merge_requests", number, "diffs"]) => {
                model.find(number.parse().ok()?)?;
                let files = changed_files().map(|(path, before)| {
                    json!({"old_path": before.unwrap_or(&path), "new_path": path, "a_mode": "100644",
                        "b_mode": "100644", "diff": "@@ -1 +1 @@", "new_file": false,
                        "renamed_file": before.is_some(), "deleted_file": false})
                });
                page_with_link(call, "per_page", PAGE_MAX, &files.collect::<Vec<_>>())
            }
            ("GET", ["merge_requests", number, "notes"]) => {
                assert_eq!(call.query["sort"], "asc");
                let all = model.list_comments(number.parse().ok()?).into_iter();
                let all: Vec<_> = all.map(|(id, text)| json!({"id": id, "body": text})).collect();
                page_with_link(call, "per_page", PAGE_MAX, &all)
            }
            ("POST", ["merge_requests", number, "notes"]) => {
                let number = model.find(number.parse().ok()?)?.number;
                let id = model.new_id();
                model.comments.insert(id, (number, call.text("body")));
                ok(201, &json!({"id": id, "body": call.text("body"), "noteable_iid": number}))
            }
            ("PUT", ["merge_requests", number, "notes", id]) => {
                let id = id.parse().ok()?;
                let comment = model.comments.get_mut(&id).filter(|it| it.0.to_string() == *number)?;
                comment.1 = call.text("body");
                ok(200, &json!({"id": id, "body": call.text("body")}))
            }
            ("POST", ["statuses", commit]) => set_status(model, call, commit),
            (_, ["deployments", rest @ ..]) => respond_about_deployments(model, call, rest),
            ("POST", ["hooks"]) => {
                assert!(
                    ["push_events", "merge_requests_events", "note_events"]
                        .iter()
                        .all(|name| call.body[*name] == true)
                );
                let id = model.new_id();
                model.hooks.insert(id.to_string(), (call.text("url"), call.text("token")));
                ok(201, &json!({"id": id, "url": call.text("url"), "merge_requests_events": true}))
            }
            ("DELETE", ["hooks", id]) => model.hooks.remove(*id).and_then(|_| no_content()),
            ("POST", ["hooks", id, "test", "push_events"]) => {
                model.hooks.get(*id)?;
                model.tests_sent += 1;
                ok(201, &json!({"message": "201 Created"}))
            }
            _ => None,
        }
    }
}

fn respond_about_deployments(model: &mut Model, call: &Call<'_>, path: &[&str]) -> Option<FakeResponse> {
    match (call.method, path) {
        ("GET", []) => {
            let (environment, status) = (&call.query["environment"], &call.query["status"]);
            let is_found =
                |it: &&ModelDeployment| it.environment == *environment && it.states.last() == Some(status);
            let found: Vec<_> =
                model.deployments.iter().rev().filter(is_found).map(render_deployment).collect();
            page_with_link(call, "per_page", PAGE_MAX, &found)
        }
        ("POST", []) => {
            assert_eq!(call.body["tag"], false);
            assert_eq!(call.text("ref"), call.text("sha"));
            let made = ModelDeployment {
                id: model.new_id(),
                commit: call.text("sha"),
                environment: call.text("environment"),
                is_transient: false,
                payload: Value::Null,
                states: vec![call.text("status")],
                urls: [None, None],
                description: String::new(),
            };
            let body = render_deployment(&made);
            model.deployments.push(made);
            ok(201, &body)
        }
        ("GET", [id]) => model.find_deployment(id).and_then(|it| ok(200, &render_deployment(it))),
        ("PUT", [id]) => {
            let found = model.find_deployment(id)?;
            let (status, last) = (call.text("status"), found.states.last().cloned().unwrap_or_default());
            // Like GitLab, refuses to repeat a state.
            if status == last || !["running", "success", "failed", "canceled"].contains(&status.as_str()) {
                return ok(400, &json!({"message": {"status": ["cannot transition"]}}));
            }
            found.states.push(status);
            ok(200, &render_deployment(found))
        }
        _ => None,
    }
}

fn render_deployment(it: &ModelDeployment) -> Value {
    json!({
        "id": it.id, "iid": it.id, "ref": it.commit, "sha": it.commit, "status": it.states.last(),
        "environment": {"id": 9, "name": it.environment, "external_url": null},
    })
}

/// Like GitLab, refuses to set a pending status to pending.
fn set_status(model: &mut Model, call: &Call<'_>, commit: &str) -> Option<FakeResponse> {
    let status = ModelStatus {
        commit: commit.to_owned(),
        key: call.text("name"),
        state: call.text("state"),
        description: call.text("description"),
        url: call.optional_text("target_url"),
    };
    let known = model.statuses.iter().find(|it| it.commit == commit && it.key == status.key);
    if status.state == "pending" && known.is_some_and(|known| known.state == "pending") {
        let why = "Cannot transition status via :enqueue from :pending (Reason(s): Status cannot transition via \"enqueue\")";
        return ok(400, &json!({"message": why}));
    }
    let body = json!({"id": 93, "sha": commit, "status": status.state, "name": status.key});
    model.set_status(status);
    ok(201, &body)
}

fn merge_request(it: &ModelPullRequest) -> Value {
    let (state, merged_at, closed_at) = match it.status {
        PullRequestStatus::Open => ("opened", None, None),
        PullRequestStatus::Merged => ("merged", Some("2026-11-15T09:30:00.000Z"), None),
        PullRequestStatus::Closed => ("closed", None, Some("2026-11-15T09:30:00.000Z")),
    };
    let source = match it.source {
        Source::SameRepository => json!(15),
        Source::Fork => json!(16),
        Source::DeletedFork => Value::Null,
    };
    json!({
        "id": 155_016_530 + it.number,
        "iid": it.number,
        "project_id": 15,
        "title": if it.draft { format!("Draft: {}", it.title) } else { it.title.clone() },
        "description": "Please review.",
        "state": state,
        "created_at": "2026-11-15T09:00:00.000Z",
        "updated_at": format!("2026-11-18T12:{:02}:00.000Z", it.changed),
        "merged_at": merged_at,
        "closed_at": closed_at,
        "target_branch": it.base_branch,
        "source_branch": it.head_branch,
        "author": {"id": 7, "username": "grace", "name": "Grace Hopper", "state": "active"},
        "source_project_id": source,
        "target_project_id": 15,
        "labels": it.labels,
        "draft": it.draft,
        "work_in_progress": it.draft,
        "sha": it.head,
        "merge_commit_sha": null,
        "web_url": format!("https://git.acme.test/acme/shop/pull/{}", it.number),
    })
}
