//! Encryption of the URLs of chat webhooks, and of the secrets of Slack apps.

use berth_core::id::{ChatDestinationId, OrgId};
use berth_store::tables::secret::SealedValue;
use berth_store::tables::slack_connection::SealedSlackSecrets;
use berth_store::{StoreRead, Tx};

use super::{KeyError, SecretVault};
use crate::credential::RedactedString;

const CHAT_URL: &str = "chat url";
const SLACK_SIGNING_SECRET: &str = "slack signing secret";
const SLACK_BOT_TOKEN: &str = "slack bot token";

impl SecretVault {
    /// Encrypts the URL of a chat webhook. It can be decrypted only for the same destination.
    pub fn seal_chat_url(
        &self,
        tx: &mut Tx<'_>,
        destination: ChatDestinationId,
        url: &RedactedString,
    ) -> Result<SealedValue, KeyError> {
        self.seal_bound(tx, CHAT_URL, destination, url)
    }

    pub fn open_chat_url(
        &self,
        db: &mut impl StoreRead,
        org: OrgId,
        destination: ChatDestinationId,
        sealed: &SealedValue,
    ) -> Result<RedactedString, KeyError> {
        self.open_bound(db, org, (CHAT_URL, destination), sealed)
    }

    /// Encrypts the secrets of the organization's Slack app. They can be decrypted only for the same workspace.
    pub fn seal_slack_secrets(
        &self,
        tx: &mut Tx<'_>,
        workspace: &str,
        signing_secret: &RedactedString,
        bot_token: &RedactedString,
    ) -> Result<SealedSlackSecrets, KeyError> {
        let signing_secret = self.seal_bound(tx, SLACK_SIGNING_SECRET, workspace, signing_secret)?;
        let bot_token = self.seal_bound(tx, SLACK_BOT_TOKEN, workspace, bot_token)?;
        Ok(SealedSlackSecrets {
            key: signing_secret.key,
            signing_secret: signing_secret.bytes,
            bot_token: bot_token.bytes,
        })
    }

    pub fn open_slack_signing_secret(
        &self,
        db: &mut impl StoreRead,
        org: OrgId,
        workspace: &str,
        sealed: &SealedValue,
    ) -> Result<RedactedString, KeyError> {
        self.open_bound(db, org, (SLACK_SIGNING_SECRET, workspace), sealed)
    }

    pub fn open_slack_bot_token(
        &self,
        db: &mut impl StoreRead,
        org: OrgId,
        workspace: &str,
        sealed: &SealedValue,
    ) -> Result<RedactedString, KeyError> {
        self.open_bound(db, org, (SLACK_BOT_TOKEN, workspace), sealed)
    }
}
