//! Requests of Slack: button presses and slash commands. Each acts at most once, as the member that the Slack account is
//! linked to, with the permissions at that moment.

use berth_api::problem::Code;
use berth_core::chat::command::{
    CHAT_COMMANDS_HELP, ChatCommand, EnvironmentCommand, EnvironmentName, parse,
};
use berth_core::event::ActorType;
use berth_core::id::OrgId;
use berth_core::name::CommitId;
use berth_core::notification::LinkAction;
use berth_engine::credential::RedactedString;
use berth_store::tables::{forge_account, organization, slack_connection};
use berth_store::{StoreRead, Tx, TxContext};
use http::HeaderMap;
use serde_json::json;

use super::super::App;
use super::super::member_actions::perform;
use super::commands::{find_environment, operate, status_of_all};
use crate::error::AppError;
use crate::integrations::chat::{SlackRequest, SlackRequestKind, parse_request, send_reply, verify_request};
use crate::jobs::pull_requests::account::{ActingMember, load_member};
use crate::jobs::pull_requests::linked_accounts::connect_account;

const UNKNOWN: &str = "your Slack account is not linked to Berth; send `/berth connect`";

/// What Slack is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SlackAnswer {
    /// Shown to the member who sent a command.
    Reply(String),
    /// A button was pressed. What it did is sent separately, because Slack does not show the response.
    Accepted,
    /// The request is none that Berth uses.
    Ignored,
}

/// The Slack app that a request was sent to.
pub(crate) struct SlackTarget {
    pub(crate) org: OrgId,
    workspace: String,
    secret: RedactedString,
}

/// What one request does.
enum SlackWork {
    Button(LinkAction, String),
    Connect(String),
    On(EnvironmentName, EnvironmentCommand),
    StatusOfAll,
}

impl App {
    /// Finds the Slack app of an organization. All errors look the same, so that they reveal nothing.
    pub(crate) async fn find_slack_target(&self, org: &str) -> Result<SlackTarget, AppError> {
        let unknown = || AppError::not_found("Slack connection");
        let org: OrgId = org.parse().map_err(|_| unknown())?;
        let vault = self.services.vault.clone();
        let loaded = self.services.store.read(Some(org), move |db| {
            let found = (slack_connection::find(db)?, slack_connection::load_signing_secret(db)?);
            let (Some(connection), Some(sealed)) = found else { return Ok(None) };
            let secret = vault.open_slack_signing_secret(db, org, &connection.workspace_id, &sealed)?;
            Ok::<_, AppError>(Some(SlackTarget { org, workspace: connection.workspace_id, secret }))
        });
        loaded.await?.ok_or_else(unknown)
    }

    /// Verifies a request of Slack and does what it says.
    pub(crate) async fn receive_slack_request(
        &self,
        target: SlackTarget,
        headers: &HeaderMap,
        body: &[u8],
        request_id: String,
    ) -> Result<SlackAnswer, AppError> {
        let now = self.services.store.read(None, |db| Ok::<_, AppError>(db.now())).await?;
        let seconds = now.as_micros() / 1_000_000;
        let Some(signature) = verify_request(&target.secret, headers, body, seconds) else {
            if self.rates.is_first_denial(&format!("slack {}", target.org)) {
                tracing::warn!(org = %target.org, "request of Slack refused: signature missing, wrong or too old");
            }
            let text = "the signature of the request is missing, wrong or too old";
            return Err(AppError::unauthenticated(text));
        };
        self.rates.check_caller(&format!("slack {}", target.org)).map_err(AppError::rate_limited)?;
        let Some(request) = parse_request(body) else { return Ok(SlackAnswer::Ignored) };
        if request.workspace != target.workspace {
            let text = "this request is from another workspace than the one that is connected";
            return Err(AppError::unauthenticated(text));
        }
        match request.kind.clone() {
            SlackRequestKind::Command(text) => {
                let work = match parse(&text) {
                    Err(wrong) => return Ok(SlackAnswer::Reply(wrong)),
                    Ok(ChatCommand::Help) => {
                        return Ok(SlackAnswer::Reply(format!("The commands are {CHAT_COMMANDS_HELP}")));
                    }
                    Ok(ChatCommand::Connect(None)) => {
                        return Ok(SlackAnswer::Reply(self.explain_connect(target.org).await?));
                    }
                    Ok(ChatCommand::Connect(Some(code))) => SlackWork::Connect(code),
                    Ok(ChatCommand::StatusOfAll) => SlackWork::StatusOfAll,
                    Ok(ChatCommand::On(environment, command)) => SlackWork::On(environment, command),
                };
                Ok(SlackAnswer::Reply(
                    self.do_slack_work(target.org, signature, request, work, request_id).await?,
                ))
            }
            SlackRequestKind::Button { action, subject, response_url } => {
                let work = SlackWork::Button(action, subject);
                let said = self.do_slack_work(target.org, signature, request, work, request_id).await?;
                self.send_slack_reply(target.org, response_url, said);
                Ok(SlackAnswer::Accepted)
            }
        }
    }

    /// Does the work in one transaction with the record of the signature. Returns what to tell the member.
    async fn do_slack_work(
        &self,
        org: OrgId,
        signature: String,
        request: SlackRequest,
        work: SlackWork,
        request_id: String,
    ) -> Result<String, AppError> {
        let doubt = self.find_commit_doubt(org, &request, &work).await?;
        let context = TxContext { request_id: Some(request_id), ..TxContext::system(Some(org)) };
        let (plans, remembered) = (self.services.engine.run_cache().clone(), signature.clone());
        let done = self.services.store.transact(context, move |tx| {
            if !slack_connection::insert_request(tx, &remembered)? {
                let text = "this request was received before";
                return Err(WorkRefusal::Replayed(AppError::new(Code::InvalidState, text)));
            }
            // A refusal by a rule is committed as well, because the rule may have applied changes that were due.
            act(tx, org, &plans, request, work, doubt).map_err(WorkRefusal::Other)
        });
        let done = done.await;
        self.services.wake_engine();
        match done {
            Ok(text) => Ok(text),
            Err(WorkRefusal::Other(AppError::Problem(problem))) => {
                // Nothing was done, but a replay must not do it later.
                let remember = self.services.store.transact(TxContext::system(Some(org)), move |tx| {
                    Ok::<_, AppError>(slack_connection::insert_request(tx, &signature)?)
                });
                remember.await?;
                Ok(problem.detail)
            }
            Err(WorkRefusal::Replayed(error) | WorkRefusal::Other(error)) => Err(error),
        }
    }

    /// Returns why a commit that a command names cannot be used, if it is an ambiguous abbreviation.
    async fn find_commit_doubt(
        &self,
        org: OrgId,
        request: &SlackRequest,
        work: &SlackWork,
    ) -> Result<Option<AppError>, AppError> {
        let Some((environment, commit)) = named_commit(work) else { return Ok(None) };
        let (environment, user) = (environment.clone(), request.user.id.clone());
        let found = self.services.store.read(Some(org), move |db| {
            let Some(member) = find_member(db, org, &user)? else { return Ok(None) };
            Ok::<_, AppError>(find_environment(db, &member, &environment)?.ok())
        });
        let Some(found) = found.await? else { return Ok(None) };
        self.check_commit_ambiguity(org, found.pipeline.as_str(), Some(commit), "/text").await
    }

    /// Says how to link an account. The code is created in Berth by the logged-in member, so that members cannot be tricked
    /// into linking their Berth account to the Slack account of another person.
    async fn explain_connect(&self, org: OrgId) -> Result<String, AppError> {
        let found = self.services.store.read(Some(org), move |db| {
            Ok::<_, AppError>(organization::by_id(db, org)?.map(|found| found.slug.to_string()))
        });
        let slug = found.await?.unwrap_or_default();
        let base = self.config.base_url();
        Ok(format!(
            "Create a code in Berth at {base}/o/{slug}/profile, and send `/berth connect CODE` within 10 minutes."
        ))
    }

    /// Sends what a button did to the member who pressed it. Drops it if too many are being sent.
    fn send_slack_reply(&self, org: OrgId, response_url: String, text: String) {
        let Some(pass) = self.hook_calls.try_enter(org) else {
            tracing::warn!(%org, "reply to Slack dropped: too many at once");
            return;
        };
        let egress = self.services.egress.clone();
        tokio::spawn(async move {
            let body = json!({"response_type": "ephemeral", "replace_original": false, "text": text});
            match send_reply(&egress, response_url, body).await {
                Ok(Ok(())) => {}
                Ok(Err(why)) => tracing::warn!(%org, error = why, "reply to Slack not sent"),
                Err(error) => tracing::error!(%org, ?error, "reply to Slack not sent"),
            }
            drop(pass);
        });
    }
}

/// Why a transaction did nothing.
enum WorkRefusal {
    Replayed(AppError),
    Other(AppError),
}

impl From<berth_store::StoreError> for WorkRefusal {
    fn from(error: berth_store::StoreError) -> Self {
        WorkRefusal::Other(error.into())
    }
}

fn named_commit(work: &SlackWork) -> Option<(&EnvironmentName, &CommitId)> {
    match work {
        SlackWork::On(environment, EnvironmentCommand::Claim { commit: Some(commit), .. })
        | SlackWork::On(environment, EnvironmentCommand::Deploy { commit }) => Some((environment, commit)),
        SlackWork::On(..) | SlackWork::Button(..) | SlackWork::Connect(_) | SlackWork::StatusOfAll => None,
    }
}

/// Finds the person that a Slack account is linked to. `None` if there is none, or they may not act now.
fn find_member(
    db: &mut impl StoreRead,
    org: OrgId,
    slack_user: &str,
) -> Result<Option<ActingMember>, AppError> {
    let Some(connection) = slack_connection::find(db)? else { return Ok(None) };
    let linked = forge_account::find_member(db, &connection.account_host(), slack_user)?;
    let Some(linked) = linked else { return Ok(None) };
    Ok(load_member(db, org, linked)?.filter(|member| member.holder.kind == ActorType::User))
}

fn act(
    tx: &mut Tx<'_>,
    org: OrgId,
    plans: &berth_engine::RunCache,
    request: SlackRequest,
    work: SlackWork,
    doubt: Option<AppError>,
) -> Result<String, AppError> {
    if let SlackWork::Connect(code) = &work {
        let Some(connection) = slack_connection::find(tx)? else {
            return Err(AppError::not_found("Slack connection"));
        };
        let host = connection.account_host();
        return Ok(connect_account(tx, org, &host, request.user, code)?.unwrap_or_else(|refused| refused));
    }
    let Some(member) = find_member(tx, org, &request.user.id)? else { return Ok(UNKNOWN.to_owned()) };
    tx.set_actor(member.holder.actor());
    match work {
        SlackWork::Button(action, id) => Ok(match perform(tx, plans, &member, action, &id)? {
            Ok(done) => done.to_owned(),
            Err(AppError::Problem(problem)) => problem.detail,
            Err(fault) => return Err(fault),
        }),
        SlackWork::StatusOfAll => status_of_all(tx, &member),
        SlackWork::On(environment, command) => {
            doubt.map_or(Ok(()), Err)?;
            let found = match find_environment(tx, &member, &environment)? {
                Ok(found) => found,
                Err(unknown) => return Ok(unknown),
            };
            Ok(operate(tx, &member, &found, command)?.unwrap_or_else(|refused| refused))
        }
        SlackWork::Connect(_) => Err(AppError::bug("a code that is used elsewhere")),
    }
}
