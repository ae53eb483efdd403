//! Instructions for creating a webhook on a forge by hand.

use berth_core::forge::ForgeKind;
use berth_core::repository::{GitTransport, RemoteUrl};

use super::location::check_link;

/// Returns what to enter where, one step per line.
pub fn setup_steps(forge: ForgeKind, repository: &RemoteUrl, hook_url: &str) -> Vec<String> {
    let (page, url, secret, rest) = match forge {
        ForgeKind::GitHub => (
            "settings/hooks/new",
            "Payload URL",
            "Secret",
            [
                "Content type: application/json",
                "Select individual events: Pushes, Pull requests, Issue comments",
            ],
        ),
        ForgeKind::GitLab => (
            "-/hooks",
            "URL",
            "Secret token",
            ["Trigger: Push events, Comments, Merge request events", "Enable SSL verification: yes"],
        ),
        ForgeKind::Gitea => (
            "settings/hooks/gitea/new",
            "Target URL",
            "Secret",
            [
                "HTTP method: POST, content type: application/json",
                "Custom events: Push, Pull request, Pull request labeled, Pull request synchronized, Pull request comment",
            ],
        ),
        ForgeKind::Bitbucket => (
            "admin/webhooks/new",
            "URL",
            "Secret",
            [
                "Title: Berth",
                "Choose from a full list of triggers: Push; pull request Created, Updated, Merged, Declined, Comment created",
            ],
        ),
    };
    let place = match web_page(repository) {
        Some(web) => format!("Open {web}/{page}"),
        None => "Open the settings of the repository and add a webhook".to_owned(),
    };
    let mut steps =
        vec![place, format!("{url}: {hook_url}"), format!("{secret}: the secret of this connection")];
    steps.extend(rest.map(str::to_owned));
    steps
}

/// Returns the URL of the repository's page, if it can be derived from its git URL.
fn web_page(repository: &RemoteUrl) -> Option<String> {
    let origin = match (repository.transport(), repository.origin()) {
        (GitTransport::Https | GitTransport::Http, Some(origin)) => origin.to_ascii_lowercase(),
        _ => format!("https://{}", repository.host()?),
    };
    check_link(&format!("{origin}/{}", repository.forge_path()?))
}
