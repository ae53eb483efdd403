//! `berth repo`: where definitions come from.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use berth_api::repository::{Repository, RepositoryNew};

use crate::client::{Client, Failure, RECORDS_MAX, Remote, Reply, escaped};
use crate::output::time::ago;
use crate::output::{dim, harmless, or_dash};

/// Large ones take longer; then the server goes on without us.
const LOOK_MAX: Duration = Duration::from_secs(30);
/// One that failed before and fails the same way again looks as if nobody had looked.
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
    /// Read pipelines from a repository
    Add {
        /// For example https://git.acme.test/shop.git, or a directory of this machine if the server is on it
        url: String,
        /// Name of the secret it is read with
        #[arg(long)]
        credential: Option<String>,
        /// How often it is looked at
        #[arg(long, value_name = "SECONDS")]
        poll: Option<i64>,
        /// Do not wait until it was looked at
        #[arg(long)]
        detach: bool,
    },
    /// All of them
    List,
    /// Look at it now
    Sync {
        /// Id or address
        repository: String,
        /// Do not wait until it was looked at
        #[arg(long)]
        detach: bool,
    },
    /// Forget it; its pipelines go, too
    Rm {
        /// Id or address
        repository: String,
        /// Also while environments of its pipelines are held
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
            let heading = ["repository", "pipelines", "head", "looked at", "problem", "id"];
            out.table(&found.raw, &heading, &rows, "No repositories yet. `berth repo add URL` adds one.")?;
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
            (Some(_), _) => "is forgotten".to_owned(),
            (None, Some(error)) => format!("cannot be read: {}", harmless(error)),
            (None, None) if it.last_synced_at.is_none() => "is looked at".to_owned(),
            (None, None) => format!("has {}", pipelines(it)),
        };
        let problems =
            it.problems.iter().map(|it| format!("\n{}: {}", harmless(&it.path), harmless(&it.message)));
        let problems: String = problems.collect();
        format!("{} {state}{problems}\n{}", it.url, dim(&client.page("/settings/repositories")))
    })?;
    Ok(ExitCode::SUCCESS)
}

fn path(id: &str) -> String {
    format!("/repositories/{}", escaped(id))
}

fn pipelines(it: &Repository) -> String {
    let slugs: Vec<_> = it.pipelines.iter().map(|pipeline| pipeline.slug.as_str()).collect();
    match slugs.as_slice() {
        [] => "no pipelines: there is no .berth/NAME/pipeline.yaml in its default branch".to_owned(),
        [one] => format!("the pipeline {one}"),
        several => format!("the pipelines {}", several.join(", ")),
    }
}

/// Until the server has read it, or said why it cannot; after a while, as it is then.
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

/// The server stands in another directory: one of ours is named by its whole path.
fn whole(url: &str) -> anyhow::Result<String> {
    let path = std::path::Path::new(url);
    if !path.is_dir() {
        return Ok(url.to_owned());
    }
    let whole = path.canonicalize().with_context(|| format!("cannot read {url}"))?;
    whole.into_os_string().into_string().map_err(|_| anyhow::anyhow!("the path of {url} is not text"))
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
        .ok_or_else(|| Failure::NotFound(format!("no repository {which}; `berth repo list` shows all")))?
        .id)
}
