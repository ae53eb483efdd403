//! Doubles of the forges: small HTTP servers that keep a model of one repository, `acme/shop`, and respond in the
//! format of their forge. The formats follow the forges' API documentation.

mod bitbucket;
mod gitea;
mod github;
mod github_app;
mod gitlab;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use berth_core::forge::PullRequestStatus;
use serde_json::{Value, json};
use url::Url;

pub(crate) use github_app::GitHubAppDouble;

use super::fake_forge::{FakeForge, FakeResponse, RecordedRequest};

pub(super) const TOKEN: &str = "conformance-token";
pub(super) const HEAD: &str = "4d6d0ebe4d6d0ebe4d6d0ebe4d6d0ebe4d6d0ebe";
/// The number of a pull request that does not exist.
pub(super) const MISSING: i64 = 999;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    SameRepository,
    Fork,
    DeletedFork,
}

#[derive(Debug, Clone)]
pub(super) struct ModelPullRequest {
    pub(super) number: i64,
    pub(super) title: String,
    pub(super) head_branch: String,
    pub(super) base_branch: String,
    pub(super) source: Source,
    pub(super) labels: Vec<&'static str>,
    pub(super) draft: bool,
    pub(super) status: PullRequestStatus,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ModelStatus {
    pub(super) commit: String,
    /// The text that identifies the status.
    pub(super) key: String,
    pub(super) state: String,
    pub(super) description: String,
    pub(super) url: Option<String>,
}

/// What the forge knows.
#[derive(Debug, Default)]
pub(super) struct Model {
    pub(super) pull_requests: Vec<ModelPullRequest>,
    /// Comments by id, with the pull request's number.
    pub(super) comments: HashMap<i64, (i64, String)>,
    pub(super) statuses: Vec<ModelStatus>,
    /// Webhooks by id: the URL and the secret.
    pub(super) hooks: HashMap<String, (String, String)>,
    pub(super) tests_sent: usize,
    next_id: i64,
}

impl Model {
    fn new_id(&mut self) -> i64 {
        self.next_id += 1;
        self.next_id
    }

    fn find(&self, number: i64) -> Option<&ModelPullRequest> {
        self.pull_requests.iter().find(|it| it.number == number)
    }

    /// Sets a status: one per commit and key.
    fn set_status(&mut self, status: ModelStatus) {
        self.statuses.retain(|it| it.commit != status.commit || it.key != status.key);
        self.statuses.push(status);
    }
}

/// A request, split into the parts that routes match.
pub(super) struct Call<'a> {
    method: &'a str,
    /// The decoded segments of the path.
    path: Vec<String>,
    query: HashMap<String, String>,
    body: &'a Value,
    authorization: &'a str,
    /// The base URL of this server.
    base: String,
}

impl<'a> Call<'a> {
    fn new(request: &'a RecordedRequest) -> Self {
        let (method, target) = request.line.split_once(' ').unwrap();
        let base = format!("http://{}", request.headers["host"]);
        let url = Url::parse(&format!("{base}{target}")).unwrap();
        let decode = |text: &str| {
            let pair = format!("x={}", text.replace('+', "%2B"));
            url::form_urlencoded::parse(pair.as_bytes()).next().unwrap().1.into_owned()
        };
        Self {
            method,
            path: url.path_segments().unwrap().map(decode).collect(),
            query: url.query_pairs().into_owned().collect(),
            body: &request.body,
            authorization: request.headers.get("authorization").map_or("", String::as_str),
            base,
        }
    }

    fn number(&self, name: &str) -> Option<usize> {
        self.query.get(name)?.parse().ok()
    }

    fn text(&self, name: &str) -> String {
        self.body[name].as_str().unwrap_or_default().to_owned()
    }

    fn optional_text(&self, name: &str) -> Option<String> {
        self.body.get(name).map(|value| value.as_str().unwrap().to_owned())
    }
}

/// One forge's routes and formats.
pub(super) trait ForgeDouble: Send + Sync {
    /// The forge's name in the configuration.
    fn kind(&self) -> &'static str;

    fn authorization(&self) -> String {
        format!("Bearer {TOKEN}")
    }

    /// Names of the states pending, success, failure and error.
    fn states(&self) -> [&'static str; 4];

    fn head_ref(&self) -> Option<&'static str>;

    fn has_labels(&self) -> bool {
        true
    }

    fn can_test_hooks(&self) -> bool {
        true
    }

    fn respond(&self, model: &mut Model, call: &Call<'_>) -> Option<FakeResponse>;
}

pub(super) const DOUBLES: &[&dyn ForgeDouble] =
    &[&github::GitHubDouble, &gitlab::GitLabDouble, &gitea::GiteaDouble, &bitbucket::BitbucketDouble];

/// A running double.
pub(super) struct RunningDouble {
    pub(super) forge: FakeForge,
    pub(super) model: Arc<Mutex<Model>>,
}

impl RunningDouble {
    pub(super) fn start(double: &'static dyn ForgeDouble, pull_requests: Vec<ModelPullRequest>) -> Self {
        let model = Arc::new(Mutex::new(Model { pull_requests, ..Model::default() }));
        let shared = model.clone();
        let forge = FakeForge::start_with_headers(move |request| {
            let call = Call::new(request);
            if call.authorization != double.authorization() {
                return (401, json!({"message": "Bad credentials"}).to_string()).into();
            }
            let responded = double.respond(&mut shared.lock().unwrap(), &call);
            responded.unwrap_or_else(|| (404, json!({"message": "Not Found"}).to_string()).into())
        });
        Self { forge, model }
    }
}

fn ok(status: u16, body: &Value) -> Option<FakeResponse> {
    Some((status, body.to_string()).into())
}

fn no_content() -> Option<FakeResponse> {
    Some((204, String::new()).into())
}

/// Responds with one page of a list, with a `Link` header if there is another page.
fn page_with_link(call: &Call<'_>, size: &str, most: usize, items: &[Value]) -> Option<FakeResponse> {
    let (page, size) = (call.number("page").unwrap_or(1), call.number(size).unwrap_or(20).min(most));
    let shown: Vec<_> = items.iter().skip((page - 1) * size).take(size).collect();
    let mut headers = Vec::new();
    if page * size < items.len() {
        let (next, last) = (page + 1, items.len().div_ceil(size));
        let url = format!("{}/somewhere", call.base);
        headers
            .push(("Link", format!("<{url}?page={next}>; rel=\"next\", <{url}?page={last}>; rel=\"last\"")));
    }
    Some(FakeResponse { status: 200, headers, body: json!(shown).to_string() })
}

/// The changed files of every pull request: 130 files, of which the first was renamed.
fn changed_files() -> impl Iterator<Item = (String, Option<&'static str>)> {
    (0..130).map(|number| (format!("src/file-{number}.rs"), (number == 0).then_some("src/old.rs")))
}
