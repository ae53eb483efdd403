//! `berth serve`: the server, for real or as a demo.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use berth_core::runner::Times;
use berth_server::admin;
use berth_server::app::App;
use berth_server::config::Config;
use berth_server::credential::Redacted;
use berth_server::demo::{self, DemoOrganization};
use berth_server::egress::Allowed;
use berth_server::forge::ForgeAt;
use berth_server::metrics;
use berth_server::serve::serve;
use berth_server::tls::{Reload, Tls};
use berth_server::vault::WhenMissing;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::{open, open_vault, say, told};
use crate::config::{RunnerSettings, SandboxLevel, Settings, TlsSettings, parse_public_url};
use crate::embedded;
use crate::logging;

/// How soon new files of a certificate are noticed.
const TLS_LOOK_EVERY: Duration = Duration::from_secs(10);

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Where Berth keeps its data
    #[arg(long, value_name = "DIR", conflicts_with = "demo")]
    data_dir: Option<PathBuf>,
    /// Address to listen on; port 0 picks a free one [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// Address of a PostgreSQL database, postgres://user:password@host/name, that servers may share [default: SQLite in the data directory]
    #[arg(long, value_name = "URL")]
    database: Option<String>,
    /// How people reach the server, for example https://berth.acme.test
    #[arg(long, value_name = "URL", value_parser = parse_public_url)]
    public_url: Option<String>,
    /// Run no steps on this machine
    #[arg(long)]
    no_runner: bool,
    /// How far steps are kept apart from this machine [default: auto]
    #[arg(long, value_name = "LEVEL")]
    sandbox: Option<SandboxLevel>,
    /// Limit the requests of each token: on or off
    #[arg(long, value_name = "on|off", value_parser = ["on", "off"])]
    rate_limit: Option<String>,
    /// File with the root key [default: DIR/root.key]
    #[arg(long, value_name = "FILE")]
    root_key_file: Option<PathBuf>,
    /// Directory below which repositories on this machine may lie; may be given several times
    #[arg(long, value_name = "DIR")]
    repository_root: Vec<PathBuf>,
    /// Host of repositories that may be in a private network; may be given several times
    #[arg(long, value_name = "HOST")]
    repository_host: Vec<String>,
    /// Host, address or network (10.0.0.0/8) that webhooks may go to although it is private, also by plain http; may be
    /// given several times
    #[arg(long, value_name = "HOST|CIDR")]
    egress_allow: Vec<String>,
    /// What a host of repositories is, for fix pull requests: HOST=github, gitlab or gitea, with =URL of its API where it
    /// is not in the usual place; may be given several times
    #[arg(long, value_name = "HOST=FORGE[=URL]")]
    forge: Vec<String>,
    /// Configuration file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Throw-away data and something to look at; everything is removed at the end
    #[arg(long)]
    demo: bool,
    /// With --demo: print one JSON object
    #[arg(long, requires = "demo")]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let settings = Settings::load(args.config.as_deref())?;
    logging::start(&settings.log, args.demo);
    let database = args.database.as_deref().or(settings.database.as_deref());
    let listen = args.listen.unwrap_or(settings.listen);
    let config = Config {
        public_url: args.public_url.clone().or(settings.public_url),
        trusted_proxies: settings.trusted_proxies,
        rate_limit: args.rate_limit.as_deref().map_or(settings.rate_limit, |word| word == "on"),
        streams_per_token_max: settings.streams_per_token_max,
        repository_roots: [settings.repository_roots, args.repository_root.clone()].concat(),
        repository_hosts: [settings.repository_hosts, args.repository_host.clone()].concat(),
        egress_allow: allowed(&settings.egress.allow, &args.egress_allow)?,
        forges: forges(&settings.forges, &args.forge)?,
        runner_times: times(&settings.runner, database.is_some())?,
        metrics_listen: settings.metrics.listen,
        logs_kept: settings.retention.logs_kept(),
        ..Config::local(listen)
    };
    let tls = tls(&settings.tls)?;
    let config = Config { has_tls: tls.is_some(), ..config };
    let config = if args.no_runner { Config { runner_labels: None, ..config } } else { config };
    let runner =
        RunnerSettings { sandbox: args.sandbox.unwrap_or(settings.runner.sandbox), ..settings.runner };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    // From here on a signal ends the program in order, also while it is still starting.
    let stop = stop_on_signal(&runtime)?;
    if args.demo {
        let temp = tempfile::Builder::new().prefix("berth-demo-").tempdir()?;
        anyhow::ensure!(database.is_none(), "a demo keeps its data to itself: leave --database away");
        return run_demo(args, config, &runner, temp.path(), runtime, stop);
    }
    let data_dir = args.data_dir.as_deref().unwrap_or(&settings.data_dir);
    anyhow::ensure!(
        data_dir.is_dir(),
        "there is no data directory at {}. Run `berth init` first.",
        data_dir.display()
    );
    let (dir, store) = open(data_dir, database)?;
    let key = args.root_key_file.as_deref().or(settings.root_key_file.as_deref());
    let vault = open_vault(&store, &dir, key, WhenMissing::Refuse)?;
    let config = Config { data_dir: dir.path().to_owned(), own_dir: dir.own().to_owned(), ..config };
    let app = App::new(store, vault, config).stopped_by(stop);
    let app = match &tls {
        Some(tls) => app.with_tls(tls.clone()),
        None => app,
    };
    let hidden: Vec<PathBuf> = [key, args.config.as_deref(), settings.tls.key.as_deref()]
        .into_iter()
        .flatten()
        .map(Path::to_owned)
        .collect();
    listen_and_serve(runtime, app, &runner, &hidden, WhenTaken::Fail, |address| {
        let scheme = if tls.is_some() { "https" } else { "http" };
        say(&format!("berth is serving at {scheme}://{address}"))
    })
}

fn allowed(settings: &[String], args: &[String]) -> anyhow::Result<Vec<Allowed>> {
    let parse = |text: &String| text.parse().with_context(|| format!("egress-allow {text:?}"));
    settings.iter().chain(args).map(parse).collect()
}

/// Refused when a runner could still be at work while the server calls it lost.
fn times(settings: &RunnerSettings, is_shared: bool) -> anyhow::Result<Times> {
    let usual = if is_shared { Times::LOST_SHARED } else { Times::default().lost };
    let lost = settings.lost_ms.map_or(usual, Duration::from_millis);
    let times = Times::new(lost, Duration::from_millis(settings.stop_grace_ms));
    times.map_err(|why| anyhow::anyhow!("runner.lost_ms and runner.stop_grace_ms: {why}"))
}

fn forges(settings: &[String], args: &[String]) -> anyhow::Result<Vec<ForgeAt>> {
    let parse = |text: &String| text.parse().with_context(|| format!("forge {text:?}"));
    settings.iter().chain(args).map(parse).collect()
}

fn run_demo(
    args: &Args,
    config: Config,
    runner: &RunnerSettings,
    temp: &Path,
    runtime: Runtime,
    stop: CancellationToken,
) -> anyhow::Result<ExitCode> {
    let (dir, store) = open(temp, None)?;
    let vault = open_vault(&store, &dir, None, WhenMissing::Create)?;
    let organizations = demo::fill(&store).map_err(told)?;
    let config = Config { data_dir: dir.path().to_owned(), own_dir: dir.own().to_owned(), ..config };
    let app = App::new(store, vault, config).stopped_by(stop);
    let when_taken = if args.listen.is_none() { WhenTaken::Move } else { WhenTaken::Fail };
    listen_and_serve(runtime, app, runner, &[], when_taken, |address| {
        say(&if args.json {
            as_json(address, &organizations).to_string()
        } else {
            for_people(address, &organizations)
        })
    })
}

/// What to do when the port is in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WhenTaken {
    Fail,
    /// Take any other.
    Move,
}

pub(super) fn listen_and_serve(
    runtime: Runtime,
    app: App,
    runner: &RunnerSettings,
    hidden: &[PathBuf],
    when_taken: WhenTaken,
    announce: impl FnOnce(SocketAddr) -> anyhow::Result<()>,
) -> anyhow::Result<ExitCode> {
    let app = Arc::new(embedded::building(app, runner, hidden));
    let code = runtime.block_on(async move {
        let listener = bind(app.config().listen, when_taken).await?;
        let runner = embedded::start(&app, runner, hidden)?;
        let metrics = match app.config().metrics_listen {
            Some(address) => Some(bind(address, WhenTaken::Fail).await?),
            None => None,
        };
        announce(listener.local_addr()?)?;
        let mut broken = app.store().broken();
        let stop = app.shutdown.clone();
        let own_dir = app.config().own_dir.clone();
        let admin = admin::serve(app.clone(), &own_dir);
        let running = embedded::run(runner, stop.clone());
        let measured = measure(app.clone(), metrics);
        let reloads = reload_tls(app.clone());
        let serving = async { tokio::join!(serve(app, listener), admin, running, measured, reloads) };
        let failed = async {
            let failure = broken.wait_for(Option::is_some).await;
            failure.is_ok()
        };
        tokio::pin!(serving);
        tokio::select! {
            _ = &mut serving => Ok(ExitCode::SUCCESS),
            true = failed => {
                // What was acknowledged is safe; nothing further can be. The next start recovers.
                stop.cancel();
                serving.await;
                Ok(ExitCode::FAILURE)
            }
        }
    });
    // Connections that were cut still hold the application; with the runtime they go, and the store closes cleanly.
    drop(runtime);
    code
}

async fn bind(wanted: SocketAddr, when_taken: WhenTaken) -> anyhow::Result<TcpListener> {
    match TcpListener::bind(wanted).await {
        Err(error) if when_taken == WhenTaken::Move && error.kind() == ErrorKind::AddrInUse => {
            Ok(TcpListener::bind((wanted.ip(), 0)).await?)
        }
        other => other.with_context(|| format!("cannot listen on {wanted}")),
    }
}

async fn measure(app: Arc<App>, listener: Option<TcpListener>) {
    if let Some(listener) = listener {
        if let Ok(address) = listener.local_addr() {
            tracing::info!(%address, "metrics are served");
        }
        metrics::serve(app, listener).await;
    }
}

fn tls(settings: &TlsSettings) -> anyhow::Result<Option<Arc<Tls>>> {
    match (&settings.certificate, &settings.key) {
        (None, None) => Ok(None),
        (Some(certificate), Some(key)) => Ok(Some(Arc::new(Tls::load(certificate, key)?))),
        _ => anyhow::bail!("tls.certificate and tls.key belong together: name both, or neither"),
    }
}

/// New files are taken at SIGHUP, and by themselves when they have changed.
async fn reload_tls(app: Arc<App>) {
    let Ok(mut asked) = signal(SignalKind::hangup()) else { return };
    while !app.shutdown.is_cancelled() {
        let when = tokio::select! {
            _ = asked.recv() => Reload::Asked,
            () = tokio::time::sleep(TLS_LOOK_EVERY) => Reload::IfChanged,
            () = app.shutdown.cancelled() => return,
        };
        if let Some(tls) = app.tls() {
            tls.reload(when);
        }
    }
}

pub(super) fn stop_on_signal(runtime: &Runtime) -> anyhow::Result<CancellationToken> {
    let _inside = runtime.enter();
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let stop = CancellationToken::new();
    let stopping = stop.clone();
    runtime.spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        stopping.cancel();
    });
    Ok(stop)
}

fn as_json(address: SocketAddr, organizations: &[DemoOrganization]) -> serde_json::Value {
    let organization = |demo: &DemoOrganization| {
        let created = &demo.created;
        let pipeline = |pipeline: &berth_core::pipeline::state::Pipeline| {
            json!({
                "id": pipeline.id.to_string(),
                "slug": pipeline.slug.as_str(),
                "environments": pipeline.outline.environments,
            })
        };
        json!({
            "id": created.org.id.to_string(),
            "slug": created.org.slug.as_str(),
            "email": created.user.email.as_str(),
            "password": created.password.as_ref().map(Redacted::reveal),
            "apiToken": created.token.reveal(),
            "pipelines": demo.pipelines.iter().map(pipeline).collect::<Vec<_>>(),
        })
    };
    json!({
        "baseUrl": format!("http://{address}/api/v1"),
        "organizations": organizations.iter().map(organization).collect::<Vec<_>>(),
    })
}

fn for_people(address: SocketAddr, organizations: &[DemoOrganization]) -> String {
    let Some(DemoOrganization { created, .. }) = organizations.first() else { return String::new() };
    let (org, token) = (&created.org.slug, created.token.reveal());
    let password = created.password.as_ref().map_or("", Redacted::reveal);
    format!(
        "Berth demo at http://{address}\n\n\
         Login     {}  {password}\n\
         Token     {token}\n\n\
         Try:\n  \
         BASE=http://{address}/api/v1\n  \
         TOKEN={token}\n  \
         curl -H \"Authorization: Bearer $TOKEN\" $BASE/organizations/{org}/pipelines\n  \
         curl -H \"Authorization: Bearer $TOKEN\" -X POST $BASE/organizations/{org}/pipelines/shop/stop\n  \
         curl -H \"Authorization: Bearer $TOKEN\" $BASE/organizations/{org}/events\n\n\
         Ctrl-C ends it and removes everything.",
        created.user.email,
    )
}
