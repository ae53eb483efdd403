//! Comments on pull requests that are commands. Each is carried out once.

use berth_core::forge::PullRequestCommand;
use berth_core::id::RepositoryId;

use crate::error::StoreError;
use crate::sql::value::text;
use crate::sql::{TableRow as _, ToParams as _, from_row, statements, table};
use crate::tx::{StoreRead, Tx};

table!(Org PullRequestCommand in pull_request_commands {
    key: [repository: repository_id, comment: comment_id],
    update: [answered_at],
    insert: [number, author: (author_id, author_name), text, created_at],
});

statements! {
    Org Read UNANSWERED => PullRequestCommand::TABLE.select("WHERE org_id = $1 AND repository_id = $2 AND number = $3
        AND answered_at IS NULL ORDER BY created_at, comment_id LIMIT $4");
    // Needs no event: what the command does is recorded.
    Org Upkeep INSERT => PullRequestCommand::TABLE.insert("ON CONFLICT (org_id, repository_id, comment_id) DO NOTHING");
    Org Read LAST_ANSWER = "SELECT author_name, text, answer FROM pull_request_commands
        WHERE org_id = $1 AND repository_id = $2 AND number = $3 AND answer IS NOT NULL
        ORDER BY answered_at DESC, created_at DESC, comment_id DESC LIMIT 1";
    Org Upkeep ANSWER = "UPDATE pull_request_commands SET answered_at = $4, answer = $5
        WHERE org_id = $1 AND repository_id = $2 AND comment_id = $3 AND answered_at IS NULL";
}

/// Commands that were not carried out yet, oldest first.
pub fn list_unanswered(
    db: &mut impl StoreRead,
    repository: RepositoryId,
    number: i64,
    limit: i64,
) -> Result<Vec<PullRequestCommand>, StoreError> {
    db.fetch_all(&UNANSWERED, &[text(repository), number.into(), limit.into()])
}

/// Stores a command. Returns `false` if the comment was stored before.
pub fn insert(tx: &mut Tx<'_>, command: &PullRequestCommand) -> Result<bool, StoreError> {
    let mut params = Vec::new();
    command.to_params(&mut params)?;
    Ok(tx.execute(&INSERT, &params)? == 1)
}

/// Marks a command as carried out, with what it did. Returns `false` if it was marked before.
pub fn mark_answered(
    tx: &mut Tx<'_>,
    repository: RepositoryId,
    comment: &str,
    answer: &str,
) -> Result<bool, StoreError> {
    let now = tx.now();
    Ok(tx.execute(&ANSWER, &[text(repository), comment.into(), now.into(), answer.into()])? == 1)
}

/// A command that was carried out or refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnsweredCommand {
    pub author: String,
    pub text: String,
    pub answer: String,
}
from_row!(AnsweredCommand { author, text, answer });

/// The command of a pull request that was answered last.
pub fn find_last_answer(
    db: &mut impl StoreRead,
    repository: RepositoryId,
    number: i64,
) -> Result<Option<AnsweredCommand>, StoreError> {
    db.fetch_optional(&LAST_ANSWER, &[text(repository), number.into()])
}
