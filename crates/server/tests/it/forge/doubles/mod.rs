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

pub(crate) const TOKEN: &str = "conformance-token";
pub(crate) const HEAD: &str = "4d6d0ebe4d6d0ebe4d6d0ebe4d6d0ebe4d6d0ebe";
/// The number of a pull request that does not exist.
pub(crate) const MISSING: i64 = 999;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    SameRepository,
    Fork,
    DeletedFork,
}

#[derive(Debug, Clone)]
pub(crate) struct ModelPullRequest {
    pub(crate) number: i64,
    pub(crate) title: String,
    /// The full hash of the head commit.
    pub(crate) head: String,
    pub(crate) head_branch: String,
    pub(crate) base_branch: String,
    pub(crate) source: Source,
    pub(crate) labels: Vec<&'static str>,
    pub(crate) draft: bool,
    pub(crate) status: PullRequestStatus,
    /// The minute of 2026-11-18T12 at which it was last changed.
    pub(crate) changed: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ModelStatus {
    pub(crate) commit: String,
    /// The text that identifies the status.
    pub(crate) key: String,
    pub(crate) state: String,
    pub(crate) description: String,
    pub(crate) url: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ModelDeployment {
    pub(crate) id: i64,
    pub(crate) commit: String,
    pub(crate) environment: String,
    pub(crate) is_transient: bool,
    pub(crate) payload: Value,
    /// All states that it had, in order.
    pub(crate) states: Vec<String>,
    /// The links of the last state.
    pub(crate) urls: [Option<String>; 2],
    pub(crate) description: String,
}

/// What the forge knows.
#[derive(Debug, Default)]
pub(crate) struct Model {
    pub(crate) pull_requests: Vec<ModelPullRequest>,
    /// Comments by id, with the pull request's number.
    pub(crate) comments: HashMap<i64, (i64, String)>,
    pub(crate) statuses: Vec<ModelStatus>,
    /// Webhooks by id: the URL and the secret.
    pub(crate) hooks: HashMap<String, (String, String)>,
    pub(crate) tests_sent: usize,
    pub(crate) deployments: Vec<ModelDeployment>,
    next_id: i64,
}

impl Model {
    fn new_id(&mut self) -> i64 {
        self.next_id += 1;
        self.next_id
    }

    pub(crate) fn find_mut(&mut self, number: i64) -> Option<&mut ModelPullRequest> {
        self.pull_requests.iter_mut().find(|it| it.number == number)
    }

    fn find(&self, number: i64) -> Option<&ModelPullRequest> {
        self.pull_requests.iter().find(|it| it.number == number)
    }

    /// The comments on a pull request, oldest first.
    fn list_comments(&self, number: i64) -> Vec<(i64, String)> {
        let of = self.comments.iter().filter(|(_, (of, _))| *of == number);
        let mut found: Vec<_> = of.map(|(id, (_, text))| (*id, text.clone())).collect();
        found.sort_by_key(|(id, _)| *id);
        found
    }

    fn find_deployment(&mut self, id: &str) -> Option<&mut ModelDeployment> {
        self.deployments.iter_mut().find(|it| it.id.to_string() == id)
    }

    /// Sets a status: one per commit and key.
    fn set_status(&mut self, status: ModelStatus) {
        self.statuses.retain(|it| it.commit != status.commit || it.key != status.key);
        self.statuses.push(status);
    }
}

/// A request, split into the parts that routes match.
pub(crate) struct Call<'a> {
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
pub(crate) trait ForgeDouble: Send + Sync {
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

    /// Names of the states in progress and success of a deployment, if the forge has deployments.
    fn deployment_states(&self) -> Option<[&'static str; 2]> {
        None
    }

    fn respond(&self, model: &mut Model, call: &Call<'_>) -> Option<FakeResponse>;
}

pub(crate) const DOUBLES: &[&dyn ForgeDouble] =
    &[&github::GitHubDouble, &gitlab::GitLabDouble, &gitea::GiteaDouble, &bitbucket::BitbucketDouble];

/// A running double.
pub(crate) struct RunningDouble {
    pub(crate) forge: FakeForge,
    pub(crate) model: Arc<Mutex<Model>>,
}

impl RunningDouble {
    pub(crate) fn start(double: &'static dyn ForgeDouble, pull_requests: Vec<ModelPullRequest>) -> Self {
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
