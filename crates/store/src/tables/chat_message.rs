//! The outbox of messages to chats.

use berth_core::chat::ChatMessage;
use berth_core::id::{NotificationId, OrgId, UserId};
use berth_core::time::Timestamp;

use crate::error::StoreError;
use crate::pagination::FairBatch;
use crate::sql::value::text;
use crate::sql::{TableRow as _, ToParams as _, statements, table};
use crate::tx::{StoreRead, Tx};

/// Maximum number of messages deleted at once.
pub const DELETE_BATCH_MAX: i64 = 500;

table!(Org ChatMessage in chat_messages {
    key: [id],
    insert: [target: target_id, sequence, cause, summary, subject, created_at, due_at, failures, sent_at],
});

// Needs no events: a message repeats what an event of the audit log says.
statements! {
    // Idempotent: each event has at most one message per target.
    Org Upkeep INSERT => ChatMessage::TABLE.insert("ON CONFLICT (org_id, target_id, sequence) DO NOTHING");
    Org Read LAST_SENT = "SELECT MAX(sent_at) FROM chat_messages WHERE org_id = $1 AND target_id = $2";
    Org Read COUNT_PENDING = "SELECT CAST(COUNT(*) AS BIGINT) FROM (SELECT 1 FROM chat_messages
        WHERE org_id = $1 AND target_id = $2 AND due_at IS NOT NULL LIMIT $3) AS counted";
    Instance Read DUE = "SELECT org_id, target_id FROM (SELECT org_id, target_id, MIN(due_at) AS first_due_at,
            ROW_NUMBER() OVER (PARTITION BY org_id ORDER BY MIN(due_at), target_id) AS place
          FROM chat_messages WHERE due_at IS NOT NULL AND due_at <= $1 GROUP BY org_id, target_id) AS ranked
        WHERE place <= $2 ORDER BY place, first_due_at, target_id LIMIT $3";
    Org Read DUE_OF_TARGET => ChatMessage::TABLE.select("WHERE org_id = $1 AND target_id = $2 AND due_at <= $3
        ORDER BY created_at, sequence LIMIT $4");
    // Optimistic locking: the number of failures must be unchanged, so that the result of another worker stays.
    Org Upkeep PUT_ATTEMPT = "UPDATE chat_messages SET due_at = $4, failures = $5, sent_at = $6
        WHERE org_id = $1 AND id = $2 AND failures = $3 AND sent_at IS NULL";
    // A notification that has been read is not sent any more.
    Org Upkeep CANCEL = "UPDATE chat_messages SET due_at = NULL WHERE org_id = $1 AND target_id = $2
        AND due_at IS NOT NULL AND sequence = (SELECT sequence FROM notifications WHERE org_id = $1 AND id = $3)";
    Org Upkeep CANCEL_OF_TARGET = "UPDATE chat_messages SET due_at = NULL
        WHERE org_id = $1 AND target_id = $2 AND due_at IS NOT NULL";
    Instance Upkeep CANCEL_ALL = "UPDATE chat_messages SET due_at = NULL WHERE due_at IS NOT NULL";
    Org Upkeep DELETE_OF_TARGET = "DELETE FROM chat_messages WHERE org_id = $1 AND target_id = $2";
    Instance Upkeep DELETE_OLD = "DELETE FROM chat_messages WHERE (org_id, id) IN
        (SELECT org_id, id FROM chat_messages WHERE created_at < $1 LIMIT $2)";
}

/// Inserts a message. Returns false if the target already has one of this event.
pub fn insert(tx: &mut Tx<'_>, message: &ChatMessage) -> Result<bool, StoreError> {
    let mut params = Vec::new();
    message.to_params(&mut params)?;
    Ok(tx.execute(&INSERT, &params)? == 1)
}

/// When the last message to this target was sent.
pub fn load_last_sent(db: &mut impl StoreRead, target: &str) -> Result<Option<Timestamp>, StoreError> {
    Ok(db.fetch_optional::<Option<Timestamp>>(&LAST_SENT, &[target.into()])?.flatten())
}

/// The number of messages that are still to be sent to this target, up to `max`.
pub fn count_pending(db: &mut impl StoreRead, target: &str, max: i64) -> Result<i64, StoreError> {
    db.fetch_count(&COUNT_PENDING, &[target.into(), max.into()])
}

/// Targets that messages are due for, longest due first. Each organization gets a share of the batch.
pub fn list_due(db: &mut impl StoreRead, batch: FairBatch) -> Result<Vec<(OrgId, String)>, StoreError> {
    let now = db.now();
    db.fetch_all(&DUE, &[now.into(), batch.share.into(), batch.total.into()])
}

/// The due messages of a target, oldest first.
pub fn list_due_of(
    db: &mut impl StoreRead,
    target: &str,
    limit: i64,
) -> Result<Vec<ChatMessage>, StoreError> {
    let now = db.now();
    db.fetch_all(&DUE_OF_TARGET, &[target.into(), now.into(), limit.into()])
}

/// Stores the outcome of an attempt. `before` is the message as it was before the attempt. Does nothing if another
/// worker has sent it in the meantime.
pub fn put_attempt(tx: &mut Tx<'_>, before: &ChatMessage, after: &ChatMessage) -> Result<bool, StoreError> {
    let params = [
        text(before.id),
        before.failures.into(),
        after.due_at.into(),
        after.failures.into(),
        after.sent_at.into(),
    ];
    Ok(tx.execute(&PUT_ATTEMPT, &params)? == 1)
}

/// Cancels the direct message about a notification.
pub fn cancel(tx: &mut Tx<'_>, user: UserId, notification: NotificationId) -> Result<(), StoreError> {
    tx.execute(&CANCEL, &[text(user), text(notification)]).map(drop)
}

/// Cancels all messages that are due for a target.
pub fn cancel_of_target(tx: &mut Tx<'_>, target: &str) -> Result<(), StoreError> {
    tx.execute(&CANCEL_OF_TARGET, &[target.into()]).map(drop)
}

/// Cancels the due messages of all organizations.
pub fn cancel_all(tx: &mut Tx<'_>) -> Result<(), StoreError> {
    tx.execute(&CANCEL_ALL, &[]).map(drop)
}

pub fn delete_of_target(tx: &mut Tx<'_>, target: &str) -> Result<(), StoreError> {
    tx.execute(&DELETE_OF_TARGET, &[target.into()]).map(drop)
}

/// Deletes a batch of messages from before this time. Returns their number.
pub fn delete_old(tx: &mut Tx<'_>, before: Timestamp) -> Result<i64, StoreError> {
    let count = tx.execute(&DELETE_OLD, &[before.into(), DELETE_BATCH_MAX.into()])?;
    Ok(i64::try_from(count).unwrap_or(i64::MAX))
}
