//! What the demo deploys to: a site for each place. A site shows what was sent to it, remembers the highest number of a
//! hold that it has heard of, and refuses to be written to with a lower one.

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

/// Where there is a site, in the order of their ports.
pub(super) const PLACES: [&str; 4] = ["staging", "production", "qa-1", "qa-2"];
const PAGE_BYTES_MAX: usize = 64 * 1024;
/// Late writes that a site still shows.
const REFUSED_MAX: usize = 5;
/// What a header of a write may say.
const WORD_CHARS_MAX: usize = 100;
const CODE_CHARS: usize = 24;

/// Signs in with the API and answers the cookie, or why there is none.
pub(super) type SignIn = Box<dyn Fn() -> Result<String, String> + Send + Sync>;

/// How far what the demo does by itself has come.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct Story {
    /// Everything is as the README tells it.
    pub(super) done: bool,
    /// Why it will not be.
    pub(super) failed: Option<String>,
    /// What has happened so far.
    pub(super) steps: Vec<String>,
}

/// What was sent last.
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
    /// The highest number of a hold that it has heard of, by a write or by a webhook.
    fence: u64,
    /// Newest first.
    refused: VecDeque<String>,
    /// Counts every change that can be seen.
    revision: u64,
}

struct Harbour {
    sites: Mutex<BTreeMap<&'static str, Site>>,
    story: Mutex<Story>,
    /// Where the dashboard is.
    base: String,
    /// What only Berth can know.
    webhook_code: String,
    /// What only whoever has seen what the demo printed can know.
    link_code: String,
    /// Used up by the first whom the link has signed in.
    sign_in: Mutex<Option<SignIn>>,
}

/// The sites, and one address more for what the demo says about itself.
#[derive(Clone)]
pub(super) struct Sites {
    harbour: Arc<Harbour>,
    /// In the order of [`PLACES`].
    pub(super) addresses: Vec<String>,
    own: String,
}

/// The listeners are on the ports after the server's, or any others that are free.
pub(super) struct Bound(Vec<TcpListener>);

impl Bound {
    /// Anybody who reaches a site may write to it, so only this machine does. What signs in has to be where the server
    /// is reached: a cookie is for one host.
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

    /// Of the sites, in the order of [`PLACES`].
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
    /// Serves until the runtime ends.
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

    /// Logs in, once. At the host of the dashboard, which the cookie is for.
    pub(super) fn link(&self) -> String {
        let own = self.own.strip_prefix("http://").and_then(local_dashboard);
        format!("{}/open/{}", own.as_ref().unwrap_or(&self.own), self.harbour.link_code)
    }

    /// What Berth tells of claims.
    pub(super) fn webhook(&self) -> String {
        format!("{}/told/{}", self.own, self.harbour.webhook_code)
    }

    /// Shows [`Story`] as JSON.
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

/// Pages of others are shown and do nothing: the one script is ours.
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
        let value = headers.get(name).and_then(|it| it.to_str().ok()).unwrap_or("nobody knows");
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
                let text = format!(
                    "refused a late write: hold {fence} of {who} is over, this site has heard of hold {}",
                    self.fence
                );
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

/// A webhook: somebody holds an environment, and nothing with a lower number may be written from now on.
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

/// The cookie is good for this host, whatever the port: the browser takes it to the dashboard.
async fn open(State(harbour): State<Arc<Harbour>>, Path(code): Path<String>) -> Response {
    if code != harbour.link_code {
        return html(StatusCode::NOT_FOUND, page::plain("There is no such link."));
    }
    let Some(sign_in) = harbour.sign_in.lock().take() else {
        let text =
            format!("This link has been used. Sign in at {} with the login that was printed.", harbour.base);
        return html(StatusCode::GONE, page::plain(&text));
    };
    let signed_in = tokio::task::spawn_blocking(move || match sign_in() {
        Ok(cookie) => (None, Ok(cookie)),
        Err(why) => (Some(sign_in), Err(why)),
    });
    let (unused, signed_in) = signed_in.await.unwrap_or_else(|_| (None, Err("it broke.".to_owned())));
    if unused.is_some() {
        *harbour.sign_in.lock() = unused;
    }
    match signed_in {
        Ok(cookie) => {
            (StatusCode::SEE_OTHER, [(SET_COOKIE, cookie), (LOCATION, harbour.base.clone())]).into_response()
        }
        Err(why) => {
            let text = format!(
                "Signing in did not work: {why} Try this link again, or use the login that was printed at {}.",
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
    async fn a_link_that_could_not_sign_in_may_be_opened_again_and_is_no_webhook() {
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
    fn a_lower_number_is_refused_and_shown_and_an_equal_one_is_not() {
        let mut site = Site::default();
        assert!(site.write(sent(Some(2))).is_ok());
        assert!(site.write(sent(Some(2))).is_ok(), "the same hold may write again");
        site.fence = site.fence.max(3);
        let why = site.write(sent(Some(2))).unwrap_err();
        assert!(why.starts_with("refused a late write: hold 2 of <Grace> is over"), "{why}");
        let page = page::of("qa-1", &site);
        assert!(page.contains("refused a late write: hold 2 of &lt;Grace&gt; is over"), "{page}");
        assert!(site.write(sent(None)).is_ok(), "a stage has no hold");
        for _ in 0..REFUSED_MAX + 3 {
            assert!(site.write(sent(Some(1))).is_err());
        }
        assert_eq!(site.refused.len(), REFUSED_MAX);
    }
}
