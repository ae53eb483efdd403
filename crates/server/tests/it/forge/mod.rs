//! Clients of forges. The client for GitHub is tested with an emulator and with GitHub's OpenAPI description. Those for
//! GitLab, Gitea and Bitbucket are tested with fakes, because these forges cannot be installed here.

mod conformance;
pub(crate) mod doubles;
mod fake_forge;
mod forge_requests;
mod github_emulator;

use std::time::Duration;

use berth_core::repository::RemoteUrl;
use berth_engine::credential::RedactedString;
use berth_engine::egress::{EgressClient, EgressPolicy, system_lookup};
use berth_server::integrations::forges::{BranchPair, ForgeClient, ForgeRepository, PullRequestDraft};

pub(crate) use doubles::GitHubAppDouble;
pub(crate) use fake_forge::{FakeForge, FakeResponse, RecordedRequest};
pub(crate) use github_emulator::{TOKEN, call_emulator, call_emulator_with, start_github};

const TIMEOUT: Duration = Duration::from_secs(120);

/// A client for the repository `acme/shop` on a forge of this kind.
fn forge_client(kind: &str, api: &str, token: &str, limit: Duration) -> ForgeClient {
    let url = RemoteUrl::parse("https://git.acme.test/acme/shop.git").unwrap();
    let known = [format!("git.acme.test={kind}={api}").parse().unwrap()];
    let (forge, at) = ForgeRepository::locate(&url, &known).unwrap();
    let policy = EgressPolicy { allowed: vec!["127.0.0.1".parse().unwrap()] };
    let egress = EgressClient::new(policy, system_lookup(), limit);
    ForgeClient { egress, forge, at, user: None, token: RedactedString::new(token.into()) }
}

const BRANCHES: BranchPair<'_> = BranchPair { head: "berth/fix-0123456789ab", base: "main" };

const DRAFT: PullRequestDraft<'_> =
    PullRequestDraft { branches: BRANCHES, title: "Make deploy.sh executable", body: "Because.\n" };
