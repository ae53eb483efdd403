//! GitHub and GitHub Enterprise Server.

use berth_core::forge::progress::DeploymentProgress;
use berth_core::forge::{ForgeKind, PullRequestSnapshot};
use http::Method;
use serde_json::{Value, json};

use super::location::percent_encode;
use super::{
    BranchPair, CommitStatus, DeploymentApi, DeploymentDraft, DeploymentUpdate, Forge, ForgeLogin,
    ForgePullRequestState, ForgeRepository, ForgeRequest, PullRequest, PullRequestDraft, parse, repos_api,
};

const VERSION: &str = "2022-11-28";
/// Events that the webhook subscribes to. Comments on pull requests are `issue_comment`.
const EVENTS: [&str; 3] = ["push", "pull_request", "issue_comment"];
/// Items per page; GitHub's maximum is 100.
const PULL_REQUESTS_PAGE: usize = 50;
const FILES_PAGE: usize = 100;
const COMMENTS_PAGE: usize = 100;
/// Deployments of one commit in one environment, among which is searched for one that was created before.
const DEPLOYMENTS_PAGE: usize = 100;

pub struct GitHub;

impl Forge for GitHub {
    fn kind(&self) -> ForgeKind {
        ForgeKind::GitHub
    }

    fn is_at(&self, host: &str) -> bool {
        host == "github.com" || host.ends_with(".ghe.com")
    }

    fn api(&self, origin: &str) -> String {
        match origin.strip_prefix("https://") {
            Some("github.com") => "https://api.github.com".to_owned(),
            Some(host) if host.ends_with(".ghe.com") => format!("https://api.{host}"),
            _ => format!("{origin}/api/v3"),
        }
    }

    fn headers(&self, login: ForgeLogin<'_>) -> Vec<(&'static str, String)> {
        vec![
            ("accept", "application/vnd.github+json, application/json".to_owned()),
            ("x-github-api-version", VERSION.to_owned()),
            ("authorization", format!("Bearer {}", login.token)),
        ]
    }

    fn find_url(&self, at: &ForgeRepository, branches: BranchPair<'_>) -> String {
        let head = percent_encode(&format!("{}:{}", at.owner(), branches.head));
        format!("{}?state=open&head={head}&per_page=1", self.open_url(at))
    }

    fn parse_found(&self, answer: &Value) -> Option<PullRequest> {
        self.parse_opened(answer.as_array()?.first()?)
    }

    fn open_url(&self, at: &ForgeRepository) -> String {
        format!("{}/pulls", repos_api::repository_url(at))
    }

    fn open_body(&self, new: PullRequestDraft<'_>) -> Value {
        repos_api::open_body(new)
    }

    fn parse_opened(&self, answer: &Value) -> Option<PullRequest> {
        repos_api::parse_opened(answer)
    }

    fn parse_state(&self, answer: &Value) -> Option<ForgePullRequestState> {
        repos_api::parse_state(answer)
    }

    fn parse_snapshot(&self, answer: &Value) -> Option<(i64, PullRequestSnapshot)> {
        repos_api::parse_snapshot(answer)
    }

    fn head_ref(&self, number: i64) -> Option<String> {
        Some(repos_api::head_ref(number))
    }

    fn open_list_url(&self, at: &ForgeRepository, page: usize) -> String {
        let query = format!("state=open&sort=created&direction=desc&per_page={PULL_REQUESTS_PAGE}");
        format!("{}?{query}&page={page}", self.open_url(at))
    }

    fn files_url(&self, at: &ForgeRepository, number: i64, page: usize) -> String {
        format!("{}/files?per_page={FILES_PAGE}&page={page}", self.get_url(at, number))
    }

    fn parse_paths(&self, file: &Value) -> Vec<String> {
        repos_api::parse_paths(file)
    }

    fn create_comment(&self, at: &ForgeRepository, number: i64, text: &str) -> ForgeRequest {
        repos_api::create_comment(at, number, text)
    }

    fn edit_comment(&self, at: &ForgeRepository, _number: i64, id: &str, text: &str) -> ForgeRequest {
        repos_api::edit_comment(at, id, text)
    }

    fn comments_url(&self, at: &ForgeRepository, number: i64, page: usize) -> String {
        format!("{}?per_page={COMMENTS_PAGE}&page={page}", repos_api::comments_url(at, number))
    }

    fn set_status(&self, at: &ForgeRepository, commit: &str, status: &CommitStatus) -> ForgeRequest {
        repos_api::set_status(at, commit, status)
    }

    fn deployments(&self) -> Option<&dyn DeploymentApi> {
        Some(self)
    }

    fn create_hook(&self, at: &ForgeRepository, url: &str, secret: &str) -> ForgeRequest {
        let config = json!({"url": url, "content_type": "json", "secret": secret, "insecure_ssl": "0"});
        let body = json!({"name": "web", "active": true, "events": EVENTS, "config": config});
        ForgeRequest::new(Method::POST, format!("{}/hooks", repos_api::repository_url(at)), body)
    }

    fn delete_hook(&self, at: &ForgeRepository, id: &str) -> ForgeRequest {
        ForgeRequest::without_body(Method::DELETE, repos_api::hook_url(at, id))
    }

    fn test_hook(&self, at: &ForgeRepository, id: &str) -> Option<ForgeRequest> {
        Some(ForgeRequest::without_body(Method::POST, format!("{}/pings", repos_api::hook_url(at, id))))
    }
}

fn deployments_url(at: &ForgeRepository) -> String {
    format!("{}/deployments", repos_api::repository_url(at))
}

impl DeploymentApi for GitHub {
    fn permission(&self) -> &'static str {
        "`repo_deployment`, or \"Deployments: write\" for a fine-grained token or an app"
    }

    fn has_state(&self, _progress: DeploymentProgress) -> bool {
        true
    }

    fn list_url(&self, at: &ForgeRepository, draft: &DeploymentDraft) -> String {
        let (sha, environment) = (percent_encode(&draft.commit), percent_encode(&draft.environment));
        format!("{}?sha={sha}&environment={environment}&per_page={DEPLOYMENTS_PAGE}", deployments_url(at))
    }

    fn is_created_from(&self, listed: &Value, draft: &DeploymentDraft) -> bool {
        let text = |path: &[&str]| parse::member(listed, path).and_then(Value::as_str);
        text(&["payload", "berth"]) == Some(draft.deployment.as_str())
            && text(&["environment"]) == Some(draft.environment.as_str())
    }

    /// Berth decides what is deployed, so GitHub neither merges the default branch nor requires statuses.
    fn create(&self, at: &ForgeRepository, draft: &DeploymentDraft) -> ForgeRequest {
        let body = json!({
            "ref": draft.commit,
            "task": "deploy",
            "auto_merge": false,
            "required_contexts": [],
            "environment": draft.environment,
            "transient_environment": draft.is_transient,
            "payload": {"berth": draft.deployment},
        });
        ForgeRequest::new(Method::POST, deployments_url(at), body)
    }

    /// Berth itself sets replaced deployments to inactive, because GitHub leaves out those of production.
    fn set_state(&self, at: &ForgeRepository, id: &str, update: &DeploymentUpdate) -> Option<ForgeRequest> {
        let mut body = json!({
            "state": update.progress.as_str(),
            "description": update.description,
            "auto_inactive": false,
        });
        for (name, url) in [("log_url", &update.log_url), ("environment_url", &update.environment_url)] {
            if let Some(url) = url {
                body[name] = json!(url);
            }
        }
        let url = format!("{}/{}/statuses", deployments_url(at), percent_encode(id));
        (update.progress != DeploymentProgress::Planned).then(|| ForgeRequest::new(Method::POST, url, body))
    }
}
