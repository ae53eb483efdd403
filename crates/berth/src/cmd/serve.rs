//! `berth serve`: runs the server or the demo.

use std::net::SocketAddr;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use berth_core::runner::RunnerTimeouts;
use berth_engine::check_organizations;
use berth_engine::vault::WhenMissing;
use berth_runner::Confinement;
use berth_server::app::App;
use berth_server::config::AppConfig;
use berth_server::serve::serve;
use berth_server::tls::{ReloadTrigger, TlsTerminator};
use berth_server::{admin, metrics};
use berth_store::tables::organization;
use clap::ValueEnum as _;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::signals::{HangupPolicy, stop_on_signal};
use super::{demo, disable_core_dumps, open_store, open_vault, print_line};
use crate::config::{RunnerSettings, SandboxLevel, ServerSettings, TlsSettings, parse_public_url};
use crate::embedded;
use crate::logging;

const TLS_POLL_INTERVAL: Duration = Duration::from_secs(10);

#[derive(clap::Args)]
pub(crate) struct ServeArgs {
    /// Data directory
    #[arg(long, value_name = "DIR", conflicts_with = "demo")]
    pub(super) data_dir: Option<PathBuf>,
    /// Address to listen on; port 0 picks a free port [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDRESS")]
    pub(super) listen: Option<SocketAddr>,
    /// PostgreSQL URL, postgres://user:password@host/name; several servers can share it [default: SQLite in the data
    /// directory]
    #[arg(long, value_name = "URL")]
    pub(super) database: Option<String>,
    /// URL at which users reach the server, for example https://berth.acme.test
    #[arg(long, value_name = "URL", value_parser = parse_public_url)]
    pub(super) public_url: Option<String>,
    /// Single-user mode on your own machine: log in without https, use local repositories
    #[arg(long)]
    pub(super) local: bool,
    /// Do not run steps on this machine
    #[arg(long)]
    pub(super) no_runner: bool,
    /// Sandbox for steps [default: auto]
    #[arg(long, value_name = "LEVEL")]
    pub(super) sandbox: Option<SandboxLevel>,
    /// Rate limit per token
    #[arg(long, value_name = "on|off", value_parser = ["on", "off"])]
    pub(super) rate_limit: Option<String>,
    /// Root key file [default: DIR/root.key]
    #[arg(long, value_name = "FILE")]
    pub(super) root_key_file: Option<PathBuf>,
    /// Directory in which local repositories are allowed; can be repeated
    #[arg(long, value_name = "DIR")]
    pub(super) repository_root: Vec<PathBuf>,
    /// Git host that may be in a private network and may serve files of Git LFS; can be repeated
    #[arg(long, value_name = "HOST")]
    pub(super) repository_host: Vec<String>,
    /// Private host, address or network (10.0.0.0/8) that webhooks can reach, also over plain http; can be repeated
    #[arg(long, value_name = "HOST|CIDR")]
    pub(super) egress_allow: Vec<String>,
    /// Forge that a git host runs: github, gitlab, gitea or bitbucket, optionally with its API URL; can be
    /// repeated
    #[arg(long, value_name = "HOST=FORGE[=URL]")]
    pub(super) forge: Vec<String>,
    /// Configuration file
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// Run a demo with sample data, which is removed at the end
    #[arg(long)]
    pub(super) demo: bool,
    /// With --demo: print JSON
    #[arg(long, requires = "demo")]
    pub(super) json: bool,
    /// With --demo: only organizations and pipelines, without members, repository and sites
    #[arg(long, requires = "demo")]
    pub(super) bare: bool,
    /// Process id of the demo supervisor
    #[arg(long, hide = true, conflicts_with = "demo")]
    kept_by: Option<u32>,
    /// URL of a demo site: NAME=URL
    #[arg(long, hide = true, requires = "kept_by")]
    site: Vec<String>,
}

impl ServeArgs {
    /// Returns the flags that the demo passes on to its server process.
    pub(super) fn demo_server_flags(&self) -> Vec<(&'static str, String)> {
        let path = |path: &PathBuf| path.display().to_string();
        let sandbox = self.sandbox.and_then(|it| Some(it.to_possible_value()?.get_name().to_owned()));
        let single = [
            ("public-url", self.public_url.clone()),
            ("sandbox", sandbox),
            ("rate-limit", self.rate_limit.clone()),
            ("config", self.config.as_ref().map(path)),
        ];
        let roots = self.repository_root.iter().map(|it| ("repository-root", path(it)));
        let hosts = self.repository_host.iter().map(|it| ("repository-host", it.clone()));
        let allowed = self.egress_allow.iter().map(|it| ("egress-allow", it.clone()));
        let forges = self.forge.iter().map(|it| ("forge", it.clone()));
        let single = single.into_iter().filter_map(|(name, value)| Some((name, value?)));
        single.chain(roots).chain(hosts).chain(allowed).chain(forges).collect()
    }
}

/// Interval for checking whether the demo supervisor is still running.
const SUPERVISOR_POLL_INTERVAL: Duration = Duration::from_millis(250);

pub(crate) fn run(args: &ServeArgs) -> anyhow::Result<ExitCode> {
    let settings = ServerSettings::load(args.config.as_deref())?;
    logging::start(&settings.log, args.demo || args.kept_by.is_some());
    disable_core_dumps();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    // From here on a signal shuts down cleanly, even during startup.
    let stop = stop_on_signal(&runtime, if args.demo { HangupPolicy::Stop } else { HangupPolicy::Ignore })?;
    let database = args.database.as_deref().or(settings.database.as_deref());
    let listen = args.listen.unwrap_or(settings.listen);
    if args.demo {
        anyhow::ensure!(database.is_none(), "--database cannot be used with --demo");
        return demo::run_demo(args, listen, runtime, &stop);
    }
    let config = AppConfig {
        public_url: args.public_url.clone().or(settings.public_url),
        trusted_proxies: settings.trusted_proxies,
        keep_alive: settings.http.keep_alive()?,
        rate_limit: args.rate_limit.as_deref().map_or(settings.rate_limit, |word| word == "on"),
        password_cost: settings.passwords.cost()?,
        streams_per_token_max: settings.streams_per_token_max,
        repository_roots: [settings.repository_roots, args.repository_root.clone()].concat(),
        repository_hosts: [settings.repository_hosts, args.repository_host.clone()].concat(),
        egress_allow: parse_all("egress-allow", &settings.egress.allow, &args.egress_allow)?,
        forges: parse_all("forge", &settings.forges, &args.forge)?,
        password_login: settings.auth.password_login(),
        providers: settings.auth.load_providers()?,
        runner_times: runner_times(&settings.runner, database.is_some())?,
        smtp: settings.smtp.load()?,
        metrics_listen: settings.metrics.listen,
        logs_kept: retention(settings.retention.log_days),
        artifacts_kept: retention(settings.retention.artifact_days),
        events_kept: retention(settings.retention.event_days),
        local: args.local || settings.local,
        demo_sites: (!args.site.is_empty()).then(|| parse_sites(&args.site)),
        ..AppConfig::local(listen)
    };
    let tls = load_tls(&settings.tls)?;
    let config = AppConfig { has_tls: tls.is_some(), ..config };
    config.check_local().map_err(anyhow::Error::msg)?;
    // Treat a demo as `--local`, after `check_local`, so that it may also be reachable from other machines.
    let local = config.local || args.kept_by.is_some();
    let config = AppConfig { local, ..config };
    let config = if args.no_runner { AppConfig { runner_labels: None, ..config } } else { config };
    let runner =
        RunnerSettings { sandbox: args.sandbox.unwrap_or(settings.runner.sandbox), ..settings.runner };
    // Make the path absolute: the working directory may have changed by the time it is used.
    let work_dir = runner.work_dir.map(std::path::absolute).transpose().context("runner.work_dir")?;
    let runner = RunnerSettings { work_dir, ..runner };
    let data_dir = args.data_dir.as_deref().unwrap_or(&settings.data_dir);
    anyhow::ensure!(
        data_dir.is_dir(),
        "data directory {} does not exist; run `berth init` first",
        data_dir.display()
    );
    // Opening the store would create an empty database, which would hide that a restore has failed.
    anyhow::ensure!(
        database.is_some() || data_dir.join("berth.db").exists(),
        "no database in {}; run `berth init` or `berth admin restore` first",
        data_dir.display()
    );
    let (dir, store) = open_store(data_dir, database)?;
    let key = args.root_key_file.as_deref().or(settings.root_key_file.as_deref());
    // The demo has its own root key in its data directory.
    let key = key.filter(|_| args.kept_by.is_none());
    let vault = open_vault(&store, &dir, key, WhenMissing::Refuse)?;
    let storage = settings.storage.open_for(&store, dir.path())?;
    // Must come after all checks, so that a refused start changes nothing.
    if !store.is_shared() {
        store.begin_in(&dir)?;
    }
    let (data_dir, own_dir) = (dir.path().to_owned(), dir.own_dir().to_owned());
    let config = AppConfig { data_dir, own_dir, work_dir: runner.work_dir.clone(), storage, ..config };
    if config.password_cost.is_below_default() {
        tracing::warn!(cost = ?config.password_cost, "password hashing cost is below the default");
    }
    let all = runtime.block_on(store.read(None, |db| organization::list_ids(db, None)))?;
    // With `--local` only one organization is allowed, but a demo has two and is exempt.
    let organizations = if args.kept_by.is_some() { 1 } else { all.len() };
    anyhow::ensure!(
        !config.local || organizations < 2,
        "--local supports only one organization, but there are {organizations}; use --public-url and TLS instead"
    );
    let hidden = [key, args.config.as_deref(), settings.tls.key.as_deref(), settings.storage.secret_file()];
    let hidden = hidden.into_iter().flatten().chain(settings.auth.secret_files());
    let hidden = hidden.chain(settings.smtp.secret_file());
    let hidden: Vec<PathBuf> = hidden.map(Path::to_owned).collect();
    let confinement = embedded::choose_confinement(&config, &runner, &hidden)?;
    // Without a working sandbox the embedded runner offers no labels, so that no step waits for it.
    let labels = config.runner_labels.clone().filter(|_| confinement.is_ok());
    let engines = runner.containers.labels().into_iter().chain(runner.kubernetes.labels());
    let labels = labels.map(|own| own.into_iter().chain(engines).collect());
    let found = confinement.as_ref().ok();
    let (isolation, exposed) = found.map(|it| (it.isolation(), it.exposed_paths())).unzip();
    let lends_cluster_access = runner.kubernetes.lends_access();
    check_organizations(isolation, lends_cluster_access, organizations).map_err(anyhow::Error::msg)?;
    let exposed = exposed.unwrap_or_default();
    let config = AppConfig { runner_labels: labels, isolation, lends_cluster_access, exposed, ..config };
    let app = App::new(store, vault, config, stop);
    let app = match &tls {
        Some(tls) => app.with_tls(tls.clone()),
        None => app,
    };
    let listen = if let Some(keeper) = args.kept_by {
        stop_when_orphaned(keeper, &runtime, &app.services().shutdown);
        ListenSource::Inherited
    } else {
        ListenSource::At(listen)
    };
    listen_and_serve(runtime, app, &runner, confinement, listen, |config| {
        let scheme = if tls.is_some() { "https" } else { "http" };
        let address = config.listen.to_string();
        print_line(&format!("berth is serving at {scheme}://{address}"))?;
        match config.dashboard_instead_of(&address) {
            Some(dashboard) => print_line(&format!("The dashboard is at {dashboard}")),
            None => Ok(()),
        }
    })
}

/// Converts a number of days; `0` means that nothing is ever removed.
fn retention(count: u32) -> Option<Duration> {
    (count > 0).then(|| Duration::from_secs(u64::from(count) * 24 * 60 * 60))
}

fn parse_sites(told: &[String]) -> Vec<(String, String)> {
    let split = |text: &String| text.split_once('=').map(|(place, url)| (place.to_owned(), url.to_owned()));
    told.iter().filter_map(split).collect()
}

/// Parses the values of a setting, from the configuration file and from flags.
fn parse_all<T>(name: &str, settings: &[String], args: &[String]) -> anyhow::Result<Vec<T>>
where
    T: FromStr<Err: std::error::Error + Send + Sync + 'static>,
{
    let parse = |text: &String| text.parse().with_context(|| format!("{name} {text:?}"));
    settings.iter().chain(args).map(parse).collect()
}

/// Returns the timeouts of runners. Fails if a runner could still be running steps when the server declares it lost.
fn runner_times(settings: &RunnerSettings, is_shared: bool) -> anyhow::Result<RunnerTimeouts> {
    let usual = if is_shared { RunnerTimeouts::LOST_SHARED } else { RunnerTimeouts::default().lost };
    let lost = settings.lost_ms.map_or(usual, Duration::from_millis);
    let times = RunnerTimeouts::new(lost, Duration::from_millis(settings.stop_grace_ms));
    times.map_err(|why| anyhow::anyhow!("runner.lost_ms and runner.stop_grace_ms: {why}"))
}

/// How the server gets its listener.
pub(super) enum ListenSource {
    At(SocketAddr),
    /// Inherited as standard input; the parent keeps it open across restarts.
    Inherited,
}

pub(super) fn listen_and_serve(
    runtime: Runtime,
    app: App,
    runner: &RunnerSettings,
    confinement: Result<Confinement, String>,
    listen: ListenSource,
    announce: impl FnOnce(&AppConfig) -> anyhow::Result<()>,
) -> anyhow::Result<ExitCode> {
    let code = runtime.block_on(async move {
        let listener = bind_listener(listen).await?;
        let app = app.with_listen_address(listener.local_addr()?);
        let app = Arc::new(embedded::with_registry_builder(app, confinement.clone()));
        // Starting blocks while leftovers are removed.
        let runner = tokio::task::block_in_place(|| embedded::start_runner(&app, runner, confinement))?;
        let metrics = match app.config().metrics_listen {
            Some(address) => Some(bind_listener(ListenSource::At(address)).await?),
            None => None,
        };
        announce(app.config())?;
        let mut broken = app.store().watch_failure();
        let stop = app.services().shutdown.clone();
        let own_dir = app.config().own_dir.clone();
        let admin = admin::serve(app.clone(), &own_dir);
        let running = embedded::stop_on_shutdown(runner, stop.clone());
        let measured = serve_metrics(app.clone(), metrics);
        let reloads = reload_tls(app.clone());
        // `admin` comes first: its socket must be bound before the first request is accepted.
        let serving = async { tokio::join!(admin, serve(app, listener), running, measured, reloads) };
        let failed = async {
            let failure = broken.wait_for(Option::is_some).await;
            failure.is_ok()
        };
        tokio::pin!(serving);
        tokio::select! {
            _ = &mut serving => Ok(ExitCode::SUCCESS),
            true = failed => {
                // The store has failed: acknowledged writes are durable, but it accepts no more. The next start
                // recovers.
                stop.cancel();
                serving.await;
                Ok(ExitCode::FAILURE)
            }
        }
    });
    // Drop open connections, which hold references to the application, so that the store closes cleanly.
    drop(runtime);
    code
}

async fn bind_listener(listen: ListenSource) -> anyhow::Result<TcpListener> {
    match listen {
        ListenSource::At(wanted) => {
            TcpListener::bind(wanted).await.with_context(|| format!("cannot listen on {wanted}"))
        }
        ListenSource::Inherited => {
            let listener = std::net::TcpListener::from(std::io::stdin().as_fd().try_clone_to_owned()?);
            listener.set_nonblocking(true)?;
            Ok(TcpListener::from_std(listener)?)
        }
    }
}

async fn serve_metrics(app: Arc<App>, listener: Option<TcpListener>) {
    if let Some(listener) = listener {
        if let Ok(address) = listener.local_addr() {
            tracing::info!(%address, "serving metrics");
        }
        metrics::serve(app.metrics(), listener).await;
    }
}

fn load_tls(settings: &TlsSettings) -> anyhow::Result<Option<Arc<TlsTerminator>>> {
    match (&settings.certificate, &settings.key) {
        (None, None) => Ok(None),
        (Some(certificate), Some(key)) => Ok(Some(Arc::new(TlsTerminator::load(certificate, key)?))),
        _ => anyhow::bail!("set both tls.certificate and tls.key, or neither"),
    }
}

/// Reloads certificates on SIGHUP and when the files change.
async fn reload_tls(app: Arc<App>) {
    let Some(tls) = app.tls() else { return };
    let Ok(mut asked) = signal(SignalKind::hangup()) else { return };
    while !app.services().shutdown.is_cancelled() {
        let when = tokio::select! {
            _ = asked.recv() => ReloadTrigger::Asked,
            () = tokio::time::sleep(TLS_POLL_INTERVAL) => ReloadTrigger::IfChanged,
            () = app.services().shutdown.cancelled() => return,
        };
        tls.reload(when);
    }
}

/// Stops the server when its parent process changes, which means that the demo supervisor has exited.
fn stop_when_orphaned(keeper: u32, runtime: &Runtime, stop: &CancellationToken) {
    let stop = stop.clone();
    runtime.spawn(async move {
        let is_there =
            || rustix::process::getppid().is_some_and(|it| it.as_raw_pid().cast_unsigned() == keeper);
        while is_there() {
            tokio::time::sleep(SUPERVISOR_POLL_INTERVAL).await;
        }
        stop.cancel();
    });
}
