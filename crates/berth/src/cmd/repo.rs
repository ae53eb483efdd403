//! `berth repo`: repositories with pipeline definitions.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use berth_api::repository::{RepositoryNew, WireRepository};

use super::repo_apps::{delete_app, list_apps};
use super::repo_connection::{ConnectionAction, list_deliveries};
use crate::client::{ApiClient, ApiReply, ClientError, RECORDS_MAX, RemoteArgs, percent_encode};
use crate::output::time::format_ago;
use crate::output::{dim, or_dash, short_commit, strip_control_chars};

/// How long to wait for a sync. After that, the server continues the sync in the background.
const SYNC_TIMEOUT: Duration = Duration::from_secs(30);
/// Shorter timeout, used if the previous sync failed. If the new one fails with the same error, the response does not
/// change, and this client cannot tell that the sync has ended.
const FAILING_SYNC_TIMEOUT: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(100);

#[derive(clap::Args)]
pub(crate) struct RepoArgs {
    #[command(flatten)]
    remote: RemoteArgs,
    #[command(subcommand)]
    command: RepoCommand,
}

#[derive(clap::Subcommand)]
enum RepoCommand {
    /// Add a repository and its pipelines
    Add {
        /// Git URL, for example https://git.acme.test/shop.git; a local directory if the server runs on this machine
        url: String,
        /// Name of the secret with the repository's credential
        #[arg(long)]
        credential: Option<String>,
        /// Poll interval
        #[arg(long, value_name = "SECONDS")]
        poll: Option<i64>,
        /// Fetch the content of files only when it is needed, for large repositories
        #[arg(long)]
        partial: bool,
        /// Do not wait for the first sync
        #[arg(long)]
        detach: bool,
    },
    /// List repositories
    List,
    /// Sync a repository now
    Sync {
        /// Repository id or URL
        repository: String,
        /// Do not wait for the sync
        #[arg(long)]
        detach: bool,
    },
    /// Connect a repository to its forge, so that pushes and pull requests arrive at once
    Connect {
        /// Repository id or URL
        repository: String,
        /// Kind of forge: github, gitlab, gitea or bitbucket; needed if it cannot be recognized by its host name
        #[arg(long)]
        forge: Option<String>,
        /// Connect it through a GitHub App, which Berth creates the first time
        #[arg(long, conflicts_with = "forge")]
        app: bool,
        /// Show the connection
        #[arg(long, conflicts_with_all = ["app", "forge", "test", "rotate", "remove"])]
        show: bool,
        /// Ask the forge for a test delivery
        #[arg(long, conflicts_with_all = ["app", "forge", "rotate", "remove"])]
        test: bool,
        /// Replace the secret of the webhook
        #[arg(long, conflicts_with_all = ["app", "forge", "remove"])]
        rotate: bool,
        /// Disconnect the repository
        #[arg(long, conflicts_with_all = ["app", "forge"])]
        remove: bool,
    },
    /// List the GitHub Apps of the organization, or delete one
    Apps {
        /// Delete the app with this id; no repository may be connected through it
        #[arg(long, value_name = "APP")]
        delete: Option<String>,
    },
    /// List what the forge of a repository has sent
    Deliveries {
        /// Repository id or URL
        repository: String,
    },
    /// Remove a repository; pipelines stay
    Rm {
        /// Repository id or URL
        repository: String,
        /// Remove it even if environments of its pipelines are held
        #[arg(long)]
        force: bool,
    },
}

pub(crate) fn run(args: &RepoArgs) -> anyhow::Result<ExitCode> {
    let client = args.remote.client()?;
    let out = args.remote.output();
    let told = match &args.command {
        RepoCommand::Add { url, credential, poll, partial, detach } => {
            let body = RepositoryNew {
                url: absolute_url(url)?,
                credential: credential.clone(),
                poll_seconds: *poll,
                is_partial: partial.then_some(true),
            };
            let added = client.post::<WireRepository>("/repositories", &body)?;
            if *detach { added } else { wait_for_sync(&client, &added)? }
        }
        RepoCommand::List => {
            let found = client.list::<WireRepository>("/repositories", RECORDS_MAX)?;
            let rows: Vec<_> = found.data.iter().map(table_row).collect();
            let heading = ["repository", "pipelines", "head", "synced", "error", "id"];
            out.print_table(
                &found.raw,
                &heading,
                &rows,
                "No repositories. Add one with `berth repo add URL`.",
            )?;
            return Ok(ExitCode::SUCCESS);
        }
        RepoCommand::Sync { repository, detach } => {
            let id = find_repository_id(&client, repository)?;
            let asked = client.post(&format!("{}/sync", repository_path(&id)), &serde_json::json!({}))?;
            if *detach { asked } else { wait_for_sync(&client, &asked)? }
        }
        RepoCommand::Connect { repository, forge, app, show, test, rotate, remove } => {
            let id = find_repository_id(&client, repository)?;
            let path = format!("{}/connection", repository_path(&id));
            let action = match (show, test, rotate, remove) {
                (true, ..) => ConnectionAction::Show,
                (_, true, ..) => ConnectionAction::Test,
                (_, _, true, _) => ConnectionAction::Rotate,
                (.., true) => ConnectionAction::Disconnect,
                _ if *app => ConnectionAction::ConnectWithApp,
                _ => ConnectionAction::Connect { forge: forge.as_deref() },
            };
            action.run(&client, &out, &path)?;
            return Ok(ExitCode::SUCCESS);
        }
        RepoCommand::Apps { delete } => {
            match delete {
                Some(app) => delete_app(&client, &out, app)?,
                None => list_apps(&client, &out)?,
            }
            return Ok(ExitCode::SUCCESS);
        }
        RepoCommand::Deliveries { repository } => {
            let id = find_repository_id(&client, repository)?;
            list_deliveries(&client, &out, &format!("{}/deliveries", repository_path(&id)))?;
            return Ok(ExitCode::SUCCESS);
        }
        RepoCommand::Rm { repository, force } => {
            let id = find_repository_id(&client, repository)?;
            client.delete(&format!("{}?force={force}", repository_path(&id)))?
        }
    };
    out.print_reply(&told.raw, || {
        let it = &told.data;
        let state = match (&it.deleted_at, &it.error) {
            (Some(_), _) => "removed".to_owned(),
            (None, Some(error)) => format!("sync failed: {}", strip_control_chars(error)),
            (None, None) if it.last_synced_at.is_none() => "sync pending".to_owned(),
            (None, None) => format!("synced, {}", describe_pipelines(it)),
        };
        let problems = it
            .problems
            .iter()
            .map(|it| format!("\n{}: {}", strip_control_chars(&it.path), strip_control_chars(&it.message)));
        let problems: String = problems.collect();
        format!("{}: {state}{problems}\n{}", it.url, dim(&client.dashboard_url("/settings/repositories")))
    })?;
    Ok(ExitCode::SUCCESS)
}

fn repository_path(id: &str) -> String {
    format!("/repositories/{}", percent_encode(id))
}

fn describe_pipelines(it: &WireRepository) -> String {
    let slugs: Vec<_> = it.pipelines.iter().map(|pipeline| pipeline.slug.as_str()).collect();
    match slugs.as_slice() {
        [] => "no pipelines found".to_owned(),
        [one] => format!("pipeline {one}"),
        several => format!("pipelines {}", several.join(", ")),
    }
}

/// Waits until the repository has been synced or the sync has failed. After the timeout, returns the repository as it
/// is.
fn wait_for_sync(
    client: &ApiClient,
    asked: &ApiReply<WireRepository>,
) -> anyhow::Result<ApiReply<WireRepository>> {
    let before = &asked.data;
    let until = Instant::now() + if before.error.is_some() { FAILING_SYNC_TIMEOUT } else { SYNC_TIMEOUT };
    loop {
        let seen = client.get::<WireRepository>(&repository_path(&before.id))?;
        let is_read = seen.data.last_synced_at != before.last_synced_at;
        if is_read || seen.data.error != before.error || Instant::now() > until {
            return Ok(seen);
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Makes a local path absolute, because the server's working directory differs from the caller's.
fn absolute_url(url: &str) -> anyhow::Result<String> {
    let path = std::path::Path::new(url);
    if !path.is_dir() {
        return Ok(url.to_owned());
    }
    let whole = path.canonicalize().with_context(|| format!("cannot read {url}"))?;
    whole.into_os_string().into_string().map_err(|_| anyhow::anyhow!("the path of {url} is not valid UTF-8"))
}

fn table_row(it: &WireRepository) -> Vec<String> {
    let slugs: Vec<_> = it.pipelines.iter().map(|pipeline| pipeline.slug.as_str()).collect();
    let problem = it.error.as_deref().or_else(|| it.problems.first().map(|problem| problem.message.as_str()));
    vec![
        it.url.clone(),
        or_dash(Some(&slugs.join(", "))),
        or_dash(it.head.as_deref().map(short_commit)),
        or_dash(it.last_synced_at.as_deref().map(format_ago).as_deref()),
        or_dash(problem.map(strip_control_chars).as_deref()),
        it.id.clone(),
    ]
}

/// Finds the id of the repository with this id or URL.
pub(super) fn find_repository_id(client: &ApiClient, which: &str) -> anyhow::Result<String> {
    if which.starts_with("rep_") {
        return Ok(which.to_owned());
    }
    let all: Vec<WireRepository> = client.list("/repositories", RECORDS_MAX)?.data;
    let found = all.into_iter().find(|it| it.url == which);
    Ok(found
        .ok_or_else(|| {
            ClientError::NotFound(format!("no repository {which}; list them with `berth repo list`"))
        })?
        .id)
}
