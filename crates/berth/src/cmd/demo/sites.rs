//! The sites that the demo deploys to. A site shows the last page it received and rejects writes with a fence lower
//! than the highest it has seen.

mod page;

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::header::{
    CONTENT_SECURITY_POLICY, CONTENT_TYPE, LOCATION, SET_COOKIE, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use berth_engine::credential::random_base62;
use berth_server::config::local_dashboard;
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::Value;

/// Names of the sites, in the order of their ports.
pub(super) const PLACES: [&str; 4] = ["staging", "production", "qa-1", "qa-2"];
const PAGE_BYTES_MAX: usize = 64 * 1024;
/// Rejected writes that a site shows.
const REFUSED_MAX: usize = 5;
/// Maximum length of a header value.
const WORD_CHARS_MAX: usize = 100;
const CODE_CHARS: usize = 24;

/// Logs in through the API and returns the session cookie, or an error message.
pub(super) type SignIn = Box<dyn Fn() -> Result<String, String> + Send + Sync>;

/// Progress of the scenario.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct Story {
    /// The scenario has finished.
    pub(super) done: bool,
    /// Why the scenario stopped early.
    pub(super) failed: Option<String>,
    /// Events so far.
    pub(super) steps: Vec<String>,
}

/// The last accepted page.
#[derive(Debug, Clone)]
struct Shown {
    page: String,
    commit: String,
    who: String,
    fence: Option<u64>,
}

#[derive(Debug, Default)]
struct Site {
    shown: Option<Shown>,
    /// Highest fence seen, in a write or a webhook.
    fence: u64,
    /// Newest first.
    refused: VecDeque<String>,
    /// Incremented by every visible change.
    revision: u64,
}

struct Harbour {
    sites: Mutex<BTreeMap<&'static str, Site>>,
    story: Mutex<Story>,
    /// Dashboard URL.
    base: String,
    /// Secret part of the webhook URL.
    webhook_code: String,
    /// Secret part of the login link.
    link_code: String,
    /// Taken by the first successful login.
    sign_in: Mutex<Option<SignIn>>,
}

/// The sites, and one more listener for progress, login link and webhook.
#[derive(Clone)]
pub(super) struct Sites {
    harbour: Arc<Harbour>,
    /// In the order of [`PLACES`].
    pub(super) addresses: Vec<String>,
    own: String,
}

/// Listeners on the ports after the server's, or on any free ones.
pub(super) struct Bound(Vec<TcpListener>);

impl Bound {
    /// Sites accept any write, so they listen on loopback only. The login link listens on the server's address, because
    /// cookies belong to a host.
    pub(super) fn next_to(reached: SocketAddr) -> std::io::Result<Self> {
        let own = reached.ip();
        let site = if own.is_loopback() { own } else { IpAddr::from([127, 0, 0, 1]) };
        let ips = PLACES.iter().map(|_| site).chain([own]);
        (1..)
            .zip(ips)
            .map(|(offset, ip)| bind(ip, reached.port().checked_add(offset)))
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// URLs of the sites, in the order of [`PLACES`].
    pub(super) fn addresses(&self) -> std::io::Result<Vec<String>> {
        (0..PLACES.len()).map(|index| self.address(index)).collect()
    }

    fn address(&self, index: usize) -> std::io::Result<String> {
        let listener = self.0.get(index).ok_or(std::io::ErrorKind::NotFound)?;
        Ok(format!("http://{}", listener.local_addr()?))
    }
}

fn bind(ip: IpAddr, wanted: Option<u16>) -> std::io::Result<TcpListener> {
    let bound = wanted.map(|port| TcpListener::bind((ip, port)));
    let listener = match bound {
        Some(Ok(listener)) => listener,
        _ => TcpListener::bind((ip, 0))?,
    };
    listener.set_nonblocking(true)?;
    Ok(listener)
}

impl Sites {
    /// Serves until the runtime shuts down.
    pub(super) fn start(bound: Bound, base: String, sign_in: SignIn) -> std::io::Result<Self> {
        let addresses = bound.addresses()?;
        let own = bound.address(PLACES.len())?;
        let harbour = Arc::new(Harbour {
            sites: Mutex::new(PLACES.iter().map(|place| (*place, Site::default())).collect()),
            story: Mutex::default(),
            base,
            webhook_code: random_base62(CODE_CHARS),
            link_code: random_base62(CODE_CHARS),
            sign_in: Mutex::new(Some(sign_in)),
        });
        let mut places = PLACES.into_iter();
        for listener in bound.0 {
            let router =
                places.next().map_or_else(|| about(harbour.clone()), |place| site(place, harbour.clone()));
            let listener = tokio::net::TcpListener::from_std(listener)?;
            tokio::spawn(async move { axum::serve(listener, router).await });
        }
        Ok(Self { harbour, addresses, own })
    }

    /// One-time login link, on the dashboard's host so that the cookie applies there.
    pub(super) fn link(&self) -> String {
        let own = self.own.strip_prefix("http://").and_then(local_dashboard);
        format!("{}/open/{}", own.as_ref().unwrap_or(&self.own), self.harbour.link_code)
    }

    /// URL that receives claim events.
    pub(super) fn webhook(&self) -> String {
        format!("{}/told/{}", self.own, self.harbour.webhook_code)
    }

    /// URL that returns [`Story`] as JSON.
    pub(super) fn story_address(&self) -> String {
        format!("{}/story", self.own)
    }

    pub(super) fn tell(&self, change: impl FnOnce(&mut Story)) {
        change(&mut self.harbour.story.lock());
    }
}

fn site(place: &'static str, harbour: Arc<Harbour>) -> Router {
    Router::new()
        .route("/", get(show).put(write))
        .route("/revision", get(revision))
        .route("/live.js", get(live))
        .layer(DefaultBodyLimit::max(PAGE_BYTES_MAX))
        .with_state((place, harbour))
}

fn about(harbour: Arc<Harbour>) -> Router {
    Router::new()
        .route("/story", get(story))
        .route("/open/{code}", get(open))
        .route("/told/{code}", post(told))
        .layer(DefaultBodyLimit::max(PAGE_BYTES_MAX))
        .with_state(harbour)
}

type AtSite = State<(&'static str, Arc<Harbour>)>;

async fn show(State((place, harbour)): AtSite) -> Response {
    let sites = harbour.sites.lock();
    let Some(site) = sites.get(place) else { return StatusCode::NOT_FOUND.into_response() };
    let status = if site.shown.is_some() { StatusCode::OK } else { StatusCode::NOT_FOUND };
    html(status, page::of(place, site))
}

/// The content security policy blocks scripts in deployed pages; only our reload script runs.
fn html(status: StatusCode, text: String) -> Response {
    let headers = [
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        (
            CONTENT_SECURITY_POLICY,
            "default-src 'none'; style-src 'unsafe-inline'; script-src 'self'; connect-src 'self'",
        ),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (status, headers, text).into_response()
}

async fn revision(State((place, harbour)): AtSite) -> String {
    harbour.sites.lock().get(place).map_or(0, |site| site.revision).to_string()
}

async fn live() -> Response {
    ([(CONTENT_TYPE, "text/javascript"), (X_CONTENT_TYPE_OPTIONS, "nosniff")], page::LIVE).into_response()
}

async fn write(State((place, harbour)): AtSite, headers: HeaderMap, body: String) -> Response {
    let word = |name: &str| -> String {
        let value = headers.get(name).and_then(|it| it.to_str().ok()).unwrap_or("unknown");
        value.chars().take(WORD_CHARS_MAX).collect()
    };
    let fence = headers.get("demo-fence").and_then(|it| it.to_str().ok()).and_then(|it| it.parse().ok());
    let shown = Shown { page: body, commit: word("demo-commit"), who: word("demo-who"), fence };
    let mut sites = harbour.sites.lock();
    let Some(site) = sites.get_mut(place) else { return StatusCode::NOT_FOUND.into_response() };
    match site.write(shown) {
        Ok(text) => (StatusCode::OK, text).into_response(),
        Err(text) => (StatusCode::CONFLICT, text).into_response(),
    }
}

impl Site {
    fn write(&mut self, shown: Shown) -> Result<String, String> {
        self.revision += 1;
        if let Some(fence) = shown.fence {
            if fence < self.fence {
                let who = &shown.who;
                let text =
                    format!("refused a late write: fence {fence} of {who} is lower than {}", self.fence);
                self.refused.push_front(text.clone());
                self.refused.truncate(REFUSED_MAX);
                return Err(text);
            }
            self.fence = fence;
        }
        let text = format!("{} is live", page::short(&shown.commit));
        self.shown = Some(shown);
        Ok(text)
    }
}

async fn story(State(harbour): State<Arc<Harbour>>) -> axum::Json<Story> {
    axum::Json(harbour.story.lock().clone())
}

/// Receives the claim webhook and raises the site's fence.
async fn told(State(harbour): State<Arc<Harbour>>, Path(code): Path<String>, body: Bytes) -> StatusCode {
    if code != harbour.webhook_code {
        return StatusCode::NOT_FOUND;
    }
    let event: Value = serde_json::from_slice(&body).unwrap_or_default();
    let subjects = event.pointer("/data/subjects").and_then(Value::as_array);
    let is_environment = |it: &&Value| it["type"] == "environment";
    let name = subjects.and_then(|all| all.iter().find(is_environment)).and_then(|it| it["name"].as_str());
    let fence = event.pointer("/data/data/fence").and_then(Value::as_u64);
    let mut sites = harbour.sites.lock();
    if let (Some(site), Some(fence)) = (name.and_then(|name| sites.get_mut(name)), fence) {
        site.fence = site.fence.max(fence);
    }
    StatusCode::NO_CONTENT
}

/// Sets the session cookie, which is valid for every port of the host, and redirects to the dashboard.
async fn open(State(harbour): State<Arc<Harbour>>, Path(code): Path<String>) -> Response {
    if code != harbour.link_code {
        return html(StatusCode::NOT_FOUND, page::plain("Invalid link."));
    }
    let Some(sign_in) = harbour.sign_in.lock().take() else {
        let text =
            format!("This link was already used. Log in at {} with the printed credentials.", harbour.base);
        return html(StatusCode::GONE, page::plain(&text));
    };
    let signed_in = tokio::task::spawn_blocking(move || match sign_in() {
        Ok(cookie) => (None, Ok(cookie)),
        Err(why) => (Some(sign_in), Err(why)),
    });
    let (unused, signed_in) = signed_in.await.unwrap_or_else(|_| (None, Err("internal error.".to_owned())));
    if unused.is_some() {
        *harbour.sign_in.lock() = unused;
    }
    match signed_in {
        Ok(cookie) => {
            (StatusCode::SEE_OTHER, [(SET_COOKIE, cookie), (LOCATION, harbour.base.clone())]).into_response()
        }
        Err(why) => {
            let text = format!(
                "Login failed: {why} Open this link again, or log in at {} with the printed credentials.",
                harbour.base
            );
            html(StatusCode::BAD_GATEWAY, page::plain(&text))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn failed_login_link_can_be_opened_again() {
        let tries = std::sync::atomic::AtomicU32::new(0);
        let sign_in = move || match tries.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
            0 => Err("the server is away.".to_owned()),
            _ => Ok("cookie=1".to_owned()),
        };
        let bound = Bound::next_to(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let sites = Sites::start(bound, "http://127.0.0.1:1".to_owned(), Box::new(sign_in)).unwrap();
        let last = |url: String| url.rsplit('/').next().unwrap_or_default().to_owned();
        let (link, webhook) = (last(sites.link()), last(sites.webhook()));
        let open = |code: &str| open(State(sites.harbour.clone()), Path(code.to_owned()));
        assert_eq!(open(&webhook).await.status(), StatusCode::NOT_FOUND);
        assert_eq!(open(&link).await.status(), StatusCode::BAD_GATEWAY);
        assert_eq!(open(&link).await.status(), StatusCode::SEE_OTHER);
        assert_eq!(open(&link).await.status(), StatusCode::GONE);
        let told = |code: String| told(State(sites.harbour.clone()), Path(code), Bytes::new());
        assert_eq!((told(link).await, told(webhook).await), (StatusCode::NOT_FOUND, StatusCode::NO_CONTENT));
    }

    fn sent(fence: Option<u64>) -> Shown {
        Shown { page: "<b>hello</b>".into(), commit: "0123456789abcdef".into(), who: "<Grace>".into(), fence }
    }

    #[test]
    fn site_refuses_a_lower_fence() {
        let mut site = Site::default();
        assert!(site.write(sent(Some(2))).is_ok());
        assert!(site.write(sent(Some(2))).is_ok(), "the same session may write again");
        site.fence = site.fence.max(3);
        let why = site.write(sent(Some(2))).unwrap_err();
        assert!(why.starts_with("refused a late write: fence 2 of <Grace> is lower than 3"), "{why}");
        let page = page::of("qa-1", &site);
        assert!(page.contains("refused a late write: fence 2 of &lt;Grace&gt; is lower than 3"), "{page}");
        assert!(site.write(sent(None)).is_ok(), "a stage has no fence");
        for _ in 0..REFUSED_MAX + 3 {
            assert!(site.write(sent(Some(1))).is_err());
        }
        assert_eq!(site.refused.len(), REFUSED_MAX);
    }
}
