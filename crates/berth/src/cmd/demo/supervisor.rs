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

use super::announcement::{self, Facts};
use super::members::add_people;
use super::organizations::{fill, shop_definition};
use super::repository::Sample;
use super::running::{Known, PREFIX};
use super::scenario::{self, Cast};
use super::server::{self, Plan};
use super::sites::{Bound, PLACES, Sites};
use crate::client::{Client, Login};
use crate::cmd::serve;
use crate::cmd::{open, open_vault, told};
use crate::output::{note, say};

/// A server that is killed more often has a problem that a restart does not solve.
const RESTARTS_MAX: u32 = 100;
const READY_MAX: Duration = Duration::from_secs(20);
const LOOK_AGAIN: Duration = Duration::from_millis(50);

pub(crate) fn keep(
    args: &serve::Args,
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
        .and_then(|(plan, scene)| runtime.block_on(run(args, plan, scene, stop)));
    // Does not wait for threads that still call the server.
    runtime.shutdown_background();
    let path = temp.path().to_owned();
    temp.close().with_context(|| format!("cannot remove the demo's data from {}", path.display()))?;
    kept
}

fn set_up(
    args: &serve::Args,
    listen: SocketAddr,
    dir: &Path,
    runtime: &Runtime,
) -> anyhow::Result<(Plan, Scene)> {
    let (listener, moved) = bind(listen, args.listen.is_some())?;
    let _inside = runtime.enter();
    let scene = Scene::make(args, listener.local_addr()?, moved, dir);
    let scene = scene.with_context(|| format!("cannot set up the demo in {}", dir.display()))?;
    let addresses = scene.facts.sites.iter().flat_map(|it| it.addresses.iter().map(String::as_str));
    let places: Vec<_> = PLACES.into_iter().zip(addresses).collect();
    Ok((Plan::new(args, listener, dir, &places)?, scene))
}

async fn run(
    args: &serve::Args,
    plan: Plan,
    scene: Scene,
    stop: &CancellationToken,
) -> anyhow::Result<ExitCode> {
    let mut child = plan.start()?;
    tokio::select! {
        () = stop.cancelled() => {}
        ended = child.wait() => return Ok(failed(ended?)),
        announced = announce(args.json, scene, stop.clone()) => announced?,
    }
    kept(&plan, child, stop).await
}

/// Restarts the server until the demo is stopped or the server exits on its own.
async fn kept(plan: &Plan, mut child: Child, stop: &CancellationToken) -> anyhow::Result<ExitCode> {
    for _ in 0..RESTARTS_MAX {
        let ended = tokio::select! {
            () = stop.cancelled() => {
                let ended = server::stop(child).await?;
                // A server that was still starting is terminated by the signal itself.
                let is_well = ended.success() || ended.signal() == Some(Signal::TERM.as_raw());
                return Ok(if is_well { ExitCode::SUCCESS } else { failed(ended) });
            }
            ended = child.wait() => ended?,
        };
        // A server that exits on its own has printed why, and would exit again.
        if ended.signal().is_none() {
            return Ok(failed(ended));
        }
        child = plan.start()?;
    }
    anyhow::bail!("the server was killed {RESTARTS_MAX} times; giving up")
}

fn failed(ended: std::process::ExitStatus) -> ExitCode {
    note(&format!("error: the demo's server exited: {ended}"));
    ExitCode::FAILURE
}

/// Everything that is created before the server starts.
struct Scene {
    facts: Facts,
    /// `None` with --bare.
    actors: Option<(Cast, Sample)>,
}

impl Scene {
    fn make(
        args: &serve::Args,
        address: SocketAddr,
        moved: Option<SocketAddr>,
        dir: &Path,
    ) -> anyhow::Result<Self> {
        let (data, store) = open(dir, None)?;
        open_vault(&store, &data, None, WhenMissing::Create)?;
        let bound = Bound::next_to(reached(address)).context("cannot bind ports for the demo's sites")?;
        let program = std::env::current_exe().context("cannot find the path of this program")?;
        let definition = shop_definition(&bound.addresses()?, &program.to_string_lossy());
        let base = format!("http://{}", reached(address));
        let dashboard = local_dashboard(&reached(address).to_string()).unwrap_or_else(|| base.clone());
        if args.bare {
            let organizations = fill(&store, Some(definition)).map_err(told)?;
            return Ok(Self {
                facts: Facts { base, dashboard, organizations, sites: None, moved },
                actors: None,
            });
        }
        let organizations = fill(&store, None).map_err(told)?;
        let created = &organizations.first().context("the demo has no organization")?.created;
        let tokens = add_people(&store, created.org.id, created.user.id).map_err(told)?;
        let sample = Sample::make(&dir.join("harbour-shop.git"), &definition)?;
        let login = |token: &RedactedString| Login {
            server: base.clone(),
            organization: created.org.slug.to_string(),
            token: token.reveal().to_owned(),
        };
        Known::write(dir, login(&created.token))?;
        let [grace, linus, ci] = tokens.map(|token| Client::new(login(&token)));
        let cast = Cast { ada: Client::new(login(&created.token)), grace, linus, ci };
        let (server, email) = (base.clone(), created.user.email.to_string());
        let password = created.password.as_ref().map(|it| it.reveal().to_owned()).unwrap_or_default();
        let sign_in = Box::new(move || announcement::signed_in(&server, &email, &password));
        let sites =
            Sites::start(bound, dashboard.clone(), sign_in).context("cannot start the demo's sites")?;
        let facts = Facts { base, dashboard, organizations, sites: Some(sites), moved };
        Ok(Self { facts, actors: Some((cast, sample)) })
    }
}

/// Prints the announcement once the server responds, then plays the scenario.
async fn announce(is_json: bool, scene: Scene, stop: CancellationToken) -> anyhow::Result<()> {
    let (tell, heard) = tokio::sync::oneshot::channel();
    // Not a runtime thread: it blocks on API calls, and the runtime does not wait for it.
    std::thread::spawn(move || {
        let begun = begin(&scene).and_then(|found| {
            let facts = &scene.facts;
            say(&if is_json {
                announcement::as_json(facts, &found).to_string()
            } else {
                announcement::for_people(facts)
            })
        });
        let is_begun = begun.is_ok();
        let _ = tell.send(begun);
        let Scene { facts: Facts { sites: Some(sites), .. }, actors: Some((cast, sample)) } = scene else {
            return;
        };
        if is_begun {
            scenario::play(&cast, &sample, &sites, &|text| {
                if !is_json && !stop.is_cancelled() {
                    let _ = say(text);
                }
            });
        }
    });
    heard.await.context("the demo failed to start")?
}

/// Waits for the server; returns pipelines that were created after it started.
fn begin(scene: &Scene) -> anyhow::Result<Vec<serde_json::Value>> {
    let Scene { facts, actors } = scene;
    let deadline = Instant::now() + READY_MAX;
    while !announcement::is_up(&facts.base) {
        anyhow::ensure!(Instant::now() < deadline, "the server does not respond at {}", facts.base);
        std::thread::sleep(LOOK_AGAIN);
    }
    match (actors, &facts.sites) {
        (Some((cast, sample)), Some(sites)) => scenario::prepare(cast, sample, sites),
        _ => Ok(Vec::new()),
    }
}

/// Binds the address; falls back to a free port unless the port was requested. Returns the occupied address in that
/// case.
fn bind(wanted: SocketAddr, is_asked_for: bool) -> anyhow::Result<(TcpListener, Option<SocketAddr>)> {
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

/// Replaces an unspecified address with loopback.
pub(super) fn reached(address: SocketAddr) -> SocketAddr {
    let ip = if address.ip().is_unspecified() { IpAddr::from([127, 0, 0, 1]) } else { address.ip() };
    SocketAddr::new(ip, address.port())
}
