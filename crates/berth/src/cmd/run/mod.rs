//! `berth run`: runs a stage locally.
//!
//! It starts a temporary server in this process and calls it through the API, so a stage runs on the same engine and
//! runner as on a real server. Differences, such as skipped approvals, are reported.

mod progress;
mod source;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use berth_api::deployment::{DeploymentNew, WireDeployment};
use berth_api::repository::{RepositoryNew, WireRepository};
use berth_api::secret::{SecretNew, WireSecret};
use berth_api::session::{SessionNew, WireSession};
use berth_core::name::{Email, Slug};
use berth_definition::local_run::{
    LocalDefinition, LocalRunError, LocalTarget, LocalTargetChoice, reduce_to_target,
};
use berth_definition::{parse, write};
use berth_engine::vault::WhenMissing;
use berth_server::app::App;
use berth_server::auth::passwords::PasswordCost;
use berth_server::config::AppConfig;
use berth_server::setup::create_organization;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

use self::source::{LocalProject, SourceSnapshot};
use super::pipeline::local;
use super::serve::{ListenSource, listen_and_serve};
use super::signals::{HangupPolicy, stop_on_signal};
use super::{open_store, open_vault, to_cli_error};
use crate::client::{ApiClient, ClientError, ServerLogin, exit_code, percent_encode};
use crate::config::{KubernetesSettings, RunnerSettings, SandboxLevel, ServerSettings};
use crate::embedded;
use crate::logging;
use crate::output::{JsonArgs, dim, print_note};

/// Timeout for the temporary server to sync the temporary repository.
const SYNC_TIMEOUT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// How long to wait for a signal after git has failed: if the user pressed Ctrl-C, git may have received it first.
const SIGNAL_DELAY_MAX: Duration = Duration::from_millis(200);
const ORGANIZATION: &str = "local";
const OWNER: &str = "you@localhost.test";
/// The pipeline tracks this branch, which does not exist, so that no push starts a deployment.
const UNUSED_BRANCH: &str = "nothing";

#[derive(clap::Args)]
pub(crate) struct RunArgs {
    /// Stage [default: the first one]
    #[arg(conflicts_with = "env")]
    stage: Option<String>,
    /// Environment to run instead of a stage
    #[arg(long, value_name = "NAME")]
    env: Option<String>,
    /// Pipeline: name of its directory in .berth [default: the only one]
    #[arg(long, short, value_name = "NAME")]
    pipeline: Option<String>,
    /// Run only this step, and the build if it needs one; can be repeated
    #[arg(long, value_name = "ID")]
    step: Vec<String>,
    /// Secret as NAME=VALUE, or NAME to read the environment variable; can be repeated
    #[arg(long, value_name = "NAME[=VALUE]")]
    secret: Vec<String>,
    /// Directory with .berth [default: this directory or its closest parent]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Sandbox for steps [default: auto]
    #[arg(long, value_name = "LEVEL")]
    sandbox: Option<SandboxLevel>,
}

/// Inputs of a local run.
struct LocalRun {
    project: LocalProject,
    alone: LocalDefinition,
    secrets: Vec<(String, String)>,
    snapshot: SourceSnapshot,
    repository: PathBuf,
}

pub(crate) fn run(args: &RunArgs) -> anyhow::Result<ExitCode> {
    let settings = ServerSettings::load(None)?;
    logging::start(&settings.log, true);
    let project =
        LocalProject::find(args.dir.as_deref().unwrap_or(Path::new(".")), args.pipeline.as_deref())?;
    let (_, source) = local::read_definition(&project.file)?;
    let Some(definition) = parse(&source).definition else {
        return local::validate(&project.display_path(), &JsonArgs::default().output());
    };
    let alone = choose_stage(args, definition)?;
    let secrets = collect_secrets(&args.secret, &alone)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    // From here on a signal shuts down cleanly, even while files are being read.
    let stop = stop_on_signal(&runtime, HangupPolicy::Stop)?;
    let temp = tempfile::Builder::new()
        .prefix("berth-run-")
        .tempdir()
        .context("cannot create a temporary directory")?;
    let repository = temp.path().join("files.git");
    let mut definition = alone.definition.clone();
    definition.tracks = Some(UNUSED_BRANCH.to_owned());
    let snapshot = SourceSnapshot::create(&project, &write(&definition)?, &repository);
    if snapshot.is_err() {
        // If the user pressed Ctrl-C, git may have ended before this process received the signal.
        runtime.block_on(tokio::time::timeout(SIGNAL_DELAY_MAX, stop.cancelled())).ok();
    }
    if stop.is_cancelled() {
        return Ok(report_interrupt());
    }
    // The temporary work directory is not on a volume that pods could mount.
    let runner = RunnerSettings {
        sandbox: args.sandbox.unwrap_or(settings.runner.sandbox),
        kubernetes: KubernetesSettings::default(),
        ..settings.runner
    };
    anyhow::ensure!(
        runner.containers.options().is_some() || !alone.uses_container_engine(),
        "a step runs in a container or builds an image, and no container engine is configured; set BERTH_RUNNER__CONTAINERS__SOCKET to the socket of Podman or Docker"
    );
    let work = LocalRun { project, alone, secrets, snapshot: snapshot?, repository };
    serve_and_deploy(runtime, stop, &temp.path().join("data"), &runner, work)
}

fn choose_stage(
    args: &RunArgs,
    definition: berth_core::pipeline::PipelineDefinition,
) -> anyhow::Result<LocalDefinition> {
    let wanted = match (&args.stage, &args.env) {
        (Some(stage), _) => LocalTargetChoice::Stage(stage),
        (None, Some(name)) => LocalTargetChoice::Environment(name),
        (None, None) => LocalTargetChoice::Any,
    };
    reduce_to_target(definition, wanted, &args.step).map_err(|refused| match refused {
        LocalRunError::Unknown(text) => ClientError::NotFound(text).into(),
        LocalRunError::Unclear(text) => ClientError::Usage(text).into(),
        LocalRunError::Custom(text) => anyhow::anyhow!(text),
    })
}

/// Collects the values of all secrets; fails if one is missing, so that no step runs in vain.
fn collect_secrets(given: &[String], alone: &LocalDefinition) -> anyhow::Result<Vec<(String, String)>> {
    let mut found = Vec::new();
    for text in given {
        found.push(match text.split_once('=') {
            Some((name, value)) => (name.to_owned(), value.to_owned()),
            None => {
                let value = std::env::var(text);
                let value = value.map_err(|_| {
                    ClientError::Usage(format!("--secret {text}: environment variable {text} is not set"))
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
        return Err(ClientError::Usage(format!(
            "missing secrets: {}. Set them as environment variables and add {}",
            missing.join(", "),
            flags.join(" ")
        ))
        .into());
    }
    Ok(found)
}

/// Runs the server on this thread; another thread deploys and then stops it.
fn serve_and_deploy(
    runtime: Runtime,
    stop: CancellationToken,
    data: &Path,
    runner: &RunnerSettings,
    work: LocalRun,
) -> anyhow::Result<ExitCode> {
    let (dir, store) = open_store(data, None)?;
    let vault = open_vault(&store, &dir, None, WhenMissing::Create)?;
    let created = create_organization(
        &store,
        Slug::parse(ORGANIZATION)?,
        Email::parse(OWNER)?,
        PasswordCost::default(),
    )
    .map_err(to_cli_error)?;
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    let config = AppConfig {
        data_dir: dir.path().to_owned(),
        own_dir: dir.own_dir().to_owned(),
        rate_limit: false,
        ..AppConfig::local(listen)
    };
    let labels = config.runner_labels.into_iter().flatten().chain(runner.containers.labels());
    let config = AppConfig { runner_labels: Some(labels.collect()), ..config };
    let confinement = embedded::choose_confinement(&config, runner, &[])?;
    let confinement = Ok(confinement.map_err(anyhow::Error::msg)?);
    let app = App::new(store, vault, config, stop.clone());
    let (address, listening) = mpsc::sync_channel::<SocketAddr>(1);
    let (end, ended) = mpsc::sync_channel(1);
    let token = created.token.reveal().to_owned();
    let asking = move || {
        let Ok(address) = listening.recv() else { return };
        let server = format!("http://{address}");
        let login = ServerLogin { server, organization: ORGANIZATION.into(), token, token_id: None };
        // After an interrupt the receiver has been dropped.
        end.send(deploy_and_follow(&ApiClient::new(login), &work)).ok();
        stop.cancel();
    };
    std::thread::Builder::new().name("ask".into()).spawn(asking).context("cannot start a thread")?;
    listen_and_serve(runtime, app, runner, confinement, ListenSource::At(listen), |config| {
        Ok(address.send(config.listen)?)
    })?;
    ended.try_recv().unwrap_or_else(|_| Ok(report_interrupt()))
}

fn report_interrupt() -> ExitCode {
    print_note("berth: interrupted; all steps were stopped and temporary files removed");
    ExitCode::from(exit_code::INTERRUPTED)
}

fn deploy_and_follow(client: &ApiClient, work: &LocalRun) -> anyhow::Result<ExitCode> {
    let LocalRun { project, alone, secrets, snapshot, repository } = work;
    let (place, slug) = (alone.place.name(), project.slug.as_str());
    print_note(&format!(
        "berth: running {place} of {slug} with {} files from {}",
        snapshot.files,
        project.root.display()
    ));
    for text in &alone.notes {
        print_note(&dim(&format!("berth: {text}")));
    }
    for (name, value) in secrets {
        let body = SecretNew { name: name.clone(), value: value.clone(), description: None, scope: None };
        let kept = client.post::<WireSecret>("/secrets", &body).with_context(|| format!("secret {name}"))?;
        for warning in &kept.data.warnings {
            print_note(&format!("berth: warning: secret {name}: {}", warning.detail));
        }
    }
    let url = repository.to_str().context("the temporary directory is not valid UTF-8")?.to_owned();
    let added: WireRepository = client
        .post(
            "/repositories",
            &RepositoryNew { url, credential: None, poll_seconds: None, is_partial: None },
        )?
        .data;
    wait_for_pipeline(client, &added.id)?;
    let pipeline = format!("/pipelines/{}", percent_encode(slug));
    let commit = Some(snapshot.commit.clone());
    let id = match &alone.place {
        LocalTarget::Stage(_) => {
            let body = DeploymentNew { commit_id: commit, ..DeploymentNew::default() };
            client.post::<WireDeployment>(&format!("{pipeline}/deployments"), &body)?.data.id
        }
        LocalTarget::Environment(name) => {
            let body = SessionNew { commit_id: commit, ..SessionNew::default() };
            let path = format!("{pipeline}/ephemeral-environments/{}/sessions", percent_encode(name));
            let session: WireSession = client.post(&path, &body)?.data;
            session.deployment_id.context("the session has no deployment")?
        }
    };
    progress::follow_to_end(client, &id)
}

fn wait_for_pipeline(client: &ApiClient, repository: &str) -> anyhow::Result<()> {
    let until = Instant::now() + SYNC_TIMEOUT;
    loop {
        let seen: WireRepository = client.get(&format!("/repositories/{}", percent_encode(repository)))?.data;
        if !seen.pipelines.is_empty() {
            return Ok(());
        }
        if let Some(problem) = seen.problems.first() {
            anyhow::bail!("invalid definition: {}", problem.message);
        }
        if let Some(why) = seen.error {
            anyhow::bail!("cannot read the files: {why}");
        }
        anyhow::ensure!(
            Instant::now() < until,
            "timed out reading the files after {} s",
            SYNC_TIMEOUT.as_secs()
        );
        std::thread::sleep(POLL_INTERVAL);
    }
}
