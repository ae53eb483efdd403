//! `berth open`: opens a dashboard page in the browser.

use std::process::{Command, ExitCode, Stdio};

use berth_server::config::local_dashboard;

use crate::client::{RemoteArgs, percent_encode};
use crate::output::{print_line, print_note};

#[derive(clap::Args)]
pub(crate) struct OpenArgs {
    #[command(flatten)]
    remote: RemoteArgs,
    /// Deployment id, pipeline, or PIPELINE/ENVIRONMENT [default: the home page]
    what: Option<String>,
    /// Print the URL without opening it
    #[arg(long)]
    print: bool,
}

pub(crate) fn run(args: &OpenArgs) -> anyhow::Result<ExitCode> {
    let client = args.remote.client()?;
    let page = match args.what.as_deref() {
        None => client.dashboard_url(""),
        Some(id) if id.starts_with("dep_") => {
            client.dashboard_url(&format!("/deployments/{}", percent_encode(id)))
        }
        Some(id) if id.starts_with("apr_") => client.dashboard_url("/approvals"),
        Some(what) => match what.split_once('/') {
            Some((pipeline, name)) => client.dashboard_url(&format!(
                "/environments/{}/{}",
                percent_encode(pipeline),
                percent_encode(name)
            )),
            None => client.dashboard_url(&format!("/pipelines/{}", percent_encode(what))),
        },
    };
    let page = use_dashboard_host(page);
    print_line(&page)?;
    if !args.print && !open_in_browser(&page) {
        print_note("Cannot open a browser; open the URL yourself.");
    }
    Ok(ExitCode::SUCCESS)
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
