//! `berth open`: the page of something, in the browser.

use std::process::{Command, ExitCode, Stdio};

use crate::client::{Remote, escaped};
use crate::output::{note, say};

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    remote: Remote,
    /// Id of a deployment, a pipeline, or PIPELINE/ENVIRONMENT [default: the first page]
    what: Option<String>,
    /// Only print the address
    #[arg(long)]
    print: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let client = args.remote.client()?;
    let page = match args.what.as_deref() {
        None => client.page(""),
        Some(id) if id.starts_with("dep_") => client.page(&format!("/deployments/{}", escaped(id))),
        Some(id) if id.starts_with("apr_") => client.page("/approvals"),
        Some(what) => match what.split_once('/') {
            Some((pipeline, name)) => {
                client.page(&format!("/environments/{}/{}", escaped(pipeline), escaped(name)))
            }
            None => client.page(&format!("/pipelines/{}", escaped(what))),
        },
    };
    say(&page)?;
    if !args.print {
        let opener = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
        let mut open = Command::new(opener);
        open.arg(&page).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if open.spawn().is_err() {
            note("There is no browser here that can be opened.");
        }
    }
    Ok(ExitCode::SUCCESS)
}
