//! `berth open`: opens a dashboard page in the browser.

use std::process::{Command, ExitCode, Stdio};

use berth_api::approval::WireApproval;
use berth_api::deployed::DeployedPipeline;
use berth_server::config::local_dashboard;
use clap_complete::ArgValueCandidates;

use super::reference::resolve_exact_deployment;
use super::watch;
use crate::client::{ApiClient, ClientError, RECORDS_MAX, RemoteArgs, percent_encode};
use crate::complete;
use crate::output::{print_line, print_note, strip_control_chars};

#[derive(clap::Args)]
pub(crate) struct OpenArgs {
    #[command(flatten)]
    remote: RemoteArgs,
    /// Pipeline, environment, deployment (id or PIPELINE#NUMBER) or approval [default: the home page]
    #[arg(add = ArgValueCandidates::new(complete::pages))]
    what: Option<String>,
    /// Print the URL without opening it
    #[arg(long)]
    print: bool,
}

pub(crate) fn run(args: &OpenArgs) -> anyhow::Result<ExitCode> {
    let client = args.remote.client()?;
    let path = args.what.as_deref().map_or_else(|| Ok(String::new()), |what| find_page(&client, what))?;
    let page = use_dashboard_host(client.dashboard_url(&path));
    print_line(&page)?;
    if !args.print && !open_in_browser(&page) {
        print_note("Cannot open a browser; open the URL yourself.");
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the path of the page of a pipeline, an environment, a deployment or an approval.
fn find_page(client: &ApiClient, what: &str) -> anyhow::Result<String> {
    let environment_page = |pipeline: &str, name: &str| {
        format!("/environments/{}/{}", percent_encode(pipeline), percent_encode(name))
    };
    if what.starts_with("dep_") || what.contains('#') {
        return Ok(watch::deployment_path(&resolve_exact_deployment(client, what)?));
    }
    if what.starts_with("apr_") {
        let path = format!("/approvals/{}", percent_encode(what));
        return Ok(watch::deployment_path(&client.get::<WireApproval>(&path)?.data.deployment_id));
    }
    if let Some((pipeline, name)) = what.split_once('/') {
        return Ok(environment_page(pipeline, name));
    }
    let all: Vec<DeployedPipeline> = client.list("/deployed", RECORDS_MAX)?.data;
    if all.iter().any(|it| it.slug == what || it.pipeline_id == what) {
        return Ok(format!("/pipelines/{}", percent_encode(what)));
    }
    let has = |it: &&DeployedPipeline| it.environments.iter().any(|env| env.env_name == what);
    match all.iter().filter(has).collect::<Vec<_>>().as_slice() {
        [one] => Ok(environment_page(&one.slug, what)),
        [] => {
            let text = format!("no pipeline or environment {}", strip_control_chars(what));
            Err(ClientError::NotFound(text).into())
        }
        several => {
            let names: Vec<_> = several.iter().map(|it| format!("{}/{what}", it.slug)).collect();
            let text =
                format!("several pipelines have an environment {what}; specify {}", names.join(" or "));
            Err(ClientError::Usage(text).into())
        }
    }
}

/// Opens a page with the program in `BROWSER`, or with the system's default browser. Returns whether the program started.
pub(crate) fn open_in_browser(page: &str) -> bool {
    let default = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let chosen = std::env::var_os("BROWSER").filter(|it| !it.is_empty());
    let mut open = Command::new(chosen.unwrap_or_else(|| default.into()));
    open.arg(page).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    open.spawn().is_ok()
}

/// Replaces a loopback address with the dashboard's host name. The server would redirect browsers there anyway.
fn use_dashboard_host(page: String) -> String {
    let parts = page.strip_prefix("http://").and_then(|rest| rest.split_once('/'));
    let own = parts.and_then(|(authority, path)| Some(format!("{}/{path}", local_dashboard(authority)?)));
    own.unwrap_or(page)
}

#[cfg(test)]
mod tests {
    use super::use_dashboard_host;

    #[test]
    fn local_page_uses_the_dashboard_host() {
        for (page, expected) in [
            ("http://127.0.0.1:8080/o/acme", "http://berth.localhost:8080/o/acme"),
            ("http://localhost/o/acme", "http://berth.localhost/o/acme"),
            ("http://[::1]:8080/o/acme", "http://berth.localhost:8080/o/acme"),
            ("http://127.0.0.3:8080/o/acme", "http://127.0.0.3:8080/o/acme"),
            ("https://127.0.0.1:8443/o/acme", "https://127.0.0.1:8443/o/acme"),
            ("https://berth.acme.test/o/acme", "https://berth.acme.test/o/acme"),
        ] {
            assert_eq!(use_dashboard_host(page.to_owned()), expected);
        }
    }
}
