//! Bitbucket Cloud. The credential is an access token, or `user:password` with an app password or API token.

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use berth_core::forge::{ForgeKind, PullRequestSnapshot};
use http::Method;
use serde_json::{Value, json};

use super::location::percent_encode;
use super::{
    BranchPair, CommitState, CommitStatus, Forge, ForgeLogin, ForgePullRequestState, ForgeRepository,
    ForgeRequest, PullRequest, PullRequestDraft, parse,
};

/// The user name that git uses with an access token. The API takes such a token without a name.
const TOKEN_USER: &str = "x-token-auth";
const EVENTS: [&str; 6] = [
    "repo:push",
    "pullrequest:created",
    "pullrequest:updated",
    "pullrequest:fulfilled",
    "pullrequest:rejected",
    "pullrequest:comment_created",
];
/// Items per page; Bitbucket's maximum for pull requests.
const PULL_REQUESTS_PAGE: usize = 50;
const FILES_PAGE: usize = 100;
const COMMENTS_PAGE: usize = 100;
/// Maximum length of a status's key.
const KEY_CHARS_MAX: usize = 40;
/// Bytes of the hash that replaces the end of a longer key.
const KEY_HASH_BYTES: usize = 8;

pub struct Bitbucket;

impl Bitbucket {
    fn repository_url(at: &ForgeRepository) -> String {
        format!("{}/repositories/{}/{}", at.api, percent_encode(at.owner()), percent_encode(at.name()))
    }

    fn hook_url(at: &ForgeRepository, id: &str) -> String {
        format!("{}/hooks/{}", Self::repository_url(at), percent_encode(id))
    }
}

impl Forge for Bitbucket {
    fn kind(&self) -> ForgeKind {
        ForgeKind::Bitbucket
    }

    fn is_at(&self, host: &str) -> bool {
        host == "bitbucket.org"
    }

    fn api(&self, origin: &str) -> String {
        match origin {
            "https://bitbucket.org" => "https://api.bitbucket.org/2.0".to_owned(),
            _ => format!("{origin}/2.0"),
        }
    }

    fn headers(&self, login: ForgeLogin<'_>) -> Vec<(&'static str, String)> {
        let authorization = match login.user.filter(|user| *user != TOKEN_USER) {
            Some(user) => format!("Basic {}", STANDARD.encode(format!("{user}:{}", login.token))),
            None => format!("Bearer {}", login.token),
        };
        vec![("accept", "application/json".to_owned()), ("authorization", authorization)]
    }

    fn commit_page(&self, at: &ForgeRepository, commit: &str) -> String {
        format!("{}/commits/{commit}", at.page)
    }

    /// The two commits are separated by an encoded carriage return, the new one first.
    fn compare_page(&self, at: &ForgeRepository, base: &str, head: &str) -> String {
        format!("{}/branches/compare/{head}%0D{base}", at.page)
    }

    fn find_url(&self, at: &ForgeRepository, branches: BranchPair<'_>) -> String {
        let quoted = branches.head.replace(['"', '\\'], "");
        let query = percent_encode(&format!("state=\"OPEN\" AND source.branch.name=\"{quoted}\""));
        format!("{}?q={query}&pagelen=1", self.open_url(at))
    }

    fn parse_found(&self, answer: &Value) -> Option<PullRequest> {
        self.parse_opened(self.page_items(answer)?.first()?)
    }

    fn open_url(&self, at: &ForgeRepository) -> String {
        format!("{}/pullrequests", Self::repository_url(at))
    }

    fn open_body(&self, new: PullRequestDraft<'_>) -> Value {
        let branch = |name: &str| json!({"branch": {"name": name}});
        json!({
            "title": new.title,
            "description": new.body,
            "source": branch(new.branches.head),
            "destination": branch(new.branches.base),
            "close_source_branch": true,
        })
    }

    fn parse_opened(&self, answer: &Value) -> Option<PullRequest> {
        parse::pull_request(answer, "id", &["links", "html", "href"])
    }

    /// Bitbucket does not report when a pull request ended, but an ended one rarely changes.
    fn parse_state(&self, answer: &Value) -> Option<ForgePullRequestState> {
        let changed_at = parse::time(answer, "updated_on");
        match answer.get("state")?.as_str()? {
            "OPEN" => Some(ForgePullRequestState::Open),
            "MERGED" => Some(ForgePullRequestState::Merged(changed_at)),
            "DECLINED" | "SUPERSEDED" => Some(ForgePullRequestState::Closed(changed_at)),
            _ => None,
        }
    }

    /// Bitbucket has no labels.
    fn parse_snapshot(&self, answer: &Value) -> Option<(i64, PullRequestSnapshot)> {
        let PullRequest { number, url } = self.parse_opened(answer)?;
        let repository = |side: &str| parse::member(answer, &[side, "repository", "uuid"])?.as_str();
        let author = answer.get("author")?;
        let id_name =
            if author.get("account_id").is_some_and(Value::is_string) { "account_id" } else { "uuid" };
        let snapshot = PullRequestSnapshot {
            title: parse::title(answer)?,
            url,
            author: parse::user(author, id_name, "display_name")?,
            head: parse::abbreviated_hash(answer, &["source", "commit", "hash"])?,
            head_branch: parse::branch(answer, &["source", "branch", "name"])?,
            base_branch: parse::branch(answer, &["destination", "branch", "name"])?,
            // The source repository is null if the fork was deleted.
            is_fork: repository("source").is_none() || repository("source") != repository("destination"),
            labels: Vec::new(),
            is_draft: parse::flag(answer, "draft"),
            status: parse::status(self.parse_state(answer)?),
            changed_at: parse::time(answer, "updated_on")?,
        };
        Some((number, snapshot))
    }

    /// The first commit of the list is the head.
    fn head_url(&self, at: &ForgeRepository, number: i64) -> Option<String> {
        Some(format!("{}/commits?pagelen=1", self.get_url(at, number)))
    }

    fn head_ref(&self, _number: i64) -> Option<String> {
        None
    }

    fn open_list_url(&self, at: &ForgeRepository, page: usize) -> String {
        let query = format!("state=OPEN&sort=-created_on&pagelen={PULL_REQUESTS_PAGE}");
        format!("{}?{query}&page={page}", self.open_url(at))
    }

    /// Bitbucket redirects this URL to the comparison of the two commits, within its API.
    fn files_url(&self, at: &ForgeRepository, number: i64, page: usize) -> String {
        format!("{}/diffstat?pagelen={FILES_PAGE}&page={page}", self.get_url(at, number))
    }

    fn parse_paths(&self, file: &Value) -> Vec<String> {
        parse::paths(file, &[&["new", "path"], &["old", "path"]])
    }

    fn page_items<'a>(&self, answer: &'a Value) -> Option<&'a [Value]> {
        answer.get("values")?.as_array().map(Vec::as_slice)
    }

    fn has_next_page(&self, answer: &Value) -> Option<bool> {
        Some(answer.get("next").is_some_and(Value::is_string))
    }

    fn create_comment(&self, at: &ForgeRepository, number: i64, text: &str) -> ForgeRequest {
        let url = format!("{}/comments", self.get_url(at, number));
        ForgeRequest::new(Method::POST, url, json!({"content": {"raw": text}}))
    }

    fn edit_comment(&self, at: &ForgeRepository, number: i64, id: &str, text: &str) -> ForgeRequest {
        let url = format!("{}/comments/{}", self.get_url(at, number), percent_encode(id));
        ForgeRequest::new(Method::PUT, url, json!({"content": {"raw": text}}))
    }

    fn comments_url(&self, at: &ForgeRepository, number: i64, page: usize) -> String {
        format!("{}/comments?pagelen={COMMENTS_PAGE}&page={page}", self.get_url(at, number))
    }

    fn parse_comment<'a>(&self, comment: &'a Value) -> Option<&'a str> {
        parse::member(comment, &["content", "raw"])?.as_str()
    }

    /// Bitbucket requires a URL. Without one, the status links to the commit.
    fn set_status(&self, at: &ForgeRepository, commit: &str, status: &CommitStatus) -> ForgeRequest {
        let state = match status.state {
            CommitState::Pending => "INPROGRESS",
            CommitState::Success => "SUCCESSFUL",
            CommitState::Failure => "FAILED",
            CommitState::Error => "STOPPED",
        };
        let commit = percent_encode(commit);
        let own_page = || format!("https://bitbucket.org/{}/{}/commits/{commit}", at.owner(), at.name());
        let body = json!({
            "key": status_key(&status.context),
            "name": status.context,
            "state": state,
            "description": status.description,
            "url": status.target_url.clone().unwrap_or_else(own_page),
        });
        let url = format!("{}/commit/{commit}/statuses/build", Self::repository_url(at));
        ForgeRequest::new(Method::POST, url, body)
    }

    fn create_hook(&self, at: &ForgeRepository, url: &str, secret: &str) -> ForgeRequest {
        let body = json!({
            "description": "Berth",
            "url": url,
            "active": true,
            "secret": secret,
            "events": EVENTS,
        });
        ForgeRequest::new(Method::POST, format!("{}/hooks", Self::repository_url(at)), body)
    }

    fn delete_hook(&self, at: &ForgeRepository, id: &str) -> ForgeRequest {
        ForgeRequest::without_body(Method::DELETE, Self::hook_url(at, id))
    }

    fn test_hook(&self, _at: &ForgeRepository, _id: &str) -> Option<ForgeRequest> {
        None
    }

    /// Comments have a numeric id, webhooks a UUID.
    fn parse_id(&self, answer: &Value) -> Option<String> {
        parse::id(answer, "id").or_else(|| parse::id(answer, "uuid"))
    }
}

/// Returns the context as a key. If it is too long, a hash replaces its end, so that keys remain distinct.
fn status_key(context: &str) -> String {
    if context.chars().count() <= KEY_CHARS_MAX {
        return context.to_owned();
    }
    let hash = digest(&SHA256, context.as_bytes());
    let end: String = hash.as_ref().iter().take(KEY_HASH_BYTES).map(|byte| format!("{byte:02x}")).collect();
    let start: String = context.chars().take(KEY_CHARS_MAX - end.len() - 1).collect();
    format!("{start}-{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_key_is_short_and_distinct() {
        assert_eq!(status_key("berth/shop/production"), "berth/shop/production");
        let long = |end: &str| format!("berth/{}/{end}", "shop".repeat(20));
        let (one, other) = (status_key(&long("qa-1")), status_key(&long("qa-2")));
        assert_eq!((one.len(), other.len()), (KEY_CHARS_MAX, KEY_CHARS_MAX));
        assert_ne!(one, other);
    }
}
