//! `berth repo`: repositories with pipeline definitions.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use berth_api::repository::{Repository, RepositoryNew};

use crate::client::{Client, Failure, RECORDS_MAX, Remote, Reply, escaped};
use crate::output::time::ago;
use crate::output::{dim, harmless, or_dash};

/// The server continues after this timeout.
const LOOK_MAX: Duration = Duration::from_secs(30);
/// Shorter, because a second failure with the same error cannot be told from no sync at all.
const LOOK_FAILING_MAX: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(100);

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    remote: Remote,
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
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
    /// Remove a repository; pipelines stay
    Rm {
        /// Repository id or URL
        repository: String,
        /// Remove it even if environments of its pipelines are held
        #[arg(long)]
        force: bool,
    },
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let client = args.remote.client()?;
    let out = args.remote.output();
    let told = match &args.command {
        Command::Add { url, credential, poll, detach } => {
            let body =
                RepositoryNew { url: whole(url)?, credential: credential.clone(), poll_seconds: *poll };
            let added = client.post::<Repository>("/repositories", &body)?;
            if *detach { added } else { looked_at(&client, &added)? }
        }
        Command::List => {
            let found = client.list::<Repository>("/repositories", RECORDS_MAX)?;
            let rows: Vec<_> = found.data.iter().map(row).collect();
            let heading = ["repository", "pipelines", "head", "synced", "error", "id"];
            out.table(&found.raw, &heading, &rows, "No repositories. Add one with `berth repo add URL`.")?;
            return Ok(ExitCode::SUCCESS);
        }
        Command::Sync { repository, detach } => {
            let id = find(&client, repository)?;
            let asked = client.post(&format!("{}/sync", path(&id)), &serde_json::json!({}))?;
            if *detach { asked } else { looked_at(&client, &asked)? }
        }
        Command::Rm { repository, force } => {
            let id = find(&client, repository)?;
            client.delete(&format!("{}?force={force}", path(&id)))?
        }
    };
    out.told(&told.raw, || {
        let it = &told.data;
        let state = match (&it.deleted_at, &it.error) {
            (Some(_), _) => "removed".to_owned(),
            (None, Some(error)) => format!("sync failed: {}", harmless(error)),
            (None, None) if it.last_synced_at.is_none() => "sync pending".to_owned(),
            (None, None) => format!("synced, {}", pipelines(it)),
        };
        let problems =
            it.problems.iter().map(|it| format!("\n{}: {}", harmless(&it.path), harmless(&it.message)));
        let problems: String = problems.collect();
        format!("{}: {state}{problems}\n{}", it.url, dim(&client.page("/settings/repositories")))
    })?;
    Ok(ExitCode::SUCCESS)
}

fn path(id: &str) -> String {
    format!("/repositories/{}", escaped(id))
}

fn pipelines(it: &Repository) -> String {
    let slugs: Vec<_> = it.pipelines.iter().map(|pipeline| pipeline.slug.as_str()).collect();
    match slugs.as_slice() {
        [] => "no pipelines found: add .berth/NAME/pipeline.yaml to the default branch".to_owned(),
        [one] => format!("pipeline {one}"),
        several => format!("pipelines {}", several.join(", ")),
    }
}

/// Waits until the repository was synced or failed to; returns its current state after a timeout.
fn looked_at(client: &Client, asked: &Reply<Repository>) -> anyhow::Result<Reply<Repository>> {
    let before = &asked.data;
    let until = Instant::now() + if before.error.is_some() { LOOK_FAILING_MAX } else { LOOK_MAX };
    loop {
        let seen = client.get::<Repository>(&path(&before.id))?;
        let is_read = seen.data.last_synced_at != before.last_synced_at;
        if is_read || seen.data.error != before.error || Instant::now() > until {
            return Ok(seen);
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

/// Makes a local path absolute, because the server has another working directory.
fn whole(url: &str) -> anyhow::Result<String> {
    let path = std::path::Path::new(url);
    if !path.is_dir() {
        return Ok(url.to_owned());
    }
    let whole = path.canonicalize().with_context(|| format!("cannot read {url}"))?;
    whole.into_os_string().into_string().map_err(|_| anyhow::anyhow!("the path of {url} is not valid UTF-8"))
}

fn row(it: &Repository) -> Vec<String> {
    let slugs: Vec<_> = it.pipelines.iter().map(|pipeline| pipeline.slug.as_str()).collect();
    let problem = it.error.as_deref().or_else(|| it.problems.first().map(|problem| problem.message.as_str()));
    vec![
        it.url.clone(),
        or_dash(Some(&slugs.join(", "))),
        or_dash(it.head.as_deref().map(|head| &head[..head.len().min(10)])),
        or_dash(it.last_synced_at.as_deref().map(ago).as_deref()),
        or_dash(problem.map(harmless).as_deref()),
        it.id.clone(),
    ]
}

fn find(client: &Client, which: &str) -> anyhow::Result<String> {
    if which.starts_with("rep_") {
        return Ok(which.to_owned());
    }
    let all: Vec<Repository> = client.list("/repositories", RECORDS_MAX)?.data;
    let found = all.into_iter().find(|it| it.url == which);
    Ok(found
        .ok_or_else(|| Failure::NotFound(format!("no repository {which}; list them with `berth repo list`")))?
        .id)
}
