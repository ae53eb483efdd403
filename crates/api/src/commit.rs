//! Commits as people know them: title, author, age and page on the forge.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A commit, as described when it was resolved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Commit)]
pub struct WireCommit {
    /// Full hash.
    #[schema(example = "9fceb024d6d0ebe9fceb024d6d0ebe9fceb024d6")]
    pub commit_id: String,
    /// First line of the message, at most 200 characters; empty if the message is.
    #[schema(example = "Retry failed payments")]
    pub title: String,
    pub author: CommitAuthor,
    #[schema(format = DateTime)]
    pub authored_at: String,
    /// URL of its page on the forge; null if the forge is unknown.
    #[schema(example = "https://git.acme.test/acme/shop/commit/9fceb024d6d0ebe9fceb024d6d0ebe9fceb024d6")]
    pub url: Option<String>,
}

/// The author as named in the commit. The commit's address is not shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CommitAuthor {
    #[schema(example = "Grace")]
    pub name: String,
}
