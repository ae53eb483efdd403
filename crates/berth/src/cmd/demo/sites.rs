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
pub(super) const SITE_NAMES: [&str; 4] = ["staging", "production", "qa-1", "qa-2"];
const PAGE_BYTES_MAX: usize = 64 * 1024;
/// Maximum number of rejected writes that a site displays.
const REFUSED_MAX: usize = 5;
/// Header values are truncated to this length.
const WORD_CHARS_MAX: usize = 100;
const CODE_CHARS: usize = 24;

/// Logs in through the API and returns the session cookie, or an error message.
pub(super) type LogInFn = Box<dyn Fn() -> Result<String, String> + Send + Sync>;

/// Progress of the scenario.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct ScenarioProgress {
    /// The scenario has finished.
    pub(super) done: bool,
    /// Why the scenario stopped early.
    pub(super) failed: Option<String>,
    /// Messages about what has happened so far.
    pub(super) steps: Vec<String>,
}

/// The last accepted page.
#[derive(Debug, Clone)]
struct SitePage {
    page: String,
    commit: String,
    who: String,
    fence: Option<u64>,
}

#[derive(Debug, Default)]
struct SiteContent {
    shown: Option<SitePage>,
    /// Highest fence seen, in a write or a webhook.
    fence: u64,
    /// Newest first.
    refused: VecDeque<String>,
    /// Incremented by every visible change.
    revision: u64,
}

struct SitesState {
    sites: Mutex<BTreeMap<&'static str, SiteContent>>,
    story: Mutex<ScenarioProgress>,
    /// Dashboard URL.
    base: String,
    /// Secret part of the webhook URL.
    webhook_code: String,
    /// Secret part of the login link.
    link_code: String,
    /// `None` after the first successful login, because the link works only once.
    sign_in: Mutex<Option<LogInFn>>,
}

/// The running sites, plus one listener for the scenario's progress, the login link and the webhook.
#[derive(Clone)]
pub(super) struct DemoSites {
    harbour: Arc<SitesState>,
    /// In the order of [`SITE_NAMES`].
    pub(super) addresses: Vec<String>,
    own: String,
}

/// Listeners on the ports that follow the server's port, or on any free ports.
pub(super) struct SiteListeners(Vec<TcpListener>);

impl SiteListeners {
    /// Binds the listeners. Sites accept writes from any client, so their listeners are on loopback only. The listener
    /// for the login link uses the server's address, because a cookie is valid for only one host.
    pub(super) fn bind_next_to(reached: SocketAddr) -> std::io::Result<Self> {
        let own = reached.ip();
        let site = if own.is_loopback() { own } else { IpAddr::from([127, 0, 0, 1]) };
        let ips = SITE_NAMES.iter().map(|_| site).chain([own]);
        (1..)
            .zip(ips)
            .map(|(offset, ip)| bind_listener(ip, reached.port().checked_add(offset)))
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// URLs of the sites, in the order of [`SITE_NAMES`].
    pub(super) fn addresses(&self) -> std::io::Result<Vec<String>> {
        (0..SITE_NAMES.len()).map(|index| self.address(index)).collect()
    }

    fn address(&self, index: usize) -> std::io::Result<String> {
        let listener = self.0.get(index).ok_or(std::io::ErrorKind::NotFound)?;
        Ok(format!("http://{}", listener.local_addr()?))
    }
}

fn bind_listener(ip: IpAddr, wanted: Option<u16>) -> std::io::Result<TcpListener> {
    let bound = wanted.map(|port| TcpListener::bind((ip, port)));
    let listener = match bound {
        Some(Ok(listener)) => listener,
        _ => TcpListener::bind((ip, 0))?,
    };
    listener.set_nonblocking(true)?;
    Ok(listener)
}

impl DemoSites {
    /// Starts serving in the background, until the runtime shuts down.
    pub(super) fn start(bound: SiteListeners, base: String, sign_in: LogInFn) -> std::io::Result<Self> {
        let addresses = bound.addresses()?;
        let own = bound.address(SITE_NAMES.len())?;
        let harbour = Arc::new(SitesState {
            sites: Mutex::new(SITE_NAMES.iter().map(|place| (*place, SiteContent::default())).collect()),
            story: Mutex::default(),
            base,
            webhook_code: random_base62(CODE_CHARS),
            link_code: random_base62(CODE_CHARS),
            sign_in: Mutex::new(Some(sign_in)),
        });
        let mut places = SITE_NAMES.into_iter();
        for listener in bound.0 {
            let router = places
                .next()
                .map_or_else(|| info_router(harbour.clone()), |place| site_router(place, harbour.clone()));
            let listener = tokio::net::TcpListener::from_std(listener)?;
            tokio::spawn(async move { axum::serve(listener, router).await });
        }
        Ok(Self { harbour, addresses, own })
    }

    /// Returns the one-time login link. It uses the dashboard's host name so that the cookie is valid there.
    pub(super) fn login_link(&self) -> String {
        let own = self.own.strip_prefix("http://").and_then(local_dashboard);
        format!("{}/open/{}", own.as_ref().unwrap_or(&self.own), self.harbour.link_code)
    }

    /// URL that receives claim events.
    pub(super) fn webhook_url(&self) -> String {
        format!("{}/told/{}", self.own, self.harbour.webhook_code)
    }

    /// URL that returns [`ScenarioProgress`] as JSON.
    pub(super) fn progress_url(&self) -> String {
        format!("{}/story", self.own)
    }

    pub(super) fn update_progress(&self, change: impl FnOnce(&mut ScenarioProgress)) {
        change(&mut self.harbour.story.lock());
    }
}

fn site_router(place: &'static str, harbour: Arc<SitesState>) -> Router {
    Router::new()
        .route("/", get(show_site).put(write_site))
        .route("/revision", get(get_revision))
        .route("/live.js", get(live_script))
        .layer(DefaultBodyLimit::max(PAGE_BYTES_MAX))
        .with_state((place, harbour))
}

fn info_router(harbour: Arc<SitesState>) -> Router {
    Router::new()
        .route("/story", get(get_progress))
        .route("/open/{code}", get(open_login_link))
        .route("/told/{code}", post(receive_webhook))
        .layer(DefaultBodyLimit::max(PAGE_BYTES_MAX))
        .with_state(harbour)
}

type SiteState = State<(&'static str, Arc<SitesState>)>;

async fn show_site(State((place, harbour)): SiteState) -> Response {
    let sites = harbour.sites.lock();
    let Some(site) = sites.get(place) else { return StatusCode::NOT_FOUND.into_response() };
    let status = if site.shown.is_some() { StatusCode::OK } else { StatusCode::NOT_FOUND };
    html_response(status, page::render_site(place, site))
}

/// Builds an HTML response with a content security policy that blocks all scripts in deployed pages except the reload
/// script.
fn html_response(status: StatusCode, text: String) -> Response {
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

async fn get_revision(State((place, harbour)): SiteState) -> String {
    harbour.sites.lock().get(place).map_or(0, |site| site.revision).to_string()
}

async fn live_script() -> Response {
    ([(CONTENT_TYPE, "text/javascript"), (X_CONTENT_TYPE_OPTIONS, "nosniff")], page::RELOAD_SCRIPT)
        .into_response()
}

async fn write_site(State((place, harbour)): SiteState, headers: HeaderMap, body: String) -> Response {
    let word = |name: &str| -> String {
        let value = headers.get(name).and_then(|it| it.to_str().ok()).unwrap_or("unknown");
        value.chars().take(WORD_CHARS_MAX).collect()
    };
    let fence = headers.get("demo-fence").and_then(|it| it.to_str().ok()).and_then(|it| it.parse().ok());
    let shown = SitePage { page: body, commit: word("demo-commit"), who: word("demo-who"), fence };
    let mut sites = harbour.sites.lock();
    let Some(site) = sites.get_mut(place) else { return StatusCode::NOT_FOUND.into_response() };
    match site.accept_page(shown) {
        Ok(text) => (StatusCode::OK, text).into_response(),
        Err(text) => (StatusCode::CONFLICT, text).into_response(),
    }
}

impl SiteContent {
    fn accept_page(&mut self, shown: SitePage) -> Result<String, String> {
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
        let text = format!("{} is live", page::short_commit(&shown.commit));
        self.shown = Some(shown);
        Ok(text)
    }
}

async fn get_progress(State(harbour): State<Arc<SitesState>>) -> axum::Json<ScenarioProgress> {
    axum::Json(harbour.story.lock().clone())
}

/// Receives the claim webhook and raises the site's fence.
async fn receive_webhook(
    State(harbour): State<Arc<SitesState>>,
    Path(code): Path<String>,
    body: Bytes,
) -> StatusCode {
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
async fn open_login_link(State(harbour): State<Arc<SitesState>>, Path(code): Path<String>) -> Response {
    if code != harbour.link_code {
        return html_response(StatusCode::NOT_FOUND, page::render_message("Invalid link."));
    }
    let Some(sign_in) = harbour.sign_in.lock().take() else {
        let text =
            format!("This link was already used. Log in at {} with the printed credentials.", harbour.base);
        return html_response(StatusCode::GONE, page::render_message(&text));
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
            html_response(StatusCode::BAD_GATEWAY, page::render_message(&text))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn login_link_after_failed_login_can_be_opened_again() {
        let tries = std::sync::atomic::AtomicU32::new(0);
        let sign_in = move || match tries.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
            0 => Err("the server is away.".to_owned()),
            _ => Ok("cookie=1".to_owned()),
        };
        let bound = SiteListeners::bind_next_to(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let sites = DemoSites::start(bound, "http://127.0.0.1:1".to_owned(), Box::new(sign_in)).unwrap();
        let last = |url: String| url.rsplit('/').next().unwrap_or_default().to_owned();
        let (link, webhook) = (last(sites.login_link()), last(sites.webhook_url()));
        let open = |code: &str| open_login_link(State(sites.harbour.clone()), Path(code.to_owned()));
        assert_eq!(open(&webhook).await.status(), StatusCode::NOT_FOUND);
        assert_eq!(open(&link).await.status(), StatusCode::BAD_GATEWAY);
        assert_eq!(open(&link).await.status(), StatusCode::SEE_OTHER);
        assert_eq!(open(&link).await.status(), StatusCode::GONE);
        let told = |code: String| receive_webhook(State(sites.harbour.clone()), Path(code), Bytes::new());
        assert_eq!((told(link).await, told(webhook).await), (StatusCode::NOT_FOUND, StatusCode::NO_CONTENT));
    }

    fn page_with_fence(fence: Option<u64>) -> SitePage {
        SitePage {
            page: "<b>hello</b>".into(),
            commit: "0123456789abcdef".into(),
            who: "<Grace>".into(),
            fence,
        }
    }

    #[test]
    fn site_refuses_a_lower_fence() {
        let mut site = SiteContent::default();
        assert!(site.accept_page(page_with_fence(Some(2))).is_ok());
        assert!(site.accept_page(page_with_fence(Some(2))).is_ok(), "the same session may write again");
        site.fence = site.fence.max(3);
        let why = site.accept_page(page_with_fence(Some(2))).unwrap_err();
        assert!(why.starts_with("refused a late write: fence 2 of <Grace> is lower than 3"), "{why}");
        let page = page::render_site("qa-1", &site);
        assert!(page.contains("refused a late write: fence 2 of &lt;Grace&gt; is lower than 3"), "{page}");
        assert!(site.accept_page(page_with_fence(None)).is_ok(), "a stage has no fence");
        for _ in 0..REFUSED_MAX + 3 {
            assert!(site.accept_page(page_with_fence(Some(1))).is_err());
        }
        assert_eq!(site.refused.len(), REFUSED_MAX);
    }
}
