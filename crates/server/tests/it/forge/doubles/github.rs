//! A double of GitHub.

use berth_core::forge::PullRequestStatus;
use serde_json::{Value, json};

use super::{
    Call, FakeResponse, ForgeDouble, HEAD, Model, ModelDeployment, ModelPullRequest, ModelStatus, Source,
    changed_files, no_content, ok, page_with_link,
};

pub(super) struct GitHubDouble;

impl ForgeDouble for GitHubDouble {
    fn kind(&self) -> &'static str {
        "github"
    }

    fn states(&self) -> [&'static str; 4] {
        ["pending", "success", "failure", "error"]
    }

    fn head_ref(&self) -> Option<&'static str> {
        Some("refs/pull/42/head")
    }

    fn deployment_states(&self) -> Option<[&'static str; 2]> {
        Some(["in_progress", "success"])
    }

    fn respond(&self, model: &mut Model, call: &Call<'_>) -> Option<FakeResponse> {
        let path: Vec<_> = call.path.iter().map(String::as_str).collect();
        let ["repos", "acme", "shop", rest @ ..] = path.as_slice() else { return None };
        if let ("GET", ["pulls"]) = (call.method, rest)
            && call.query.get("sort").map(String::as_str) != Some("created")
            && !call.query.contains_key("head")
        {
            return None;
        }
        if let ["deployments", rest @ ..] = rest {
            return respond_about_deployments(model, call, rest);
        }
        respond_like_github(model, call, rest, "per_page", 100, pull_request)
    }
}

fn respond_about_deployments(model: &mut Model, call: &Call<'_>, path: &[&str]) -> Option<FakeResponse> {
    match (call.method, path) {
        ("GET", []) => {
            let (sha, environment) = (&call.query["sha"], &call.query["environment"]);
            let found =
                model.deployments.iter().filter(|it| it.commit == *sha && it.environment == *environment);
            page_with_link(call, "per_page", 100, &found.map(render_deployment).collect::<Vec<_>>())
        }
        ("POST", []) => {
            // Without these members, GitHub merges the default branch and requires statuses.
            assert_eq!(
                (&call.body["auto_merge"], &call.body["required_contexts"]),
                (&json!(false), &json!([]))
            );
            let made = ModelDeployment {
                id: model.new_id(),
                commit: call.text("ref"),
                environment: call.text("environment"),
                is_transient: call.body["transient_environment"] == true,
                payload: call.body["payload"].clone(),
                states: Vec::new(),
                urls: [None, None],
                description: String::new(),
            };
            let body = render_deployment(&made);
            model.deployments.push(made);
            ok(201, &body)
        }
        ("POST", [id, "statuses"]) => {
            let state = call.text("state");
            let states = ["error", "failure", "inactive", "in_progress", "queued", "pending", "success"];
            if !states.contains(&state.as_str()) || call.text("description").chars().count() > 140 {
                return ok(422, &json!({"message": "Validation Failed"}));
            }
            let found = model.find_deployment(id)?;
            found.states.push(state.clone());
            found.urls = [call.optional_text("log_url"), call.optional_text("environment_url")];
            found.description = call.text("description");
            ok(201, &json!({"id": 1, "state": state}))
        }
        _ => None,
    }
}

fn render_deployment(it: &ModelDeployment) -> Value {
    json!({
        "id": it.id, "sha": it.commit, "ref": it.commit, "task": "deploy", "payload": it.payload,
        "environment": it.environment, "original_environment": it.environment,
        "transient_environment": it.is_transient, "production_environment": it.environment == "production",
    })
}

/// The routes that GitHub and Gitea share.
pub(super) fn respond_like_github(
    model: &mut Model,
    call: &Call<'_>,
    path: &[&str],
    size: &str,
    most: usize,
    render: fn(&ModelPullRequest) -> Value,
) -> Option<FakeResponse> {
    match (call.method, path) {
        ("GET", ["pulls"]) => {
            let head = call.query.get("head").map(|head| head.trim_start_matches("acme:").to_owned());
            let open = model.pull_requests.iter().filter(|it| it.status == PullRequestStatus::Open);
            let found = open.filter(|it| head.as_ref().is_none_or(|head| it.head_branch == *head));
            page_with_link(call, size, most, &found.map(render).collect::<Vec<_>>())
        }
        ("POST", ["pulls"]) => {
            let number = 1_000 + model.new_id();
            let made = ModelPullRequest {
                number,
                title: call.text("title"),
                head_branch: call.text("head"),
                base_branch: call.text("base"),
                source: Source::SameRepository,
                labels: Vec::new(),
                draft: false,
                status: PullRequestStatus::Open,
                head: HEAD.into(),
                changed: 0,
            };
            let body = render(&made);
            model.pull_requests.insert(0, made);
            ok(201, &body)
        }
        ("GET", ["pulls", number]) => ok(200, &render(model.find(number.parse().ok()?)?)),
        ("GET", ["pulls", number, "files"]) => {
            model.find(number.parse().ok()?)?;
            let files = changed_files().map(|(path, before)| {
                let mut file = json!({"sha": HEAD, "filename": path, "status": "modified", "additions": 1,
                    "deletions": 1, "changes": 2, "patch": "@@ -1 +1 @@"});
                if let Some(before) = before {
                    file["status"] = json!("renamed");
                    file["previous_filename"] = json!(before);
                }
                file
            });
            page_with_link(call, size, most, &files.collect::<Vec<_>>())
        }
        ("GET", ["issues", number, "comments"]) => {
            let all = model.list_comments(number.parse().ok()?);
            let all = all.into_iter().map(|(id, text)| json!({"id": id, "body": text}));
            page_with_link(call, size, most, &all.collect::<Vec<_>>())
        }
        ("POST", ["issues", number, "comments"]) => {
            let number = model.find(number.parse().ok()?)?.number;
            let id = model.new_id();
            model.comments.insert(id, (number, call.text("body")));
            ok(201, &json!({"id": id, "body": call.text("body"), "user": {"id": 1, "login": "berth"}}))
        }
        ("PATCH", ["issues", "comments", id]) => {
            let id = id.parse().ok()?;
            model.comments.get_mut(&id)?.1 = call.text("body");
            ok(200, &json!({"id": id, "body": call.text("body")}))
        }
        ("POST", ["statuses", commit]) => {
            let status = ModelStatus {
                commit: (*commit).to_owned(),
                key: call.text("context"),
                state: call.text("state"),
                description: call.text("description"),
                url: call.optional_text("target_url"),
            };
            if status.description.chars().count() > 140 {
                return ok(
                    422,
                    &json!({"message": "Validation Failed", "errors": ["description is too long"]}),
                );
            }
            let body = json!({"id": 1, "state": status.state, "context": status.key});
            model.set_status(status);
            ok(201, &body)
        }
        ("POST", ["hooks"]) => {
            assert_eq!(call.body["active"], true);
            assert_eq!(call.body["config"]["content_type"], "json");
            assert!(call.body["events"].as_array().unwrap().contains(&json!("pull_request")));
            let text = |name: &str| call.body["config"][name].as_str().unwrap().to_owned();
            let id = model.new_id();
            model.hooks.insert(id.to_string(), (text("url"), text("secret")));
            ok(201, &json!({"id": id, "type": "Repository", "active": true, "events": call.body["events"]}))
        }
        ("DELETE", ["hooks", id]) => model.hooks.remove(*id).and_then(|_| no_content()),
        ("POST", ["hooks", id, "pings" | "tests"]) => {
            model.hooks.get(*id)?;
            model.tests_sent += 1;
            no_content()
        }
        _ => None,
    }
}

fn pull_request(it: &ModelPullRequest) -> Value {
    let is_open = it.status == PullRequestStatus::Open;
    let ended_at = (!is_open).then_some("2026-11-15T09:30:00Z");
    let is_merged = it.status == PullRequestStatus::Merged;
    let base = json!({"id": 1_296_269, "name": "shop", "full_name": "acme/shop", "fork": false});
    let head = match it.source {
        Source::SameRepository => base.clone(),
        Source::Fork => json!({"id": 1_296_270, "name": "shop", "full_name": "grace/shop", "fork": true}),
        Source::DeletedFork => Value::Null,
    };
    json!({
        "url": format!("https://api.github.com/repos/acme/shop/pulls/{}", it.number),
        "id": 1_000_000 + it.number,
        "html_url": format!("https://git.acme.test/acme/shop/pull/{}", it.number),
        "number": it.number,
        "state": if is_open { "open" } else { "closed" },
        "locked": false,
        "title": it.title,
        "user": {"login": "grace", "id": 7, "type": "User", "site_admin": false},
        "body": "Please review.",
        "labels": it.labels.iter().map(|name| json!({"id": 1, "name": name, "color": "f29513"})).collect::<Vec<_>>(),
        "created_at": "2026-11-15T09:00:00Z",
        "updated_at": format!("2026-11-18T12:{:02}:00Z", it.changed),
        "closed_at": ended_at,
        "merged_at": ended_at.filter(|_| is_merged),
        "draft": it.draft,
        "head": {"label": format!("acme:{}", it.head_branch), "ref": it.head_branch, "sha": it.head, "repo": head},
        "base": {"label": format!("acme:{}", it.base_branch), "ref": it.base_branch, "sha": HEAD, "repo": base},
    })
}
