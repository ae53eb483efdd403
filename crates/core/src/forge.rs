//! What Berth knows from a forge (GitHub, GitLab, Gitea, Bitbucket): connections of repositories, and pull requests.
//!
//! Webhooks and polling only update these records. A background job compares them with the sessions and deployments,
//! and acts. So lost, repeated and reordered deliveries lead to the same result.

pub mod command;
pub mod outbox;
pub mod progress;

use std::fmt;

use crate::id::{
    DeploymentId, EnvironmentId, ForgeAppId, HookId, PipelineId, RepositoryId, SessionId, TicketId, UserId,
};
use crate::pipeline::model::ClaimTrigger;
use crate::time::Timestamp;

/// Maximum length of a title that is stored.
pub const TITLE_CHARS_MAX: usize = 300;
/// Maximum number of labels that are stored.
pub const LABELS_MAX: usize = 100;
/// GitHub's public server.
const GITHUB_ORIGIN: &str = "https://github.com";
/// Maximum length of a comment that is read as a command.
pub const COMMAND_BYTES_MAX: usize = 2_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForgeKind {
    GitHub,
    GitLab,
    /// Also Forgejo.
    Gitea,
    Bitbucket,
}

impl ForgeKind {
    pub const ALL: &'static [ForgeKind] =
        &[ForgeKind::GitHub, ForgeKind::GitLab, ForgeKind::Gitea, ForgeKind::Bitbucket];

    pub const fn as_str(self) -> &'static str {
        match self {
            ForgeKind::GitHub => "github",
            ForgeKind::GitLab => "gitlab",
            ForgeKind::Gitea => "gitea",
            ForgeKind::Bitbucket => "bitbucket",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.as_str() == name)
    }
}

impl fmt::Display for ForgeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The connection of a repository to its forge: the webhook that the forge sends events to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForgeConnection {
    pub repository: RepositoryId,
    /// Part of the webhook's URL.
    pub hook: HookId,
    pub forge: ForgeKind,
    /// The GitHub App through which the repository is connected. Then it has no webhook of its own.
    pub app: Option<ForgeAppId>,
    /// The service account that holds the sessions of pull requests.
    pub account: UserId,
    /// The webhook's id on the forge, if Berth created it there.
    pub forge_hook: Option<String>,
    /// When the first delivery with a valid signature arrived.
    pub verified_at: Option<Timestamp>,
    /// Why the webhook could not be created.
    pub error: Option<String>,
    pub version: i64,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// A GitHub App that Berth created for an organization. It connects the repositories of the account that owns it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForgeApp {
    pub id: ForgeAppId,
    /// Scheme, host and port of the forge.
    pub origin: String,
    /// Base URL of the forge's API, without a trailing slash.
    pub api: String,
    /// Part of the URL of the app's webhook.
    pub hook: HookId,
    /// The forge's id of the app.
    pub forge_app: String,
    /// The app's name in URLs of the forge.
    pub slug: String,
    pub name: String,
    /// When the app was seen installed. `None` while it is not.
    pub installed_at: Option<Timestamp>,
    /// When the forge last reported a change of the installation. Access tokens from before are not used any more.
    pub installation_changed_at: Timestamp,
    pub created_at: Timestamp,
}

impl ForgeApp {
    /// URL of the page on the forge where the app is installed, or its repositories are chosen.
    pub fn install_url(&self) -> String {
        // GitHub Enterprise Server uses another path.
        let apps = if self.origin == GITHUB_ORIGIN || self.origin.ends_with(".ghe.com") {
            "apps"
        } else {
            "github-apps"
        };
        format!("{}/{apps}/{}/installations/new", self.origin, self.slug)
    }
}

/// A GitHub App that an admin is creating in a browser.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForgeAppSetup {
    /// The repository that is connected first.
    pub repository: RepositoryId,
    pub hook: HookId,
    /// Where the browser sends the app's manifest.
    pub form_url: String,
    pub origin: String,
    pub api: String,
    pub expires_at: Timestamp,
}

/// An account on a forge. Only the id identifies it; names can be changed and reused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForgeUser {
    pub id: String,
    /// For display only.
    pub name: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PullRequestStatus {
    Open,
    Closed,
    Merged,
}

impl PullRequestStatus {
    pub const ALL: &'static [PullRequestStatus] =
        &[PullRequestStatus::Open, PullRequestStatus::Closed, PullRequestStatus::Merged];

    pub const fn as_str(self) -> &'static str {
        match self {
            PullRequestStatus::Open => "open",
            PullRequestStatus::Closed => "closed",
            PullRequestStatus::Merged => "merged",
        }
    }
}

/// A pull request as its forge describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullRequestSnapshot {
    pub title: String,
    /// URL of its page on the forge.
    pub url: String,
    pub author: ForgeUser,
    /// The head commit.
    pub head: String,
    pub head_branch: String,
    pub base_branch: String,
    /// Whether the head branch is in another repository.
    pub is_fork: bool,
    pub labels: Vec<String>,
    pub is_draft: bool,
    pub status: PullRequestStatus,
    /// When the forge last changed it.
    pub changed_at: Timestamp,
}

/// A pull request, and what Berth did for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullRequest {
    pub repository: RepositoryId,
    pub number: i64,
    pub seen: PullRequestSnapshot,
    /// The commit of a fork that a member approved for deployment. Another head needs another approval.
    pub approved_head: Option<String>,
    pub approved_by: Option<UserId>,
    /// The id of Berth's comment on the forge.
    pub comment: Option<String>,
    /// The text that the comment has on the forge, as a hash.
    pub comment_hash: Option<String>,
    pub commented_at: Option<Timestamp>,
    /// Why the last attempt to act failed.
    pub error: Option<String>,
    /// Consecutive failed attempts.
    pub failures: i64,
    /// When to act next. `None` if nothing is to be done until the next change.
    pub due_at: Option<Timestamp>,
    pub created_at: Timestamp,
}

/// The use of a pipeline's environments for a pull request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullRequestClaim {
    pub repository: RepositoryId,
    pub number: i64,
    pub pipeline: PipelineId,
    pub environment: EnvironmentId,
    /// The first of the tickets, while the claim waits.
    pub ticket: Option<TicketId>,
    /// Set when the environment was granted, also after the session has ended.
    pub session: Option<SessionId>,
    /// The latest deployment of a head commit, and that commit.
    pub deployment: Option<DeploymentId>,
    pub commit: Option<String>,
    /// Set when a person released the environment or it was taken over: it is not claimed again by itself.
    pub is_stopped: bool,
    pub created_at: Timestamp,
}

/// A comment on a pull request that starts with `/berth`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullRequestCommand {
    pub repository: RepositoryId,
    pub number: i64,
    /// The comment's id on the forge.
    pub comment: String,
    pub author: ForgeUser,
    /// The text after `/berth`.
    pub text: String,
    pub created_at: Timestamp,
    /// When the command was carried out or refused.
    pub answered_at: Option<Timestamp>,
}

/// Whether a trigger of an environment applies to the pull request. A closed pull request matches no trigger.
pub fn matches(trigger: &ClaimTrigger, pull_request: &PullRequestSnapshot) -> bool {
    let ClaimTrigger::PullRequest { target_branches, when } = trigger;
    pull_request.status == PullRequestStatus::Open
        && (target_branches.is_empty() || target_branches.contains(&pull_request.base_branch))
        && when.labels.iter().all(|label| pull_request.labels.iter().any(|it| it.eq_ignore_ascii_case(label)))
        && when.draft.is_none_or(|draft| draft == pull_request.is_draft)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::model::PullRequestFilter;

    #[test]
    fn trigger_matches_open_pull_request_with_branch_labels_and_draft_state() {
        let pull_request = PullRequestSnapshot {
            title: "Dark mode".into(),
            url: "https://git.acme.test/acme/shop/pull/42".into(),
            author: ForgeUser { id: "7".into(), name: "grace".into() },
            head: "4d6d0ebe".repeat(5),
            head_branch: "dark-mode".into(),
            base_branch: "main".into(),
            is_fork: false,
            labels: vec!["Preview".into(), "ui".into()],
            is_draft: true,
            status: PullRequestStatus::Open,
            changed_at: Timestamp::from_micros(0),
        };
        let words = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
        let on = |branches: &[&str], labels: &[&str], draft| ClaimTrigger::PullRequest {
            target_branches: words(branches),
            when: PullRequestFilter { labels: words(labels), draft },
        };
        assert!(matches(&on(&[], &[], None), &pull_request));
        assert!(matches(&on(&["next", "main"], &["preview"], Some(true)), &pull_request));
        assert!(!matches(&on(&["next"], &[], None), &pull_request));
        assert!(!matches(&on(&[], &["preview", "qa"], None), &pull_request));
        assert!(!matches(&on(&[], &[], Some(false)), &pull_request));
        for status in [PullRequestStatus::Closed, PullRequestStatus::Merged] {
            let ended = PullRequestSnapshot { status, ..pull_request.clone() };
            assert!(!matches(&on(&[], &[], None), &ended));
        }
    }
}
