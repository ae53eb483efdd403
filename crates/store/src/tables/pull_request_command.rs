//! Comments on pull requests that are commands. Each is carried out once.

use berth_core::forge::PullRequestCommand;
use berth_core::id::RepositoryId;

use crate::error::StoreError;
use crate::sql::value::text;
use crate::sql::{TableRow as _, ToParams as _, statements, table};
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
    Org Upkeep ANSWER = "UPDATE pull_request_commands SET answered_at = $4
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

/// Marks a command as carried out. Returns `false` if it was before.
pub fn mark_answered(tx: &mut Tx<'_>, repository: RepositoryId, comment: &str) -> Result<bool, StoreError> {
    let now = tx.now();
    Ok(tx.execute(&ANSWER, &[text(repository), comment.into(), now.into()])? == 1)
}
