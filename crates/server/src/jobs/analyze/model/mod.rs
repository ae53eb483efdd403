//! Asks a model why a step failed. Every request is stored exactly as sent and recorded as an event.
//!
//! The model has no tools, sees only the files it is given, and gets no secret except its own API key. Its response is
//! treated as text. If anything fails here, the findings of the rules are used.

mod prompt;
mod provider;
mod response;

pub(super) use prompt::PromptFacts;

use std::time::Duration;

use aws_lc_rs::digest;
use berth_core::analysis::{Analysis, AnalysisModel, ModelLimits, TokenUsage};
use berth_core::event::EventKind;
use berth_core::id::OrgId;
use berth_core::secret::ScopePath;
use berth_core::time::Timestamp;
use berth_engine::credential::{RedactedString, random_base62};
use berth_engine::egress::{EgressFailure, EgressResponse, PostRequest};
use berth_engine::vault::hex;
use berth_store::TxContext;
use berth_store::tables::analysis::{self, ModelRequest};
use berth_store::tables::secret;
use tokio::sync::oneshot;

use super::result::StoredFindings;
use crate::error::AppError;
use berth_engine::Services;
use prompt::ModelPrompt;

const MARK_CHARS: usize = 24;
/// Maximum size of a response.
const ANSWER_BYTES_MAX: u64 = 1024 * 1024;
/// Maximum number of prompts per analysis: the first one, and one to correct an invalid response. If the provider is
/// busy, each is sent up to [`TRIES_MAX`] times.
const ROUNDS_MAX: usize = 2;
const TRIES_MAX: usize = 2;
/// Maximum `Retry-After` in seconds. If the provider requests a longer delay, the request is not retried.
const PATIENCE_S_MAX: i64 = 30;
const PATIENCE_S_DEFAULT: i64 = 2;
/// Length of the period that the token budget covers.
const BUDGET_DAYS: i64 = 30;

/// The first request that an analysis would send to the model.
pub(crate) struct PromptPreview {
    pub(crate) analyser: String,
    pub(crate) url: String,
    pub(crate) body: String,
}

pub(super) fn preview(model: &AnalysisModel, limits: ModelLimits, facts: &PromptFacts) -> PromptPreview {
    let prompt = ModelPrompt::new(facts, &random_marker());
    PromptPreview {
        analyser: model.analyser(),
        url: provider::url(model),
        body: provider::body(model, &prompt, limits.output_tokens_max),
    }
}

/// What the model found.
pub(super) struct ModelFindings {
    pub(super) found: StoredFindings,
    /// A suggested diff that has not been validated yet.
    pub(super) diff: Option<String>,
    pub(super) usage: TokenUsage,
}

/// Returns the model's findings. The inner `Err` tells the user why only the rules were used.
pub(super) async fn ask_model(
    services: &Services,
    org: OrgId,
    it: &Analysis,
    (model, limits): (&AnalysisModel, ModelLimits),
    facts: &PromptFacts,
) -> Result<Result<ModelFindings, String>, AppError> {
    let spent = services.store.read(Some(org), |db| {
        let since = db.now().plus_seconds(-BUDGET_DAYS * 24 * 60 * 60);
        Ok::<_, AppError>(analysis::count_tokens_since(db, since)?)
    });
    if spent.await? >= limits.monthly_tokens_max {
        let text =
            format!("the budget of {} tokens in {BUDGET_DAYS} days is spent", limits.monthly_tokens_max);
        return Ok(Err(text));
    }
    let key = match load_api_key(services, org, model).await? {
        Ok(key) => key,
        Err(why) => return Ok(Err(why)),
    };
    let mut asking =
        ModelConversation { services, org, it, model, limits, key, usage: TokenUsage::default() };
    let mut prompt = ModelPrompt::new(facts, &random_marker());
    for round in 1..=ROUNDS_MAX {
        let text = match asking.send(&prompt).await? {
            Ok(text) => text,
            Err(why) => return Ok(Err(why)),
        };
        match response::parse_response(&text, facts) {
            Ok((found, diff)) => return Ok(Ok(ModelFindings { found, diff, usage: asking.usage })),
            Err(complaints) if round < ROUNDS_MAX => prompt.repair(&text, &complaints),
            Err(_) => {}
        }
    }
    Ok(Err("its responses did not match the expected format".to_owned()))
}

/// Reads the API key from the secrets, which records an event in the audit log.
async fn load_api_key(
    services: &Services,
    org: OrgId,
    model: &AnalysisModel,
) -> Result<Result<Option<RedactedString>, String>, AppError> {
    let Some(name) = model.api_key.clone() else { return Ok(Ok(None)) };
    let vault = services.vault.clone();
    let read = services.store.transact(TxContext::system(Some(org)), move |tx| {
        let Some(found) = secret::by_name(tx, &name, &ScopePath::Organization)? else {
            return Ok(Err(format!("there is no secret {name} any more")));
        };
        Ok::<_, AppError>(Ok(Some(vault.reveal(tx, &found, found.version)?)))
    });
    read.await
}

struct ModelConversation<'a> {
    services: &'a Services,
    org: OrgId,
    it: &'a Analysis,
    model: &'a AnalysisModel,
    limits: ModelLimits,
    key: Option<RedactedString>,
    usage: TokenUsage,
}

impl ModelConversation<'_> {
    /// Sends a request and returns the response text. The inner `Err` tells the user why the request failed.
    async fn send(&mut self, prompt: &ModelPrompt) -> Result<Result<String, String>, AppError> {
        let body = provider::body(self.model, prompt, self.limits.output_tokens_max);
        for attempt in 1..=TRIES_MAX {
            let answered = self.post(body.clone()).await?;
            let understood = answered.as_ref().ok().filter(|it| (200..300).contains(&it.status));
            let understood = understood.and_then(|it| provider::parse_answer(self.model.provider, &it.body));
            let usage = understood.as_ref().map(|(_, usage)| *usage).unwrap_or_default();
            self.usage = self.usage.plus(usage);
            let why = describe_problem(&answered, understood.is_some());
            self.record_request(&body, &answered, why.clone(), usage).await?;
            let (Some(why), answered) = (why, answered.ok()) else {
                return Ok(understood.map(|(text, _)| text).ok_or_else(String::new));
            };
            let patience = answered.and_then(|it| retry_delay_s(&it)).filter(|_| attempt < TRIES_MAX);
            let Some(seconds) = patience else { return Ok(Err(why)) };
            let pause = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
            if self.services.shutdown.run_until_cancelled(tokio::time::sleep(pause)).await.is_none() {
                return Ok(Err("the server is stopping".to_owned()));
            }
        }
        Ok(Err("it did not respond".to_owned()))
    }

    /// Sends the request on a separate thread, so that a hanging provider does not block shutdown.
    async fn post(&self, body: String) -> Result<Result<EgressResponse, EgressFailure>, AppError> {
        let (tell, answer) = oneshot::channel();
        let (egress, limits) = (self.services.egress.clone(), self.limits);
        let headers = provider::headers(self.model, self.key.as_ref());
        let post = PostRequest { url: provider::url(self.model), headers, body };
        let limit = Duration::from_secs(u64::try_from(limits.timeout_s).unwrap_or(1));
        let started = std::thread::Builder::new().name("model".into()).spawn(move || {
            // This fails only if the server is stopping and the receiver no longer exists.
            let _ = tell.send(egress.post_within(&post, limit, ANSWER_BYTES_MAX));
        });
        started.map_err(|error| AppError::bug(format!("cannot start a thread: {error}")))?;
        answer.await.map_err(|_| AppError::bug("asking a model broke"))
    }

    async fn record_request(
        &self,
        body: &str,
        answered: &Result<EgressResponse, EgressFailure>,
        error: Option<String>,
        usage: TokenUsage,
    ) -> Result<(), AppError> {
        let call = ModelRequest {
            number: 0,
            analyser: self.model.analyser(),
            url: provider::url(self.model),
            body: body.to_owned(),
            hash: hex(digest::digest(&digest::SHA256, body.as_bytes()).as_ref()),
            status: answered.as_ref().ok().map(|it| i64::from(it.status)),
            error,
            usage,
            sent_at: Timestamp::from_micros(0),
        };
        let event = self
            .it
            .event(EventKind::AnalysisModelAsked)
            .with("analyser", call.analyser.as_str())
            .with("promptHash", call.hash.as_str())
            .with("inputTokens", usage.input_tokens)
            .with("outputTokens", usage.output_tokens)
            .with_some("status", call.status)
            .with_some("error", call.error.as_ref());
        let id = self.it.id;
        let noted = self.services.store.transact(TxContext::system(Some(self.org)), move |tx| {
            let call = ModelRequest { sent_at: tx.now(), ..call };
            analysis::record_request(tx, id, &call)?;
            Ok::<_, AppError>(tx.record(event)?)
        });
        noted.await
    }
}

fn random_marker() -> String {
    format!("data-{}", random_base62(MARK_CHARS))
}

/// Returns why a response cannot be used, or `None` if it can.
fn describe_problem(answered: &Result<EgressResponse, EgressFailure>, is_understood: bool) -> Option<String> {
    match answered {
        Err(failed) => Some(failed.why.clone()),
        Ok(it) if !(200..300).contains(&it.status) => Some(format!("it responded with {}", it.status)),
        Ok(_) if !is_understood => Some("its response does not match this API".to_owned()),
        Ok(_) => None,
    }
}

/// Returns the number of seconds until a retry, or `None` if the request must not be retried.
fn retry_delay_s(answered: &EgressResponse) -> Option<i64> {
    let is_busy = answered.status == 429 || answered.status >= 500;
    let asked = answered.retry_after_s.unwrap_or(PATIENCE_S_DEFAULT).max(0);
    (is_busy && asked <= PATIENCE_S_MAX).then_some(asked)
}
