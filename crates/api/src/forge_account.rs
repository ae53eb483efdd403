//! Accounts on forges that a member has linked, and approvals of commits from forks.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{Data, ReplayableBody};

/// Your account on a forge. Commands in its comments on pull requests act with your permissions.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LinkedForgeAccount {
    #[schema(example = "github.com")]
    pub host: String,
    /// The forge's id of the account, which never changes.
    #[schema(example = "583231")]
    pub account_id: String,
    /// The account's name when it was linked.
    #[schema(example = "grace")]
    pub name: String,
    #[schema(format = DateTime)]
    pub linked_at: String,
}

impl ReplayableBody for LinkedForgeAccount {}

/// A code that links an account on a forge. It can be used once.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ForgeLinkCode {
    /// Null if the response is repeated for an idempotency key.
    pub code: Option<String>,
    /// The comment to write on a pull request of a connected repository; null if the response is repeated.
    pub comment: Option<String>,
    #[schema(format = DateTime)]
    pub expires_at: String,
}

impl ReplayableBody for ForgeLinkCode {
    const SHOWS_ONCE: bool = true;

    fn to_replay_json(&self) -> serde_json::Result<String> {
        serde_json::to_string(&Data { data: Self { code: None, comment: None, ..self.clone() } })
    }
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct PullRequestApprovalNew {
    /// The head commit that you have reviewed, as a full hash.
    #[schema(min_length = 40, max_length = 64, example = "9fceb02d0ae598e95dc970b74767f19372d61af8")]
    pub commit: String,
}

/// The approval of a commit from a fork.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PullRequestApproval {
    #[schema(example = "rep_01k9x8s6q0e3v8n5j2m4t7w9yb")]
    pub repository_id: String,
    #[schema(example = 42)]
    pub number: i64,
    /// The only commit that may be deployed.
    #[schema(example = "9fceb02d0ae598e95dc970b74767f19372d61af8")]
    pub commit: String,
    #[schema(example = "usr_01k9x8s6q0e3v8n5j2m4t7w9yb")]
    pub approved_by: String,
}

impl ReplayableBody for PullRequestApproval {}
