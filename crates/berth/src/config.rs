//! Server settings: defaults < file < `BERTH_…` environment variables < flags.

mod auth;
mod kubernetes;
mod smtp;
mod storage;
mod variables;

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use berth_core::runner::RunnerTimeouts;
use berth_runner::ContainerEngineOptions;
use berth_server::auth::passwords::PasswordCost;
use berth_server::limits::{KEEP_ALIVE_S_DEFAULT, KEEP_ALIVE_S_MAX, KEEP_ALIVE_S_MIN, STREAMS_PER_TOKEN_MAX};
use serde::Deserialize;

pub(crate) use auth::AuthSettings;
pub(crate) use kubernetes::KubernetesSettings;
pub(crate) use smtp::SmtpSettings;
pub(crate) use storage::ObjectStorageSettings;
use variables::VARIABLES;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ServerSettings {
    pub(crate) data_dir: PathBuf,
    pub(crate) listen: SocketAddr,
    pub(crate) database: Option<String>,
    /// Same as the flag `--local`.
    pub(crate) local: bool,
    pub(crate) public_url: Option<String>,
    pub(crate) trusted_proxies: Vec<IpAddr>,
    pub(crate) http: HttpSettings,
    pub(crate) rate_limit: bool,
    pub(crate) passwords: PasswordSettings,
    pub(crate) streams_per_token_max: usize,
    pub(crate) root_key_file: Option<PathBuf>,
    pub(crate) runner: RunnerSettings,
    pub(crate) repository_roots: Vec<PathBuf>,
    pub(crate) repository_hosts: Vec<String>,
    pub(crate) egress: EgressSettings,
    pub(crate) auth: AuthSettings,
    /// Same as the flag `--forge`.
    pub(crate) forges: Vec<String>,
    pub(crate) metrics: MetricsSettings,
    pub(crate) tls: TlsSettings,
    pub(crate) retention: RetentionSettings,
    pub(crate) smtp: SmtpSettings,
    pub(crate) storage: ObjectStorageSettings,
    pub(crate) log: LogSettings,
}

/// Settings for HTTP connections of clients and proxies.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct HttpSettings {
    pub(crate) keep_alive_seconds: u64,
}

impl HttpSettings {
    pub(crate) fn keep_alive(&self) -> anyhow::Result<Duration> {
        let seconds = self.keep_alive_seconds;
        anyhow::ensure!(
            (KEEP_ALIVE_S_MIN..=KEEP_ALIVE_S_MAX).contains(&seconds),
            "http.keep_alive_seconds is {seconds}; it must be between {KEEP_ALIVE_S_MIN} and {KEEP_ALIVE_S_MAX}, and \
             longer than the idle timeout of a proxy in front of the server (default: {KEEP_ALIVE_S_DEFAULT})"
        );
        Ok(Duration::from_secs(seconds))
    }
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self { keep_alive_seconds: KEEP_ALIVE_S_DEFAULT }
    }
}

/// Cost of the Argon2id password hash.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct PasswordSettings {
    pub(crate) memory_kib: u32,
    pub(crate) passes: u32,
}

impl PasswordSettings {
    pub(crate) fn cost(&self) -> anyhow::Result<PasswordCost> {
        PasswordCost::new(self.memory_kib, self.passes).map_err(|why| anyhow::anyhow!("passwords: {why}"))
    }
}

impl Default for PasswordSettings {
    fn default() -> Self {
        let cost = PasswordCost::default();
        Self { memory_kib: cost.memory_kib(), passes: cost.passes() }
    }
}

/// Settings for Prometheus metrics.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct MetricsSettings {
    /// Address of the metrics endpoint, separate from the API's. `None`: no metrics.
    pub(crate) listen: Option<SocketAddr>,
}

/// Paths of PEM files. Set both or neither.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct TlsSettings {
    pub(crate) certificate: Option<PathBuf>,
    pub(crate) key: Option<PathBuf>,
}

/// Retention in days; `0` means forever.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RetentionSettings {
    pub(crate) log_days: u32,
    pub(crate) artifact_days: u32,
    pub(crate) event_days: u32,
}

/// Settings for requests that the server itself sends.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct EgressSettings {
    /// Private hosts, addresses and networks that the server may connect to.
    pub(crate) allow: Vec<String>,
}

/// Settings of the embedded runner.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RunnerSettings {
    /// Number of steps to run in parallel.
    pub(crate) places: usize,
    pub(crate) sandbox: SandboxLevel,
    /// Files, sockets and directories that every step can access.
    pub(crate) expose: Vec<PathBuf>,
    /// User that steps and builds run as, if the server runs as root.
    pub(crate) user: Option<String>,
    /// Work directory of steps and builds [default: in the data directory].
    pub(crate) work_dir: Option<PathBuf>,
    pub(crate) containers: ContainerSettings,
    pub(crate) kubernetes: KubernetesSettings,
    /// Memory limit of a step; the kernel kills a step that exceeds it.
    pub(crate) step_memory_bytes_max: Option<u64>,
    /// A runner without heartbeats for this long is lost; the default is longer on PostgreSQL.
    pub(crate) lost_ms: Option<u64>,
    /// Time between SIGTERM and SIGKILL when a step is stopped, on every runner.
    pub(crate) stop_grace_ms: u64,
}

/// Found in PATH.
pub(crate) const BUILDAH: &str = "buildah";

/// The container engine of the embedded runner.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ContainerSettings {
    /// Socket of Podman or Docker. Without it, the runner executes no container steps.
    pub(crate) socket: Option<PathBuf>,
    /// Whether container steps may use the network of the machine.
    pub(crate) host_network: bool,
    /// The program that builds images.
    pub(crate) buildah: PathBuf,
}

impl Default for ContainerSettings {
    fn default() -> Self {
        Self { socket: None, host_network: false, buildah: PathBuf::from(BUILDAH) }
    }
}

impl ContainerSettings {
    pub(crate) fn options(&self) -> Option<ContainerEngineOptions> {
        let socket = self.socket.clone().filter(|socket| !socket.as_os_str().is_empty())?;
        let buildah = self.buildah.clone();
        Some(ContainerEngineOptions { socket, allows_host_network: self.host_network, buildah })
    }

    /// The labels of a runner with this engine.
    pub(crate) fn labels(&self) -> Vec<String> {
        self.options().map(|it| it.labels()).unwrap_or_default()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SandboxLevel {
    /// Bubblewrap; with --local, Landlock if bubblewrap does not work
    Auto,
    Bubblewrap,
    Landlock,
    Off,
}

impl RunnerSettings {
    /// Returns the configured user. An empty environment variable overrides a user set by a container image.
    pub(crate) fn user_name(&self) -> Option<&str> {
        self.user.as_deref().filter(|name| !name.is_empty())
    }
}

impl Default for RunnerSettings {
    fn default() -> Self {
        let ms = |length: Duration| u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
        let stop_grace = RunnerTimeouts::default().stop_grace;
        Self {
            places: RUNNER_PLACES,
            sandbox: SandboxLevel::Auto,
            expose: Vec::new(),
            user: None,
            work_dir: None,
            containers: ContainerSettings::default(),
            kubernetes: KubernetesSettings::default(),
            step_memory_bytes_max: None,
            lost_ms: None,
            stop_grace_ms: ms(stop_grace),
        }
    }
}

/// More slots than most machines have cores, because steps spend most of their time waiting.
const RUNNER_PLACES: usize = 16;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct LogSettings {
    /// `text` or `json`. The default is text on a terminal and JSON otherwise.
    pub(crate) format: Option<LogFormat>,
    /// Log filter, for example `info` or `berth_server=debug`.
    pub(crate) level: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LogFormat {
    Text,
    Json,
}

impl Default for ServerSettings {
    fn default() -> Self {
        Self {
            data_dir: PathBuf::from("berth-data"),
            listen: SocketAddr::from(([127, 0, 0, 1], 8080)),
            database: None,
            local: false,
            public_url: None,
            trusted_proxies: Vec::new(),
            http: HttpSettings::default(),
            rate_limit: true,
            passwords: PasswordSettings::default(),
            streams_per_token_max: STREAMS_PER_TOKEN_MAX,
            root_key_file: None,
            runner: RunnerSettings::default(),
            repository_roots: Vec::new(),
            repository_hosts: Vec::new(),
            egress: EgressSettings::default(),
            auth: AuthSettings::default(),
            forges: Vec::new(),
            metrics: MetricsSettings::default(),
            tls: TlsSettings::default(),
            retention: RetentionSettings::default(),
            smtp: SmtpSettings::default(),
            storage: ObjectStorageSettings::default(),
            log: LogSettings::default(),
        }
    }
}

impl ServerSettings {
    pub(crate) fn load(file: Option<&Path>) -> anyhow::Result<Self> {
        let mut sources = config::Config::builder();
        if let Some(file) = file {
            sources = sources.add_source(config::File::from(file).format(config::FileFormat::Toml));
        }
        // Read only known variables: for a service named "berth", Kubernetes sets BERTH_PORT and similar variables.
        let known = VARIABLES.iter().filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?)));
        let environment = config::Environment::with_prefix("BERTH")
            .source(Some(known.collect()))
            .prefix_separator("_")
            .separator("__")
            .list_separator(",")
            .with_list_parse_key("trusted_proxies")
            .with_list_parse_key("repository_roots")
            .with_list_parse_key("repository_hosts")
            .with_list_parse_key("egress.allow")
            .with_list_parse_key("runner.expose")
            .with_list_parse_key("runner.kubernetes.node_selector")
            .with_list_parse_key("runner.kubernetes.pull_secrets")
            .with_list_parse_key("forges")
            .try_parsing(true);
        let settings: Self = sources
            .add_source(environment)
            .build()
            .and_then(config::Config::try_deserialize)
            .context("invalid configuration")?;
        if let Some(url) = &settings.public_url {
            parse_public_url(url).map_err(|why| anyhow::anyhow!("public_url {why}"))?;
        }
        Ok(settings)
    }
}

/// Checks that the URL is an origin as browsers send it: lower case, without a path. No request would match any other
/// form.
pub(crate) fn parse_public_url(url: &str) -> Result<String, &'static str> {
    let host = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || ".-:[]".contains(c);
    match host {
        Some(host) if !host.is_empty() && host.chars().all(plain) => Ok(url.to_owned()),
        _ => Err("must be like https://berth.acme.test: lower case, without a path or trailing slash"),
    }
}

#[cfg(test)]
mod tests {
    use super::parse_public_url;

    #[test]
    fn public_url_must_be_an_origin() {
        for good in ["https://berth.acme.test", "http://10.0.0.7:8080", "https://[2001:db8::1]:8443"] {
            assert!(parse_public_url(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "berth.acme.test",
            "ftp://x",
            "https://",
            "https://Berth.test",
            "https://x/",
            "https://x/a",
            "https://a@x",
        ] {
            assert!(parse_public_url(bad).is_err(), "{bad}");
        }
    }
}
