//! `berth run`: a stage of the definition here, on this machine, without a server.
//!
//! It is the same engine and the same runner: a server of its own in a directory that goes away, asked through its
//! API like any other. So nothing can work here and be otherwise there, except what is left out and told.

mod progress;
mod source;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use berth_api::deployment::{Deployment, New};
use berth_api::repository::{Repository, RepositoryNew};
use berth_api::secret::{Secret, SecretNew};
use berth_api::session::{Session, SessionNew};
use berth_core::name::{Email, Slug};
use berth_definition::alone::{Alone, Place, Refused, Wanted, alone};
use berth_definition::{parse, write};
use berth_engine::vault::WhenMissing;
use berth_server::app::App;
use berth_server::auth::passwords::PasswordCost;
use berth_server::config::Config;
use berth_server::setup::create_organization;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

use self::source::{Project, Snapshot};
use super::pipeline::local;
use super::serve::{Hangup, Listen, listen_and_serve, stop_on_signal};
use super::{open, open_vault, told};
use crate::client::{Client, Failure, Login, escaped, exit_code};
use crate::config::{RunnerSettings, SandboxLevel, Settings};
use crate::embedded;
use crate::logging;
use crate::output::{dim, note};

/// Until our own server has read our own repository.
const SYNC_MAX: Duration = Duration::from_secs(60);
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// From the end of a program that a signal has ended until we have heard the signal ourselves.
const HEARD_MAX: Duration = Duration::from_millis(200);
const ORGANIZATION: &str = "local";
const OWNER: &str = "you@localhost.test";
/// Nothing is to start by itself: no branch is called this.
const TRACKED: &str = "nothing";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The stage [default: the first one]
    #[arg(conflicts_with = "env")]
    stage: Option<String>,
    /// One of its environments, in place of a stage
    #[arg(long, value_name = "NAME")]
    env: Option<String>,
    /// The pipeline: the name of its directory below .berth [default: the only one]
    #[arg(long, short, value_name = "NAME")]
    pipeline: Option<String>,
    /// Only this step, with the build if it uses one; may be given several times
    #[arg(long, value_name = "ID")]
    step: Vec<String>,
    /// A secret: NAME=VALUE, or NAME for the environment variable of that name; may be given several times
    #[arg(long, value_name = "NAME[=VALUE]")]
    secret: Vec<String>,
    /// Look here for .berth [default: this directory, then those above it]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// How far steps are kept apart from this machine [default: auto]
    #[arg(long, value_name = "LEVEL")]
    sandbox: Option<SandboxLevel>,
}

/// Everything that is known before anything runs.
struct Work {
    project: Project,
    alone: Alone,
    secrets: Vec<(String, String)>,
    snapshot: Snapshot,
    repository: PathBuf,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let settings = Settings::load(None)?;
    logging::start(&settings.log, true);
    let project = Project::find(args.dir.as_deref().unwrap_or(Path::new(".")), args.pipeline.as_deref())?;
    let (_, source) = local::read(&project.file)?;
    let Some(definition) = parse(&source).definition else {
        return local::validate(&project.shown_file(), false);
    };
    let alone = chosen(args, definition)?;
    let secrets = secrets(&args.secret, &alone)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    // From here on a signal ends it in order: nothing is left, also of files that are still being taken.
    let stop = stop_on_signal(&runtime, Hangup::Ends)?;
    let temp = tempfile::Builder::new().prefix("berth-run-").tempdir().context("cannot make a directory")?;
    let repository = temp.path().join("files.git");
    let mut definition = alone.definition.clone();
    definition.tracks = Some(TRACKED.to_owned());
    let snapshot = Snapshot::make(&project, &write(&definition)?, &repository);
    if snapshot.is_err() {
        // Ctrl-C ends git as well, and may be heard there first.
        runtime.block_on(tokio::time::timeout(HEARD_MAX, stop.cancelled())).ok();
    }
    if stop.is_cancelled() {
        return Ok(interrupted());
    }
    let runner =
        RunnerSettings { sandbox: args.sandbox.unwrap_or(settings.runner.sandbox), ..settings.runner };
    let work = Work { project, alone, secrets, snapshot: snapshot?, repository };
    serve_and(runtime, stop, &temp.path().join("data"), &runner, work)
}

fn chosen(args: &Args, definition: berth_core::pipeline::Definition) -> anyhow::Result<Alone> {
    let wanted = match (&args.stage, &args.env) {
        (Some(stage), _) => Wanted::Stage(stage),
        (None, Some(name)) => Wanted::Environment(name),
        (None, None) => Wanted::Any,
    };
    alone(definition, wanted, &args.step).map_err(|refused| match refused {
        Refused::Unknown(text) => Failure::NotFound(text).into(),
        Refused::Unclear(text) => Failure::Unclear(text).into(),
        Refused::Custom(text) => anyhow::anyhow!(text),
    })
}

/// Everything a step is given is here before the first one begins.
fn secrets(given: &[String], alone: &Alone) -> anyhow::Result<Vec<(String, String)>> {
    let mut found = Vec::new();
    for text in given {
        found.push(match text.split_once('=') {
            Some((name, value)) => (name.to_owned(), value.to_owned()),
            None => {
                let value = std::env::var(text);
                let value = value.map_err(|_| {
                    Failure::Unclear(format!("--secret {text}: there is no environment variable {text}"))
                })?;
                (text.clone(), value)
            }
        });
    }
    let is_given = |name: &str| found.iter().any(|(given, _)| given == name);
    let missing: Vec<String> =
        alone.secrets().iter().map(ToString::to_string).filter(|name| !is_given(name)).collect();
    if !missing.is_empty() {
        let flags: Vec<String> = missing.iter().map(|name| format!("--secret {name}")).collect();
        return Err(Failure::Unclear(format!(
            "these secrets are used and were not given: {}. Set them in the environment and add {}",
            missing.join(", "),
            flags.join(" ")
        ))
        .into());
    }
    Ok(found)
}

/// The server is this thread's; whoever asks it is another's, and ends it.
fn serve_and(
    runtime: Runtime,
    stop: CancellationToken,
    data: &Path,
    runner: &RunnerSettings,
    work: Work,
) -> anyhow::Result<ExitCode> {
    let (dir, store) = open(data, None)?;
    let vault = open_vault(&store, &dir, None, WhenMissing::Create)?;
    let created = create_organization(
        &store,
        Slug::parse(ORGANIZATION)?,
        Email::parse(OWNER)?,
        PasswordCost::default(),
    )
    .map_err(told)?;
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    let config = Config {
        data_dir: dir.path().to_owned(),
        own_dir: dir.own().to_owned(),
        rate_limit: false,
        ..Config::local(listen)
    };
    let confinement = embedded::confine(&config, runner, &[])?;
    let confinement = Ok(confinement.map_err(anyhow::Error::msg)?);
    let app = App::new(store, vault, config, stop.clone());
    let (address, listening) = mpsc::sync_channel::<SocketAddr>(1);
    let (end, ended) = mpsc::sync_channel(1);
    let token = created.token.reveal().to_owned();
    let asking = move || {
        let Ok(address) = listening.recv() else { return };
        let login = Login { server: format!("http://{address}"), organization: ORGANIZATION.into(), token };
        // Whoever waited may be gone, interrupted.
        end.send(ask(&Client::new(login), &work)).ok();
        stop.cancel();
    };
    std::thread::Builder::new().name("ask".into()).spawn(asking).context("cannot start a thread")?;
    listen_and_serve(runtime, app, runner, confinement, Listen::At(listen), |config| {
        Ok(address.send(config.listen)?)
    })?;
    ended.try_recv().unwrap_or_else(|_| Ok(interrupted()))
}

fn interrupted() -> ExitCode {
    note("berth: interrupted: everything was stopped, and nothing of it is left");
    ExitCode::from(exit_code::INTERRUPTED)
}

fn ask(client: &Client, work: &Work) -> anyhow::Result<ExitCode> {
    let Work { project, alone, secrets, snapshot, repository } = work;
    let (place, slug) = (alone.place.name(), project.slug.as_str());
    note(&format!("berth: {place} of {slug}, with {} files of {}", snapshot.files, project.root.display()));
    for text in &alone.notes {
        note(&dim(&format!("berth: {text}")));
    }
    for (name, value) in secrets {
        let body = SecretNew { name: name.clone(), value: value.clone(), description: None, scope: None };
        let kept = client.post::<Secret>("/secrets", &body).with_context(|| format!("the secret {name}"))?;
        for warning in &kept.data.warnings {
            note(&format!("berth: the secret {name}: {}", warning.detail));
        }
    }
    let url = repository.to_str().context("the path of temporary files is not text")?.to_owned();
    let added: Repository =
        client.post("/repositories", &RepositoryNew { url, credential: None, poll_seconds: None })?.data;
    wait_for_pipeline(client, &added.id)?;
    let pipeline = format!("/pipelines/{}", escaped(slug));
    let commit = Some(snapshot.commit.clone());
    let id = match &alone.place {
        Place::Stage(_) => {
            let body = New { commit_id: commit, ..New::default() };
            client.post::<Deployment>(&format!("{pipeline}/deployments"), &body)?.data.id
        }
        Place::Environment(name) => {
            let body = SessionNew { commit_id: commit, ..SessionNew::default() };
            let path = format!("{pipeline}/ephemeral-environments/{}/sessions", escaped(name));
            let session: Session = client.post(&path, &body)?.data;
            session.deployment_id.context("nothing was deployed")?
        }
    };
    progress::to_the_end(client, &id)
}

fn wait_for_pipeline(client: &Client, repository: &str) -> anyhow::Result<()> {
    let until = Instant::now() + SYNC_MAX;
    loop {
        let seen: Repository = client.get(&format!("/repositories/{}", escaped(repository)))?.data;
        if !seen.pipelines.is_empty() {
            return Ok(());
        }
        if let Some(problem) = seen.problems.first() {
            anyhow::bail!("the definition cannot be used: {}", problem.message);
        }
        if let Some(why) = seen.error {
            anyhow::bail!("the files cannot be read: {why}");
        }
        anyhow::ensure!(Instant::now() < until, "the files were not read within {} s", SYNC_MAX.as_secs());
        std::thread::sleep(LOOK_AGAIN);
    }
}
