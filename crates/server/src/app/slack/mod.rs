//! The Slack app of an organization: connect, view, disconnect, and what Slack's requests do.

mod commands;
mod requests;

use aws_lc_rs::constant_time;
use berth_api::chat as wire;
use berth_api::problem::Code;
use berth_core::access::permit;
use berth_core::event::{EventKind, EventSubject, NewEvent};
use berth_core::id::OrgId;
use berth_engine::credential::RedactedString;
use berth_engine::vault::SecretVault;
use berth_store::StoreRead;
use berth_store::tables::forge_account;
use berth_store::tables::slack_connection::{self, SlackConnection};
use serde_json::{Value, json};

pub use requests::SlackAnswer;

use super::{ApiResponse, App, IdempotentResponse};
use crate::auth::authorize::AuthorizedCaller;
use crate::config::AppConfig;
use crate::error::AppError;
use crate::integrations::chat::SlackApi;
use crate::integrations::forges::run_on_thread;

const API_URL: &str = "https://slack.com/api/";
/// Maximum length of the name of a workspace that is stored.
const WORKSPACE_CHARS_MAX: usize = 100;

/// The secrets of a Slack app, as an admin enters them.
pub struct SlackCredentials {
    pub signing_secret: RedactedString,
    pub bot_token: RedactedString,
    pub api_url: Option<String>,
}

impl App {
    pub async fn view_slack(
        &self,
        who: &AuthorizedCaller<permit::WebhooksRead>,
    ) -> Result<ApiResponse<wire::SlackSettings>, AppError> {
        let (config, org) = (self.config.clone(), who.org());
        self.read(who, move |db| Ok(ApiResponse::ok(to_response(db, &config, org)?))).await
    }

    /// Connects the organization to the workspace of a bot token, in place of an earlier one. Asks Slack for the
    /// workspace first, so that a wrong token is refused.
    pub async fn connect_slack(
        &self,
        who: &AuthorizedCaller<permit::WebhooksWrite>,
        credentials: SlackCredentials,
    ) -> Result<IdempotentResponse<wire::SlackSettings>, AppError> {
        let SlackCredentials { signing_secret, bot_token, api_url } = credentials;
        let api_url = api_url.as_deref().unwrap_or(API_URL);
        let mut url = self.check_chat_url("/apiUrl", api_url)?.reveal().to_owned();
        if !url.ends_with('/') {
            url.push('/');
        }
        let _pass = self.hook_calls.try_enter(who.org()).ok_or_else(|| {
            AppError::new(Code::RateLimited, "too many requests to Slack at once; try again in a moment")
        })?;
        let (egress, api) =
            (self.services.egress.clone(), SlackApi { url: url.clone(), token: bot_token.clone() });
        let found = run_on_thread(move || api.identify(&egress)).await?;
        let found = found.map_err(|error| AppError::new(Code::InvalidState, error.to_string()))?;
        if !berth_core::chat::is_slack_id(&found.id) {
            return Err(AppError::new(Code::InvalidState, "Slack named no workspace for the token"));
        }
        let (vault, config, org) = (self.services.vault.clone(), self.config.clone(), who.org());
        self.change(who, None, move |tx, standing| {
            standing.check_confirmed(tx.now())?;
            let workspace =
                found.name.chars().filter(|c| !c.is_control()).take(WORKSPACE_CHARS_MAX).collect();
            let connection =
                SlackConnection { api_url: url, workspace_id: found.id, workspace, created_at: tx.now() };
            let secrets =
                vault.seal_slack_secrets(tx, &connection.workspace_id, &signing_secret, &bot_token)?;
            let unlinked = match is_same_app(tx, &vault, org, &connection, &signing_secret)? {
                true => 0,
                false => forge_account::delete_of_host(tx, &connection.account_host())?,
            };
            slack_connection::put(tx, &connection, &secrets)?;
            let event = connection_event(EventKind::SlackConnected, org, &connection);
            tx.record(event.with("unlinked", unlinked))?;
            Ok(ApiResponse::ok(to_response(tx, &config, org)?))
        })
        .await
    }

    /// Disconnects the organization, deletes the secrets and unlinks the accounts of the workspace.
    pub async fn disconnect_slack(
        &self,
        who: &AuthorizedCaller<permit::WebhooksWrite>,
    ) -> Result<IdempotentResponse<wire::SlackSettings>, AppError> {
        let (config, org) = (self.config.clone(), who.org());
        self.change(who, None, move |tx, _| {
            let found = slack_connection::find(tx)?;
            let found = found.ok_or_else(|| AppError::not_found("Slack connection"))?;
            slack_connection::delete(tx)?;
            let unlinked = forge_account::delete_of_host(tx, &found.account_host())?;
            let event = connection_event(EventKind::SlackDisconnected, org, &found);
            tx.record(event.with("unlinked", unlinked))?;
            Ok(ApiResponse::ok(to_response(tx, &config, org)?))
        })
        .await
    }
}

/// Whether the organization is already connected to this app. The owner of an app could act as every member who linked
/// an account to it, so the links to one app do not apply to another.
fn is_same_app(
    db: &mut impl StoreRead,
    vault: &SecretVault,
    org: OrgId,
    new: &SlackConnection,
    signing_secret: &RedactedString,
) -> Result<bool, AppError> {
    let found = (slack_connection::find(db)?, slack_connection::load_signing_secret(db)?);
    let (Some(present), Some(sealed)) = found else { return Ok(false) };
    let secret = vault.open_slack_signing_secret(db, org, &present.workspace_id, &sealed)?;
    let (secret, given) = (secret.reveal().as_bytes(), signing_secret.reveal().as_bytes());
    let is_same_secret = constant_time::verify_slices_are_equal(secret, given).is_ok();
    Ok(is_same_secret && present.api_url == new.api_url && present.workspace_id == new.workspace_id)
}

fn connection_event(kind: EventKind, org: OrgId, of: &SlackConnection) -> NewEvent {
    let event = NewEvent::new(kind, EventSubject::new("organization", org, None));
    event.with("workspace", of.workspace.as_str()).with("workspaceId", of.workspace_id.as_str())
}

fn to_response(
    db: &mut impl StoreRead,
    config: &AppConfig,
    org: OrgId,
) -> Result<wire::SlackSettings, AppError> {
    let connection = slack_connection::find(db)?.map(|found| wire::SlackWorkspace {
        workspace_id: found.workspace_id,
        workspace: found.workspace,
        api_url: found.api_url,
        connected_at: found.created_at.to_string(),
    });
    let request_url = format!("{}/hooks/slack/{org}", config.base_url());
    Ok(wire::SlackSettings { connection, manifest: manifest(&request_url), request_url })
}

/// The manifest of a Slack app with the permissions that Berth uses.
fn manifest(request_url: &str) -> Value {
    json!({
        "display_information": {"name": "Berth", "description": "Environments and deployments"},
        "features": {
            "bot_user": {"display_name": "Berth", "always_online": true},
            "slash_commands": [{
                "command": "/berth",
                "url": request_url,
                "description": "Claim environments and deploy",
                "usage_hint": "status | claim shop/qa-1 | help",
                "should_escape": false,
            }],
        },
        "oauth_config": {"scopes": {"bot": ["chat:write", "chat:write.public", "commands"]}},
        "settings": {
            "interactivity": {"is_enabled": true, "request_url": request_url},
            "org_deploy_enabled": false,
            "socket_mode_enabled": false,
            "token_rotation_enabled": false,
        },
    })
}
