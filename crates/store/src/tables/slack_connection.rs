//! The Slack app of an organization, and the requests of Slack that were carried out.

use berth_core::id::DataKeyId;
use berth_core::time::Timestamp;

use super::secret::SealedValue;
use crate::error::StoreError;
use crate::sql::{TableRow as _, column_group, statements, table};
use crate::tx::{StoreRead, Tx};

/// Maximum number of requests deleted at once.
pub const DELETE_BATCH_MAX: i64 = 500;

table!(Org SlackConnection in slack_connections {
    key: [],
    insert: [api_url, workspace_id, workspace, created_at],
});

statements! {
    Org Read FIND => SlackConnection::TABLE.select("WHERE org_id = $1 {for_update}");
    Org Read SIGNING_SECRET = "SELECT key_id, sealed_signing_secret FROM slack_connections WHERE org_id = $1";
    Org Read BOT_TOKEN = "SELECT key_id, sealed_bot_token FROM slack_connections WHERE org_id = $1";
    Org Write PUT = "INSERT INTO slack_connections (org_id, api_url, workspace_id, workspace, created_at, key_id,
          sealed_signing_secret, sealed_bot_token)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (org_id) DO UPDATE SET api_url = excluded.api_url,
          workspace_id = excluded.workspace_id, workspace = excluded.workspace, created_at = excluded.created_at,
          key_id = excluded.key_id, sealed_signing_secret = excluded.sealed_signing_secret,
          sealed_bot_token = excluded.sealed_bot_token";
    Org Write DELETE = "DELETE FROM slack_connections WHERE org_id = $1";
    // Needs no event: what a request does is recorded as an event of its own.
    Org Upkeep INSERT_REQUEST = "INSERT INTO slack_requests (org_id, signature, received_at) VALUES ($1, $2, $3)
        ON CONFLICT (org_id, signature) DO NOTHING";
    Instance Upkeep DELETE_OLD_REQUESTS = "DELETE FROM slack_requests WHERE (org_id, signature) IN
        (SELECT org_id, signature FROM slack_requests WHERE received_at < $1 LIMIT $2)";
}

/// The Slack app through which an organization is connected to a workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlackConnection {
    /// URL of Slack's Web API, with a trailing slash.
    pub api_url: String,
    /// The id of the workspace, such as `T024BE7LD`.
    pub workspace_id: String,
    /// The name of the workspace.
    pub workspace: String,
    pub created_at: Timestamp,
}

impl SlackConnection {
    /// The host under which accounts of the workspace are linked to members. Ids of Slack users are unique in it.
    pub fn account_host(&self) -> String {
        format!("slack:{}", self.workspace_id.to_ascii_lowercase())
    }
}

/// The encrypted secrets of a Slack app. Both are encrypted with the same key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealedSlackSecrets {
    pub key: DataKeyId,
    pub signing_secret: Vec<u8>,
    pub bot_token: Vec<u8>,
}
column_group!(SealedSlackSecrets { key, signing_secret, bot_token });

/// Finds the Slack app of the organization.
pub fn find(db: &mut impl StoreRead) -> Result<Option<SlackConnection>, StoreError> {
    db.fetch_optional(&FIND, &[])
}

/// Loads the encrypted secret that signs Slack's requests.
pub fn load_signing_secret(db: &mut impl StoreRead) -> Result<Option<SealedValue>, StoreError> {
    db.fetch_optional(&SIGNING_SECRET, &[])
}

pub fn load_bot_token(db: &mut impl StoreRead) -> Result<Option<SealedValue>, StoreError> {
    db.fetch_optional(&BOT_TOKEN, &[])
}

/// Stores the organization's Slack app in place of an earlier one.
pub fn put(
    tx: &mut Tx<'_>,
    connection: &SlackConnection,
    secrets: &SealedSlackSecrets,
) -> Result<(), StoreError> {
    tx.put(&PUT, &(connection.clone(), secrets.clone()))
}

pub fn delete(tx: &mut Tx<'_>) -> Result<(), StoreError> {
    tx.execute_one(&DELETE, &[])
}

/// Remembers a request by its signature. Returns `false` if the same request arrived before.
pub fn insert_request(tx: &mut Tx<'_>, signature: &str) -> Result<bool, StoreError> {
    let now = tx.now();
    Ok(tx.execute(&INSERT_REQUEST, &[signature.into(), now.into()])? == 1)
}

/// Deletes a batch of requests from before this time, of all organizations. Returns their number.
pub fn delete_old_requests(tx: &mut Tx<'_>, before: Timestamp) -> Result<i64, StoreError> {
    let count = tx.execute(&DELETE_OLD_REQUESTS, &[before.into(), DELETE_BATCH_MAX.into()])?;
    Ok(i64::try_from(count).unwrap_or(i64::MAX))
}
