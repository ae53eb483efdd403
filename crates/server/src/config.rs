//! What the server is told from outside.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use berth_api::runner::Isolation;
use berth_core::runner::{LOCAL_LABEL, Times};
use berth_engine::ServicesConfig;
use berth_engine::egress::{self, Allowed};
use berth_engine::git::Access;

use crate::auth::passwords::PasswordCost;
use crate::integrations::forges::ForgeAt;
use crate::limits::{
    GIT_S_MAX, KEEP_ALIVE_S_DEFAULT, REGISTRY_BUILD_S_MAX, REGISTRY_BYTES_MAX, REQUESTS_PER_TOKEN_BURST,
    REQUESTS_PER_TOKEN_PER_S, STREAM_CHECK_EVERY, STREAMS_PER_TOKEN_MAX, WEBHOOK_BEHIND_MAX,
};

/// What every runner says of the machine it is on, and that it is this one.
fn own_labels() -> Vec<String> {
    [std::env::consts::OS, std::env::consts::ARCH, LOCAL_LABEL].map(str::to_owned).to_vec()
}

/// Host of the dashboard on plain loopback. Cookies are sent to every port of their host, so 127.0.0.1 would share them
/// with whatever else listens there.
pub const LOCAL_DASHBOARD_HOST: &str = "berth.localhost";

/// Returns the address of the dashboard of a plain http server that is reached at this host and port. `None` where the
/// host is not one that browsers resolve [`LOCAL_DASHBOARD_HOST`] to.
pub fn local_dashboard(authority: &str) -> Option<String> {
    let authority: http::uri::Authority = authority.parse().ok()?;
    let is_this_machine =
        ["127.0.0.1", "localhost", "[::1]"].iter().any(|name| authority.host().eq_ignore_ascii_case(name));
    let port = authority.port_u16().map(|port| format!(":{port}")).unwrap_or_default();
    is_this_machine.then(|| format!("http://{LOCAL_DASHBOARD_HOST}{port}"))
}

/// Registries, their logs and builds.
pub(crate) fn registries_dir(data_dir: &Path) -> PathBuf {
    data_dir.join("registries")
}

#[derive(Debug, Clone)]
pub struct Config {
    pub listen: SocketAddr,
    /// Where logs and artifacts lie, beside the database. Nothing is made there before the first of them is.
    pub data_dir: PathBuf,
    /// Where this server keeps what no other one touches. The same, where it is alone.
    pub own_dir: PathBuf,
    /// Where steps and builds are executed, if not below `own_dir`.
    pub work_dir: Option<PathBuf>,
    /// One person's machine, as `--local` says: people log in by plain http, and repositories may lie on this machine.
    pub local: bool,
    /// How people reach the server, if not by the address it listens on: `https://berth.acme.test`.
    pub public_url: Option<String>,
    /// This server itself speaks https.
    pub has_tls: bool,
    /// Where numbers for Prometheus are served.
    pub metrics_listen: Option<SocketAddr>,
    /// So long after its end the logs of a deployment go. `None`: never.
    pub logs_kept: Option<Duration>,
    /// So long after its end a deployment gives up its artifacts. `None`: never.
    pub artifacts_kept: Option<Duration>,
    /// So long after they were recorded events go. `None`: never.
    pub events_kept: Option<Duration>,
    /// Proxies whose `X-Forwarded-For` is believed.
    pub trusted_proxies: Vec<IpAddr>,
    /// For how long a connection may be silent between two requests.
    pub keep_alive: Duration,
    pub rate_limit: bool,
    pub password_cost: PasswordCost,
    pub requests_per_s: u32,
    pub requests_burst: u32,
    pub streams_per_token_max: usize,
    /// What the runner of this server can do, for `runs_on`. `None`: it has no runner.
    pub runner_labels: Option<Vec<String>>,
    /// How steps and builds are kept apart from this machine. `None`: neither is run here.
    pub isolation: Option<Isolation>,
    /// Paths of this machine that every step and build can reach.
    pub exposed: Vec<String>,
    /// When a silent runner stops its steps, and when it is called lost.
    pub runner_times: Times,
    /// How often a stream gives a sign of life, and its caller's right is checked again.
    pub stream_check_every: Duration,
    /// Directories below which repositories on this machine may lie, where it is not one person's.
    pub repository_roots: Vec<PathBuf>,
    /// Hosts of repositories that may be in a private network.
    pub repository_hosts: Vec<String>,
    /// How long one run of git may take.
    pub git_max: Duration,
    /// How long one build of a registry may take, and what it may leave behind.
    pub registry_build_max: Duration,
    pub registry_bytes_max: u64,
    /// Hosts and networks the server's own requests may go to although they are not a public address.
    pub egress_allow: Vec<Allowed>,
    /// What hosts of repositories are, where their name does not tell.
    pub forges: Vec<ForgeAt>,
    /// How long a receiver of webhooks may take.
    pub webhook_max: Duration,
    /// Events a webhook may be behind before the oldest are dropped.
    pub webhook_behind_max: i64,
    /// Of a demo: the places that are deployed to, and where each is to be seen.
    pub demo_sites: Option<Vec<(String, String)>>,
}

impl Config {
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
            exposed: Vec::new(),
            runner_times: Times::default(),
            repository_roots: Vec::new(),
            repository_hosts: Vec::new(),
            git_max: Duration::from_secs(GIT_S_MAX),
            registry_build_max: Duration::from_secs(REGISTRY_BUILD_S_MAX),
            registry_bytes_max: REGISTRY_BYTES_MAX,
            egress_allow: Vec::new(),
            forges: Vec::new(),
            webhook_max: egress::REQUEST_MAX,
            webhook_behind_max: WEBHOOK_BEHIND_MAX,
            demo_sites: None,
        }
    }

    /// Requests of one token per second, and in a burst. `None`: no limit.
    pub fn request_limit(&self) -> Option<(u32, u32)> {
        self.rate_limit.then_some((self.requests_per_s, self.requests_burst))
    }

    /// What the services of this server are made from.
    pub fn services(&self) -> ServicesConfig {
        ServicesConfig {
            data_dir: self.data_dir.clone(),
            own_dir: self.own_dir.clone(),
            isolation: self.isolation,
            runner_times: self.runner_times,
            git_max: self.git_max,
            egress_allow: self.egress_allow.clone(),
            egress_max: self.webhook_max,
        }
    }

    /// Said to be one person's machine, and not reached from elsewhere.
    pub fn is_local(&self) -> bool {
        self.local
            && self.listen.ip().is_loopback()
            && self.public_url.is_none()
            && self.trusted_proxies.is_empty()
    }

    /// With `--local` the server trusts every client as the one person at this machine.
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

    /// Where steps are executed.
    pub fn step_dir(&self) -> PathBuf {
        self.work_dir.clone().unwrap_or_else(|| self.own_dir.join("work"))
    }

    /// Where registries are built.
    pub fn build_dir(&self) -> PathBuf {
        let elsewhere = self.work_dir.as_ref().map(|dir| dir.join("builds"));
        elsewhere.unwrap_or_else(|| registries_dir(&self.own_dir).join("work"))
    }

    /// What git may reach.
    pub fn git_access(&self) -> Access {
        Access {
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

    /// The address people use, as far as the server itself knows it.
    pub fn base_url(&self) -> String {
        if let Some(own) = self.dashboard_instead_of(&self.listen.to_string()) {
            return own;
        }
        let scheme = if self.has_tls { "https" } else { "http" };
        let url = self.public_url.clone().unwrap_or_else(|| format!("{scheme}://{}", self.listen));
        url.trim_end_matches('/').to_owned()
    }

    /// Returns the address where people open the dashboard, for a host and port that only API clients use.
    pub fn dashboard_instead_of(&self, authority: &str) -> Option<String> {
        let is_plain_local = self.is_local() && !self.is_https();
        if is_plain_local { local_dashboard(authority) } else { None }
    }

    /// The cookie of a signed-in browser; `None` where plain http would give it away.
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
