//! Notifications of people, the emails that are due for them, and each organization's position in the audit log up to
//! which notifications exist.

use berth_core::id::{NotificationId, OrgId, UserId};
use berth_core::notification::{Notification, NotificationCause, NotificationSubject};
use berth_core::time::Timestamp;

use crate::error::StoreError;
use crate::pagination::{FairBatch, ListPage, PageStart, fetch_bounded_count, fetch_page};
use crate::sql::value::text;
use crate::sql::{TableRow as _, from_row, json_columns, statements, table, word_columns};
use crate::tx::{StoreRead, Tx};

/// Maximum number of notifications deleted at once.
pub const DELETE_BATCH_MAX: i64 = 500;

table!(Org Notification in notifications {
    key: [id],
    update: [in_inbox, read_at, mail_due_at, mail_failures, mailed_at],
    insert: [user: user_id, event: event_id, sequence, event_kind, cause, summary, subject, created_at],
});
json_columns!(NotificationSubject);
word_columns!(NotificationCause: NotificationCause::ALL);

// Needs no events: a notification repeats what an event of the audit log says.
statements! {
    // Idempotent: each event has at most one notification per person.
    Org Upkeep INSERT => Notification::TABLE.insert("ON CONFLICT (org_id, user_id, sequence) DO NOTHING");
    Org Read BY_ID => Notification::TABLE.select("WHERE org_id = $1 AND id = $2 AND user_id = $3 {for_update}");
    Org Read LIST => Notification::TABLE.select("WHERE org_id = $1 AND user_id = $2 AND in_inbox = 1
        AND (CAST($3 AS BIGINT) = 0 OR read_at IS NULL) AND sequence < $4 ORDER BY sequence DESC LIMIT $5 OFFSET $6");
    Org Read COUNT = "SELECT CAST(COUNT(*) AS BIGINT) FROM (SELECT 1 FROM notifications
        WHERE org_id = $1 AND user_id = $2 AND in_inbox = 1 AND (CAST($3 AS BIGINT) = 0 OR read_at IS NULL) LIMIT $4) AS counted";
    Org Read INBOX_STATE = "SELECT CAST(COUNT(*) AS BIGINT), COALESCE(MAX(sequence), CAST(0 AS BIGINT)) FROM notifications
        WHERE org_id = $1 AND user_id = $2 AND in_inbox = 1 AND read_at IS NULL";
    // A notification that has been read is not sent by email any more.
    Org Upkeep READ = "UPDATE notifications SET read_at = $4, mail_due_at = NULL
        WHERE org_id = $1 AND id = $2 AND user_id = $3 AND read_at IS NULL";
    Org Upkeep READ_ALL = "UPDATE notifications SET read_at = $3, mail_due_at = NULL
        WHERE org_id = $1 AND user_id = $2 AND in_inbox = 1 AND read_at IS NULL";
    Org Read LAST_MAILED = "SELECT MAX(mailed_at) FROM notifications WHERE org_id = $1 AND user_id = $2";
    Instance Read DUE = "SELECT org_id, user_id FROM (SELECT org_id, user_id, MIN(mail_due_at) AS first_due_at,
            ROW_NUMBER() OVER (PARTITION BY org_id ORDER BY MIN(mail_due_at), user_id) AS place
          FROM notifications WHERE mail_due_at IS NOT NULL AND mail_due_at <= $1 GROUP BY org_id, user_id) AS ranked
        WHERE place <= $2 ORDER BY place, first_due_at, user_id LIMIT $3";
    Org Read COUNT_PENDING_MAILS = "SELECT CAST(COUNT(*) AS BIGINT) FROM (SELECT 1 FROM notifications
        WHERE org_id = $1 AND user_id = $2 AND mail_due_at IS NOT NULL LIMIT $3) AS counted";
    Org Read DUE_OF_USER => Notification::TABLE.select("WHERE org_id = $1 AND user_id = $2 AND mail_due_at <= $3
        ORDER BY sequence LIMIT $4");
    // Optimistic locking: the number of failures must be unchanged, so that the result of another worker stays.
    Org Upkeep PUT_MAIL = "UPDATE notifications SET mail_due_at = $4, mail_failures = $5, mailed_at = $6
        WHERE org_id = $1 AND id = $2 AND mail_failures = $3 AND mailed_at IS NULL";
    Instance Upkeep CANCEL_MAILS = "UPDATE notifications SET mail_due_at = NULL WHERE mail_due_at IS NOT NULL";
    // Deletes notifications of a person that are not among the newest `$3` and are not waiting for an email.
    Org Upkeep DELETE_SURPLUS = "DELETE FROM notifications WHERE org_id = $1 AND user_id = $2 AND mail_due_at IS NULL
        AND sequence <= (SELECT k.sequence FROM notifications k WHERE k.org_id = $1 AND k.user_id = $2
            ORDER BY k.sequence DESC LIMIT 1 OFFSET $3)";
    Org Upkeep DELETE_OF_MEMBER = "DELETE FROM notifications WHERE org_id = $1 AND user_id = $2";
    Instance Upkeep DELETE_OLD = "DELETE FROM notifications WHERE (org_id, id) IN
        (SELECT org_id, id FROM notifications WHERE created_at < $1 LIMIT $2)";
    Instance Read LAGGING = "SELECT h.org_id, COALESCE(c.sequence, CAST(0 AS BIGINT)), h.sequence FROM event_heads h
        LEFT JOIN notification_cursors c ON c.org_id = h.org_id
        WHERE COALESCE(c.sequence, CAST(0 AS BIGINT)) < h.sequence AND h.org_id > $1 ORDER BY h.org_id LIMIT $2";
    // Compare-and-swap: changes nothing if another worker has moved the cursor.
    Org Upkeep MOVE = "INSERT INTO notification_cursors (org_id, sequence) VALUES ($1, $3)
        ON CONFLICT (org_id) DO UPDATE SET sequence = excluded.sequence WHERE notification_cursors.sequence = $2";
}

/// An organization whose events have not all been read for notifications.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaggingNotifications {
    pub org: OrgId,
    pub sequence: i64,
    /// Sequence number of the organization's newest event.
    pub head: i64,
}
from_row!(LaggingNotifications { org, sequence, head });

/// What changes when the unread part of an inbox changes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct InboxState {
    pub unread: i64,
    /// Sequence number of the newest unread notification's event.
    pub newest: i64,
}
from_row!(InboxState { unread, newest });

/// Inserts a notification. Returns false if the person already has one of this event.
pub fn insert(tx: &mut Tx<'_>, notification: &Notification) -> Result<bool, StoreError> {
    use crate::sql::ToParams as _;
    let mut params = Vec::new();
    notification.to_params(&mut params)?;
    Ok(tx.execute(&INSERT, &params)? == 1)
}

/// Finds a notification of this person.
pub fn find(
    db: &mut impl StoreRead,
    user: UserId,
    id: NotificationId,
) -> Result<Option<Notification>, StoreError> {
    db.fetch_optional(&BY_ID, &[text(id), text(user)])
}

/// The inbox of a person, newest first.
pub fn list(
    db: &mut impl StoreRead,
    user: UserId,
    only_unread: bool,
    from: &PageStart,
    limit: i64,
) -> Result<ListPage<Notification>, StoreError> {
    fetch_page(db, &LIST, &[text(user), i64::from(only_unread).into()], from.by_number(), limit)
}

/// The number of notifications in the inbox. `None` if there are too many to count.
pub fn count(db: &mut impl StoreRead, user: UserId, only_unread: bool) -> Result<Option<i64>, StoreError> {
    fetch_bounded_count(db, &COUNT, &[text(user), i64::from(only_unread).into()])
}

pub fn load_inbox_state(db: &mut impl StoreRead, user: UserId) -> Result<InboxState, StoreError> {
    Ok(db.fetch_optional(&INBOX_STATE, &[text(user)])?.unwrap_or_default())
}

pub fn mark_read(tx: &mut Tx<'_>, user: UserId, id: NotificationId) -> Result<(), StoreError> {
    let now = tx.now();
    tx.execute(&READ, &[text(id), text(user), now.into()]).map(drop)
}

/// Marks everything in the inbox as read. Returns how many notifications were unread.
pub fn mark_all_read(tx: &mut Tx<'_>, user: UserId) -> Result<i64, StoreError> {
    let now = tx.now();
    let count = tx.execute(&READ_ALL, &[text(user), now.into()])?;
    Ok(i64::try_from(count).unwrap_or(i64::MAX))
}

/// When the last email to this person about the organization was sent.
pub fn load_last_mailed(db: &mut impl StoreRead, user: UserId) -> Result<Option<Timestamp>, StoreError> {
    Ok(db.fetch_optional::<Option<Timestamp>>(&LAST_MAILED, &[text(user)])?.flatten())
}

/// People who have an email to get, longest due first. Each organization gets a share of the batch.
pub fn list_due(db: &mut impl StoreRead, batch: FairBatch) -> Result<Vec<(OrgId, UserId)>, StoreError> {
    let now = db.now();
    db.fetch_all(&DUE, &[now.into(), batch.share.into(), batch.total.into()])
}

/// The number of notifications that are still to be sent to this person by email, up to `max`.
pub fn count_pending_mails(db: &mut impl StoreRead, user: UserId, max: i64) -> Result<i64, StoreError> {
    db.fetch_count(&COUNT_PENDING_MAILS, &[text(user), max.into()])
}

/// The due notifications of a person, oldest first.
pub fn list_due_of(
    db: &mut impl StoreRead,
    user: UserId,
    limit: i64,
) -> Result<Vec<Notification>, StoreError> {
    let now = db.now();
    db.fetch_all(&DUE_OF_USER, &[text(user), now.into(), limit.into()])
}

/// Stores the outcome of an email. `before` is the notification as it was before the attempt. Does nothing if another
/// worker has sent it in the meantime.
pub fn put_mail(tx: &mut Tx<'_>, before: &Notification, after: &Notification) -> Result<bool, StoreError> {
    let params = [
        text(before.id),
        before.mail_failures.into(),
        after.mail_due_at.into(),
        after.mail_failures.into(),
        after.mailed_at.into(),
    ];
    Ok(tx.execute(&PUT_MAIL, &params)? == 1)
}

/// Cancels the due emails of all organizations.
pub fn cancel_mails(tx: &mut Tx<'_>) -> Result<(), StoreError> {
    tx.execute(&CANCEL_MAILS, &[]).map(drop)
}

/// Deletes the oldest notifications of a person, except for the newest `kept`.
pub fn delete_surplus(tx: &mut Tx<'_>, user: UserId, kept: i64) -> Result<(), StoreError> {
    tx.execute(&DELETE_SURPLUS, &[text(user), kept.into()]).map(drop)
}

pub fn delete_of_member(tx: &mut Tx<'_>, user: UserId) -> Result<(), StoreError> {
    tx.execute(&DELETE_OF_MEMBER, &[text(user)]).map(drop)
}

/// Deletes a batch of notifications from before this time. Returns their number.
pub fn delete_old(tx: &mut Tx<'_>, before: Timestamp) -> Result<i64, StoreError> {
    let count = tx.execute(&DELETE_OLD, &[before.into(), DELETE_BATCH_MAX.into()])?;
    Ok(i64::try_from(count).unwrap_or(i64::MAX))
}

/// Organizations with events to read, in the order of their ids.
pub fn list_lagging(
    db: &mut impl StoreRead,
    after: Option<OrgId>,
    limit: i64,
) -> Result<Vec<LaggingNotifications>, StoreError> {
    let after = after.map(|org| org.to_string()).unwrap_or_default();
    db.fetch_all(&LAGGING, &[after.into(), limit.into()])
}

/// Advances the cursor of the transaction's organization. Returns `false` if it is no longer at `from`.
pub fn move_cursor(tx: &mut Tx<'_>, from: i64, to: i64) -> Result<bool, StoreError> {
    Ok(tx.execute(&MOVE, &[from.into(), to.into()])? == 1)
}
