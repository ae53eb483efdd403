//! Server configuration.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use berth_api::runner::Isolation;
use berth_core::runner::{LOCAL_LABEL, RunnerTimeouts};
use berth_engine::ServicesConfig;
use berth_engine::egress::{self, AllowedDestination};
use berth_engine::git::RepositoryAccess;
use berth_engine::object_storage::ObjectStorage;

use crate::auth::passwords::PasswordCost;
use crate::integrations::forges::ForgeHost;
use crate::integrations::mail::SmtpConfig;
use crate::integrations::oidc::{PasswordLogin, ProviderConfig};
use crate::limits::{
    GIT_S_MAX, KEEP_ALIVE_S_DEFAULT, REGISTRY_BUILD_S_MAX, REGISTRY_BYTES_MAX, REQUESTS_PER_TOKEN_BURST,
    REQUESTS_PER_TOKEN_PER_S, STREAM_CHECK_EVERY, STREAMS_PER_TOKEN_MAX, WEBHOOK_BEHIND_MAX,
};

/// Returns the default labels of the embedded runner: operating system, architecture and [`LOCAL_LABEL`].
fn own_labels() -> Vec<String> {
    [std::env::consts::OS, std::env::consts::ARCH, LOCAL_LABEL].map(str::to_owned).to_vec()
}

/// Host name of the dashboard on a loopback server without TLS. Browsers send a host's cookies to every port of that
/// host, so on `127.0.0.1` every other local server would receive the session cookie.
pub const LOCAL_DASHBOARD_HOST: &str = "berth.localhost";

/// Returns the dashboard URL of a plain HTTP server at this host and port. `None` unless the host is a loopback name,
/// because browsers resolve [`LOCAL_DASHBOARD_HOST`] to loopback.
pub fn local_dashboard(authority: &str) -> Option<String> {
    let authority: http::uri::Authority = authority.parse().ok()?;
    let is_this_machine =
        ["127.0.0.1", "localhost", "[::1]"].iter().any(|name| authority.host().eq_ignore_ascii_case(name));
    let port = authority.port_u16().map(|port| format!(":{port}")).unwrap_or_default();
    is_this_machine.then(|| format!("http://{LOCAL_DASHBOARD_HOST}{port}"))
}

/// Returns the directory of step registries, their builds and build logs.
pub(crate) fn registries_dir(data_dir: &Path) -> PathBuf {
    data_dir.join("registries")
}

#[derive(Debug, Clone)]
pub struct AppConfig {
    pub listen: SocketAddr,
    /// Directory of logs, artifacts and the SQLite database. Subdirectories are created when first used.
    pub data_dir: PathBuf,
    /// Directory that only this server uses. The same as `data_dir`, unless several servers share `data_dir`.
    pub own_dir: PathBuf,
    /// Directory in which steps and builds run, if not below `own_dir`.
    pub work_dir: Option<PathBuf>,
    /// `--local`: the server runs on a single user's machine. Allows login over plain HTTP, and repositories on this
    /// machine.
    pub local: bool,
    /// URL at which users reach the server, such as `https://berth.acme.test`. `None` if it is the listen address.
    pub public_url: Option<String>,
    /// Whether the server itself terminates TLS.
    pub has_tls: bool,
    /// Listen address of the Prometheus endpoint.
    pub metrics_listen: Option<SocketAddr>,
    /// Retention of logs, counted from the end of their deployment. `None` means unlimited.
    pub logs_kept: Option<Duration>,
    /// Retention of artifacts, counted from the end of their deployment. `None` means unlimited.
    pub artifacts_kept: Option<Duration>,
    /// Retention of events. `None` means unlimited.
    pub events_kept: Option<Duration>,
    /// Proxies whose `X-Forwarded-For` is trusted.
    pub trusted_proxies: Vec<IpAddr>,
    /// How long a connection may be idle between two requests.
    pub keep_alive: Duration,
    pub rate_limit: bool,
    pub password_cost: PasswordCost,
    pub requests_per_s: u32,
    pub requests_burst: u32,
    pub streams_per_token_max: usize,
    /// Labels of the embedded runner, matched against `runs_on`. `None` if there is no embedded runner.
    pub runner_labels: Option<Vec<String>>,
    /// How steps and builds are isolated from this machine. `None` if neither runs here.
    pub isolation: Option<Isolation>,
    /// Whether these steps may use the server's credentials for a Kubernetes cluster, or the network of its nodes.
    pub lends_cluster_access: bool,
    /// Paths on this machine that are visible to every step and build.
    pub exposed: Vec<String>,
    /// How long a runner may be without contact before it stops its steps, and before the server considers it lost.
    pub runner_times: RunnerTimeouts,
    /// Interval at which a stream sends a heartbeat and the server authorizes its caller again.
    pub stream_check_every: Duration,
    /// Directories that may contain local repositories. Not needed with `--local`, which allows all directories.
    pub repository_roots: Vec<PathBuf>,
    /// Repository hosts that may be in a private network.
    pub repository_hosts: Vec<String>,
    /// Timeout of one git process.
    pub git_max: Duration,
    /// Timeout of a registry build. The next field is the maximum size of its result.
    pub registry_build_max: Duration,
    pub registry_bytes_max: u64,
    /// Private hosts and networks that the server's outgoing requests may reach.
    pub egress_allow: Vec<AllowedDestination>,
    /// The forge type of repository hosts that cannot be recognized by name.
    pub forges: Vec<ForgeHost>,
    /// Identity providers that people log in with.
    pub providers: Vec<ProviderConfig>,
    /// Who may log in with a password.
    pub password_login: PasswordLogin,
    /// Timeout of a webhook request.
    pub webhook_max: Duration,
    /// How many events a webhook may lag behind before the oldest are dropped.
    pub webhook_behind_max: i64,
    /// The server that emails are sent through. `None`: no emails are sent.
    pub smtp: Option<SmtpConfig>,
    /// Object storage for logs and artifacts. `None`: they are in `data_dir`.
    pub storage: Option<Arc<ObjectStorage>>,
    /// Names and URLs of the demo's sites; `None` outside demo mode.
    pub demo_sites: Option<Vec<(String, String)>>,
}

impl AppConfig {
    pub fn local(listen: SocketAddr) -> Self {
        Self {
            listen,
            data_dir: PathBuf::from("berth-data"),
            own_dir: PathBuf::from("berth-data"),
            work_dir: None,
            local: true,
            public_url: None,
            has_tls: false,
            metrics_listen: None,
            logs_kept: None,
            artifacts_kept: None,
            events_kept: None,
            trusted_proxies: Vec::new(),
            keep_alive: Duration::from_secs(KEEP_ALIVE_S_DEFAULT),
            rate_limit: true,
            password_cost: PasswordCost::default(),
            requests_per_s: REQUESTS_PER_TOKEN_PER_S,
            requests_burst: REQUESTS_PER_TOKEN_BURST,
            streams_per_token_max: STREAMS_PER_TOKEN_MAX,
            stream_check_every: STREAM_CHECK_EVERY,
            runner_labels: Some(own_labels()),
            isolation: None,
            lends_cluster_access: false,
            exposed: Vec::new(),
            runner_times: RunnerTimeouts::default(),
            repository_roots: Vec::new(),
            repository_hosts: Vec::new(),
            git_max: Duration::from_secs(GIT_S_MAX),
            registry_build_max: Duration::from_secs(REGISTRY_BUILD_S_MAX),
            registry_bytes_max: REGISTRY_BYTES_MAX,
            egress_allow: Vec::new(),
            forges: Vec::new(),
            providers: Vec::new(),
            password_login: PasswordLogin::default(),
            webhook_max: egress::REQUEST_MAX,
            webhook_behind_max: WEBHOOK_BEHIND_MAX,
            smtp: None,
            storage: None,
            demo_sites: None,
        }
    }

    /// Returns the rate limit per token: requests per second and burst size. `None` means unlimited.
    pub fn request_limit(&self) -> Option<(u32, u32)> {
        self.rate_limit.then_some((self.requests_per_s, self.requests_burst))
    }

    /// Returns the part of the configuration that the engine's services need.
    pub fn services(&self) -> ServicesConfig {
        ServicesConfig {
            data_dir: self.data_dir.clone(),
            own_dir: self.own_dir.clone(),
            public_url: self.public_url.as_deref().map(|url| url.trim_end_matches('/').to_owned()),
            isolation: self.isolation,
            lends_cluster_access: self.lends_cluster_access,
            runner_times: self.runner_times,
            git_max: self.git_max,
            git_access: self.git_access(),
            egress_allow: self.egress_allow.clone(),
            egress_max: self.webhook_max,
            storage: self.storage.clone(),
        }
    }

    /// Whether `--local` is set and only this machine can reach the server.
    pub fn is_local(&self) -> bool {
        self.local
            && self.listen.ip().is_loopback()
            && self.public_url.is_none()
            && self.trusted_proxies.is_empty()
    }

    /// Rejects `--local` on a server that other machines can reach, because `--local` allows login over plain HTTP and
    /// repositories on this machine.
    pub fn check_local(&self) -> Result<(), String> {
        if !self.local {
            return Ok(());
        }
        let listen = self.listen;
        if !listen.ip().is_loopback() {
            return Err(format!(
                "--local is for a single user on this machine, but {listen} can be reached from other machines. Remove --local, or listen on 127.0.0.1."
            ));
        }
        if self.public_url.is_some() {
            return Err("--local cannot be combined with a public URL; remove one of them.".into());
        }
        if !self.trusted_proxies.is_empty() {
            return Err("--local cannot be combined with trusted proxies; remove one of them.".into());
        }
        Ok(())
    }

    /// Returns the directory in which steps run.
    pub fn step_dir(&self) -> PathBuf {
        self.work_dir.clone().unwrap_or_else(|| self.own_dir.join("work"))
    }

    /// Returns the directory in which registries are built.
    pub fn build_dir(&self) -> PathBuf {
        let elsewhere = self.work_dir.as_ref().map(|dir| dir.join("builds"));
        elsewhere.unwrap_or_else(|| registries_dir(&self.own_dir).join("work"))
    }

    /// Returns which repositories git may access.
    pub fn git_access(&self) -> RepositoryAccess {
        RepositoryAccess {
            is_local: self.is_local(),
            roots: self.repository_roots.clone(),
            hosts: self.repository_hosts.clone(),
        }
    }

    pub fn trusts(&self, proxy: IpAddr) -> bool {
        self.trusted_proxies.contains(&proxy.to_canonical())
    }

    pub fn is_https(&self) -> bool {
        self.has_tls || self.public_url.as_deref().is_some_and(|url| url.starts_with("https://"))
    }

    /// Returns the URL at which users reach the server: the configured one, or else one derived from the listen
    /// address.
    pub fn base_url(&self) -> String {
        if let Some(own) = self.dashboard_instead_of(&self.listen.to_string()) {
            return own;
        }
        let scheme = if self.has_tls { "https" } else { "http" };
        let url = self.public_url.clone().unwrap_or_else(|| format!("{scheme}://{}", self.listen));
        url.trim_end_matches('/').to_owned()
    }

    /// Returns the dashboard URL for a browser that opened a loopback address such as `127.0.0.1` instead. `None` if
    /// the browser may stay at that address.
    pub fn dashboard_instead_of(&self, authority: &str) -> Option<String> {
        let is_plain_local = self.is_local() && !self.is_https();
        if is_plain_local { local_dashboard(authority) } else { None }
    }

    /// Returns the name of the session cookie. `None` if plain HTTP would expose the cookie on the network.
    pub fn cookie_name(&self) -> Option<&'static str> {
        if self.is_https() {
            Some("__Host-berth")
        } else if self.is_local() {
            Some("berth_local")
        } else {
            None
        }
    }
}
