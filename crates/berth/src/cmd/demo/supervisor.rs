//! `berth serve --demo`: runs the server and the sites, restarts the server when it is killed, and removes all data at
//! the end.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use berth_engine::credential::RedactedString;
use berth_engine::vault::WhenMissing;
use berth_server::config::local_dashboard;
use rustix::process::Signal;
use tokio::process::Child;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

use super::announcement::{self, DemoFacts};
use super::members::add_members;
use super::organizations::{create_organizations, shop_definition};
use super::repository::SampleRepository;
use super::running::{PREFIX, RunningDemo};
use super::scenario::{self, DemoClients};
use super::server::{self, ServerProcess};
use super::sites::{DemoSites, SITE_NAMES, SiteListeners};
use crate::client::{ApiClient, ServerLogin};
use crate::cmd::serve;
use crate::cmd::{open_store, open_vault, to_cli_error};
use crate::output::{print_line, print_note};

/// The supervisor gives up after this many restarts, because something other than `berth demo crash` must be killing
/// the server.
const RESTARTS_MAX: u32 = 100;
const READY_TIMEOUT: Duration = Duration::from_secs(20);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

pub(crate) fn run_demo(
    args: &serve::ServeArgs,
    listen: SocketAddr,
    runtime: Runtime,
    stop: &CancellationToken,
) -> anyhow::Result<ExitCode> {
    berth_engine::git::check_git()?;
    let temp = tempfile::Builder::new().prefix(PREFIX).tempdir().with_context(|| {
        let place = std::env::temp_dir();
        format!(
            "cannot create the demo's data directory in {}; set TMPDIR to another directory",
            place.display()
        )
    })?;
    let kept = set_up(args, listen, temp.path(), &runtime)
        .and_then(|(plan, scene)| runtime.block_on(start_and_announce(args, plan, scene, stop)));
    // Returns without waiting for threads that are still calling the server.
    runtime.shutdown_background();
    let path = temp.path().to_owned();
    temp.close().with_context(|| format!("cannot remove the demo's data from {}", path.display()))?;
    kept
}

fn set_up(
    args: &serve::ServeArgs,
    listen: SocketAddr,
    dir: &Path,
    runtime: &Runtime,
) -> anyhow::Result<(ServerProcess, DemoSetup)> {
    let (listener, moved) = bind_listener(listen, args.listen.is_some())?;
    let _inside = runtime.enter();
    let scene = DemoSetup::create(args, listener.local_addr()?, moved, dir);
    let scene = scene.with_context(|| format!("cannot set up the demo in {}", dir.display()))?;
    let addresses = scene.facts.sites.iter().flat_map(|it| it.addresses.iter().map(String::as_str));
    let places: Vec<_> = SITE_NAMES.into_iter().zip(addresses).collect();
    Ok((ServerProcess::new(args, listener, dir, &places)?, scene))
}

async fn start_and_announce(
    args: &serve::ServeArgs,
    plan: ServerProcess,
    scene: DemoSetup,
    stop: &CancellationToken,
) -> anyhow::Result<ExitCode> {
    let mut child = plan.start()?;
    tokio::select! {
        () = stop.cancelled() => {}
        ended = child.wait() => return Ok(report_exit(ended?)),
        announced = announce(args.json, scene, stop.clone()) => announced?,
    }
    supervise(&plan, child, stop).await
}

/// Restarts the server until the demo is stopped or the server exits on its own.
async fn supervise(
    plan: &ServerProcess,
    mut child: Child,
    stop: &CancellationToken,
) -> anyhow::Result<ExitCode> {
    for _ in 0..RESTARTS_MAX {
        let ended = tokio::select! {
            () = stop.cancelled() => {
                let ended = server::stop_server(child).await?;
                // A server that is still starting up has no signal handler yet, so SIGTERM terminates it directly.
                let is_well = ended.success() || ended.signal() == Some(Signal::TERM.as_raw());
                return Ok(if is_well { ExitCode::SUCCESS } else { report_exit(ended) });
            }
            ended = child.wait() => ended?,
        };
        // If the server exited by itself, it has printed the reason, and a restart would fail the same way.
        if ended.signal().is_none() {
            return Ok(report_exit(ended));
        }
        child = plan.start()?;
    }
    anyhow::bail!("the server was killed {RESTARTS_MAX} times; giving up")
}

fn report_exit(ended: std::process::ExitStatus) -> ExitCode {
    print_note(&format!("error: the demo's server exited: {ended}"));
    ExitCode::FAILURE
}

/// Everything that has to exist before the server starts.
struct DemoSetup {
    facts: DemoFacts,
    /// `None` with --bare.
    actors: Option<(DemoClients, SampleRepository)>,
}

impl DemoSetup {
    fn create(
        args: &serve::ServeArgs,
        address: SocketAddr,
        moved: Option<SocketAddr>,
        dir: &Path,
    ) -> anyhow::Result<Self> {
        let (data, store) = open_store(dir, None)?;
        open_vault(&store, &data, None, WhenMissing::Create)?;
        let bound = SiteListeners::bind_next_to(reachable_address(address))
            .context("cannot bind ports for the demo's sites")?;
        let program = std::env::current_exe().context("cannot find the path of this program")?;
        let definition = shop_definition(&bound.addresses()?, &program.to_string_lossy());
        let base = format!("http://{}", reachable_address(address));
        let dashboard =
            local_dashboard(&reachable_address(address).to_string()).unwrap_or_else(|| base.clone());
        if args.bare {
            let organizations = create_organizations(&store, Some(definition)).map_err(to_cli_error)?;
            return Ok(Self {
                facts: DemoFacts { base, dashboard, organizations, sites: None, moved },
                actors: None,
            });
        }
        let organizations = create_organizations(&store, None).map_err(to_cli_error)?;
        let created = &organizations.first().context("the demo has no organization")?.created;
        let tokens = add_members(&store, created.org.id, created.user.id).map_err(to_cli_error)?;
        let sample = SampleRepository::create(&dir.join("harbour-shop.git"), &definition)?;
        let login = |token: &RedactedString| ServerLogin {
            server: base.clone(),
            organization: created.org.slug.to_string(),
            token: token.reveal().to_owned(),
            token_id: None,
        };
        RunningDemo::write(dir, login(&created.token))?;
        let [grace, linus, ci] = tokens.map(|token| ApiClient::new(login(&token)));
        let cast = DemoClients { ada: ApiClient::new(login(&created.token)), grace, linus, ci };
        let (server, email) = (base.clone(), created.user.email.to_string());
        let password = created.password.as_ref().map(|it| it.reveal().to_owned()).unwrap_or_default();
        let sign_in = Box::new(move || announcement::log_in(&server, &email, &password));
        let sites =
            DemoSites::start(bound, dashboard.clone(), sign_in).context("cannot start the demo's sites")?;
        let facts = DemoFacts { base, dashboard, organizations, sites: Some(sites), moved };
        Ok(Self { facts, actors: Some((cast, sample)) })
    }
}

/// Prints the announcement once the server responds, then plays the scenario.
async fn announce(is_json: bool, scene: DemoSetup, stop: CancellationToken) -> anyhow::Result<()> {
    let (tell, heard) = tokio::sync::oneshot::channel();
    // Use a plain thread: it blocks on API calls, and the runtime must not wait for it on shutdown.
    std::thread::spawn(move || {
        let begun = wait_until_ready(&scene).and_then(|found| {
            let facts = &scene.facts;
            print_line(&if is_json {
                announcement::to_json(facts, &found).to_string()
            } else {
                announcement::to_text(facts)
            })
        });
        let is_begun = begun.is_ok();
        let _ = tell.send(begun);
        let DemoSetup { facts: DemoFacts { sites: Some(sites), .. }, actors: Some((cast, sample)) } = scene
        else {
            return;
        };
        if is_begun {
            scenario::run_scenario(&cast, &sample, &sites, &|text| {
                if !is_json && !stop.is_cancelled() {
                    let _ = print_line(text);
                }
            });
        }
    });
    heard.await.context("the demo failed to start")?
}

/// Waits until the server responds; returns the pipelines that were created after it started.
fn wait_until_ready(scene: &DemoSetup) -> anyhow::Result<Vec<serde_json::Value>> {
    let DemoSetup { facts, actors } = scene;
    let deadline = Instant::now() + READY_TIMEOUT;
    while !announcement::is_healthy(&facts.base) {
        anyhow::ensure!(Instant::now() < deadline, "the server does not respond at {}", facts.base);
        std::thread::sleep(POLL_INTERVAL);
    }
    match (actors, &facts.sites) {
        (Some((cast, sample)), Some(sites)) => scenario::prepare_demo(cast, sample, sites),
        _ => Ok(Vec::new()),
    }
}

/// Binds the listener. If the port is occupied and was not requested explicitly, uses a free port instead and also
/// returns the occupied address.
fn bind_listener(
    wanted: SocketAddr,
    is_asked_for: bool,
) -> anyhow::Result<(TcpListener, Option<SocketAddr>)> {
    match TcpListener::bind(wanted) {
        Ok(listener) => Ok((listener, None)),
        Err(error) if error.kind() == ErrorKind::AddrInUse && !is_asked_for => {
            Ok((TcpListener::bind((wanted.ip(), 0))?, Some(wanted)))
        }
        Err(error) if error.kind() == ErrorKind::AddrInUse => anyhow::bail!(
            "cannot listen on {wanted}: the port is in use. Omit --listen, or choose another port (0 picks a free one)"
        ),
        Err(error) => Err(error).with_context(|| format!("cannot listen on {wanted}")),
    }
}

/// Replaces an unspecified address such as `0.0.0.0` with loopback.
pub(super) fn reachable_address(address: SocketAddr) -> SocketAddr {
    let ip = if address.ip().is_unspecified() { IpAddr::from([127, 0, 0, 1]) } else { address.ip() };
    SocketAddr::new(ip, address.port())
}
