//! `berth open`: opens a dashboard page in the browser.

use std::process::{Command, ExitCode, Stdio};

use berth_server::config::local_dashboard;

use crate::client::{Remote, escaped};
use crate::output::{note, say};

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    remote: Remote,
    /// Deployment id, pipeline, or PIPELINE/ENVIRONMENT [default: the home page]
    what: Option<String>,
    /// Print the URL without opening it
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
    let page = at_own_host(page);
    say(&page)?;
    if !args.print {
        let opener = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
        let mut open = Command::new(opener);
        open.arg(&page).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if open.spawn().is_err() {
            note("Cannot open a browser; open the URL yourself.");
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Replaces a loopback address with the dashboard's own host name, to which the server redirects browsers.
fn at_own_host(page: String) -> String {
    let parts = page.strip_prefix("http://").and_then(|rest| rest.split_once('/'));
    let own = parts.and_then(|(authority, path)| Some(format!("{}/{path}", local_dashboard(authority)?)));
    own.unwrap_or(page)
}

#[cfg(test)]
mod tests {
    use super::at_own_host;

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
            assert_eq!(at_own_host(page.to_owned()), expected);
        }
    }
}
