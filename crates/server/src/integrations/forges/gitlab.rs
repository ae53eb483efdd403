//! GitLab, where pull requests are called merge requests.

use berth_core::forge::progress::DeploymentProgress;
use berth_core::forge::{ForgeKind, PullRequestSnapshot};
use http::Method;
use serde_json::{Value, json};

use super::location::percent_encode;
use super::{
    BranchPair, CommitState, CommitStatus, DeploymentApi, DeploymentDraft, DeploymentUpdate, Forge,
    ForgeLogin, ForgePullRequestState, ForgeRepository, ForgeRequest, PullRequest, PullRequestDraft, parse,
};

/// Items per page; GitLab's maximum is 100.
const MERGE_REQUESTS_PAGE: usize = 50;
/// The response contains the diffs, so pages are small.
const FILES_PAGE: usize = 30;
const COMMENTS_PAGE: usize = 100;
/// The newest deployments of an environment, among which is searched for one that was created before.
const DEPLOYMENTS_PAGE: usize = 20;

pub struct GitLab;

impl GitLab {
    fn project_url(at: &ForgeRepository) -> String {
        format!("{}/projects/{}", at.api, percent_encode(&at.path))
    }

    fn deployment_url(at: &ForgeRepository, id: &str) -> String {
        format!("{}/deployments/{}", Self::project_url(at), percent_encode(id))
    }

    /// GitLab's name of a state. It shows by itself which deployment of an environment is the newest.
    fn deployment_state(progress: DeploymentProgress) -> Option<&'static str> {
        match progress {
            DeploymentProgress::InProgress => Some("running"),
            DeploymentProgress::Success => Some("success"),
            DeploymentProgress::Failure => Some("failed"),
            DeploymentProgress::Error => Some("canceled"),
            DeploymentProgress::Planned | DeploymentProgress::Queued | DeploymentProgress::Inactive => None,
        }
    }
}

impl Forge for GitLab {
    fn kind(&self) -> ForgeKind {
        ForgeKind::GitLab
    }

    fn is_at(&self, host: &str) -> bool {
        host.starts_with("gitlab.")
    }

    fn api(&self, origin: &str) -> String {
        format!("{origin}/api/v4")
    }

    fn headers(&self, login: ForgeLogin<'_>) -> Vec<(&'static str, String)> {
        vec![("accept", "application/json".to_owned()), ("authorization", format!("Bearer {}", login.token))]
    }

    fn commit_page(&self, at: &ForgeRepository, commit: &str) -> String {
        format!("{}/-/commit/{commit}", at.page)
    }

    fn compare_page(&self, at: &ForgeRepository, base: &str, head: &str) -> String {
        format!("{}/-/compare/{base}...{head}", at.page)
    }

    fn find_url(&self, at: &ForgeRepository, branches: BranchPair<'_>) -> String {
        format!(
            "{}?state=opened&source_branch={}&per_page=1",
            self.open_url(at),
            percent_encode(branches.head)
        )
    }

    fn parse_found(&self, answer: &Value) -> Option<PullRequest> {
        self.parse_opened(answer.as_array()?.first()?)
    }

    fn open_url(&self, at: &ForgeRepository) -> String {
        format!("{}/merge_requests", Self::project_url(at))
    }

    fn open_body(&self, new: PullRequestDraft<'_>) -> Value {
        let BranchPair { head, base } = new.branches;
        json!({
            "title": new.title,
            "description": new.body,
            "source_branch": head,
            "target_branch": base,
            "remove_source_branch": true,
        })
    }

    fn parse_opened(&self, answer: &Value) -> Option<PullRequest> {
        parse::pull_request(answer, "iid", &["web_url"])
    }

    /// `locked` means that the merge is in progress.
    fn parse_state(&self, answer: &Value) -> Option<ForgePullRequestState> {
        match answer.get("state")?.as_str()? {
            "opened" | "locked" => Some(ForgePullRequestState::Open),
            "merged" => Some(ForgePullRequestState::Merged(parse::time(answer, "merged_at"))),
            "closed" => Some(ForgePullRequestState::Closed(parse::time(answer, "closed_at"))),
            _ => None,
        }
    }

    fn parse_snapshot(&self, answer: &Value) -> Option<(i64, PullRequestSnapshot)> {
        let PullRequest { number, url } = self.parse_opened(answer)?;
        let project = |name: &str| answer.get(name)?.as_i64();
        let source = project("source_project_id");
        let snapshot = PullRequestSnapshot {
            title: parse::title(answer)?,
            url,
            author: parse::user(answer.get("author")?, "id", "username")?,
            head: parse::hash(answer, &["sha"])?,
            head_branch: parse::branch(answer, &["source_branch"])?,
            base_branch: parse::branch(answer, &["target_branch"])?,
            // The source project is null if the fork was deleted.
            is_fork: source.is_none() || source != project("target_project_id"),
            labels: parse::labels(answer),
            is_draft: parse::flag(answer, "draft") || parse::flag(answer, "work_in_progress"),
            status: parse::status(self.parse_state(answer)?),
            changed_at: parse::time(answer, "updated_at")?,
        };
        Some((number, snapshot))
    }

    fn head_ref(&self, number: i64) -> Option<String> {
        Some(format!("refs/merge-requests/{number}/head"))
    }

    fn open_list_url(&self, at: &ForgeRepository, page: usize) -> String {
        let query = format!("state=opened&order_by=created_at&sort=desc&per_page={MERGE_REQUESTS_PAGE}");
        format!("{}?{query}&page={page}", self.open_url(at))
    }

    fn files_url(&self, at: &ForgeRepository, number: i64, page: usize) -> String {
        format!("{}/diffs?per_page={FILES_PAGE}&page={page}", self.get_url(at, number))
    }

    fn parse_paths(&self, file: &Value) -> Vec<String> {
        parse::paths(file, &[&["new_path"], &["old_path"]])
    }

    fn create_comment(&self, at: &ForgeRepository, number: i64, text: &str) -> ForgeRequest {
        let url = format!("{}/notes", self.get_url(at, number));
        ForgeRequest::new(Method::POST, url, json!({"body": text}))
    }

    fn edit_comment(&self, at: &ForgeRepository, number: i64, id: &str, text: &str) -> ForgeRequest {
        let url = format!("{}/notes/{}", self.get_url(at, number), percent_encode(id));
        ForgeRequest::new(Method::PUT, url, json!({"body": text}))
    }

    fn comments_url(&self, at: &ForgeRepository, number: i64, page: usize) -> String {
        let query = format!("sort=asc&order_by=created_at&per_page={COMMENTS_PAGE}");
        format!("{}/notes?{query}&page={page}", self.get_url(at, number))
    }

    fn set_status(&self, at: &ForgeRepository, commit: &str, status: &CommitStatus) -> ForgeRequest {
        let state = match status.state {
            CommitState::Pending => "pending",
            CommitState::Success => "success",
            CommitState::Failure => "failed",
            CommitState::Error => "canceled",
        };
        let mut body = json!({"state": state, "name": status.context, "description": status.description});
        if let Some(url) = &status.target_url {
            body["target_url"] = json!(url);
        }
        let url = format!("{}/statuses/{}", Self::project_url(at), percent_encode(commit));
        ForgeRequest::new(Method::POST, url, body)
    }

    /// GitLab refuses to set a status that is pending to pending. Only its description remains as it was.
    fn is_status_set(&self, status: &CommitStatus, code: u16, said: &str) -> bool {
        code == 400
            && status.state == CommitState::Pending
            && said.contains("Cannot transition status via :enqueue")
    }

    fn deployments(&self) -> Option<&dyn DeploymentApi> {
        Some(self)
    }

    fn create_hook(&self, at: &ForgeRepository, url: &str, secret: &str) -> ForgeRequest {
        let body = json!({
            "url": url,
            "token": secret,
            "push_events": true,
            "merge_requests_events": true,
            "note_events": true,
            "enable_ssl_verification": true,
        });
        ForgeRequest::new(Method::POST, format!("{}/hooks", Self::project_url(at)), body)
    }

    fn delete_hook(&self, at: &ForgeRepository, id: &str) -> ForgeRequest {
        let url = format!("{}/hooks/{}", Self::project_url(at), percent_encode(id));
        ForgeRequest::without_body(Method::DELETE, url)
    }

    fn test_hook(&self, at: &ForgeRepository, id: &str) -> Option<ForgeRequest> {
        let url = format!("{}/hooks/{}/test/push_events", Self::project_url(at), percent_encode(id));
        Some(ForgeRequest::without_body(Method::POST, url))
    }
}

impl DeploymentApi for GitLab {
    fn permission(&self) -> &'static str {
        "`api`, with the role Developer"
    }

    fn has_state(&self, progress: DeploymentProgress) -> bool {
        Self::deployment_state(progress).is_some()
    }

    fn list_url(&self, at: &ForgeRepository, draft: &DeploymentDraft) -> String {
        let environment = percent_encode(&draft.environment);
        let order = format!("order_by=id&sort=desc&per_page={DEPLOYMENTS_PAGE}");
        format!("{}/deployments?environment={environment}&status=running&{order}", Self::project_url(at))
    }

    /// A deployment has no member for Berth's id. But it is created as running, and Berth runs only one at a time in an
    /// environment.
    fn is_created_from(&self, listed: &Value, draft: &DeploymentDraft) -> bool {
        let text = |path: &[&str]| parse::member(listed, path).and_then(Value::as_str);
        text(&["sha"]) == Some(draft.commit.as_str())
            && text(&["environment", "name"]) == Some(draft.environment.as_str())
            && text(&["status"]) == Some("running")
    }

    /// The commit is also the ref, because its branch may be gone.
    fn create(&self, at: &ForgeRepository, draft: &DeploymentDraft) -> ForgeRequest {
        let body = json!({
            "environment": draft.environment,
            "sha": draft.commit,
            "ref": draft.commit,
            "tag": false,
            "status": "running",
        });
        ForgeRequest::new(Method::POST, format!("{}/deployments", Self::project_url(at)), body)
    }

    fn set_state(&self, at: &ForgeRepository, id: &str, update: &DeploymentUpdate) -> Option<ForgeRequest> {
        let body = json!({"status": Self::deployment_state(update.progress)?});
        Some(ForgeRequest::new(Method::PUT, Self::deployment_url(at, id), body))
    }

    /// GitLab refuses to set a deployment to the state that it has.
    fn state_url(&self, at: &ForgeRepository, id: &str) -> Option<String> {
        Some(Self::deployment_url(at, id))
    }

    fn is_in_state(&self, found: &Value, progress: DeploymentProgress) -> bool {
        found.get("status").and_then(Value::as_str) == Self::deployment_state(progress)
    }
}
