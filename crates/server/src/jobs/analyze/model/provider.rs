//! The two supported APIs: Anthropic's Messages API and OpenAI's Chat Completions API.

use berth_core::analysis::{AnalysisModel, ModelProvider, TokenUsage};
use berth_engine::credential::RedactedString;
use serde_json::{Value, json};

use super::prompt::{MessageRole, ModelPrompt};

const ANTHROPIC: &str = "https://api.anthropic.com";
const ANTHROPIC_VERSION: &str = "2023-06-01";
const OPENAI: &str = "https://api.openai.com/v1";

pub(super) fn url(model: &AnalysisModel) -> String {
    let base = |default: &str| model.base_url.as_deref().unwrap_or(default).trim_end_matches('/').to_owned();
    match model.provider {
        ModelProvider::Anthropic => format!("{}/v1/messages", base(ANTHROPIC)),
        ModelProvider::Openai => format!("{}/chat/completions", base(OPENAI)),
    }
}

/// Returns the request headers. The API key is only in the headers, because the body is stored.
pub(super) fn headers(model: &AnalysisModel, key: Option<&RedactedString>) -> Vec<(&'static str, String)> {
    let mut headers = vec![("content-type", "application/json".to_owned())];
    match (model.provider, key) {
        (ModelProvider::Anthropic, key) => {
            headers.push(("anthropic-version", ANTHROPIC_VERSION.to_owned()));
            headers.extend(key.map(|key| ("x-api-key", key.reveal().to_owned())));
        }
        (ModelProvider::Openai, key) => {
            headers.extend(key.map(|key| ("authorization", format!("Bearer {}", key.reveal()))));
        }
    }
    headers
}

pub(super) fn body(model: &AnalysisModel, prompt: &ModelPrompt, output_tokens_max: i64) -> String {
    let said = prompt.messages.iter().map(|(role, text)| {
        let role = if *role == MessageRole::User { "user" } else { "assistant" };
        json!({ "role": role, "content": text })
    });
    let body = match model.provider {
        ModelProvider::Anthropic => json!({
            "model": model.name,
            "max_tokens": output_tokens_max,
            "system": prompt.system,
            "messages": said.collect::<Vec<_>>(),
        }),
        ModelProvider::Openai => {
            let system = json!({ "role": "system", "content": prompt.system });
            json!({
                "model": model.name,
                "max_tokens": output_tokens_max,
                "response_format": { "type": "json_object" },
                "messages": std::iter::once(system).chain(said).collect::<Vec<_>>(),
            })
        }
    };
    body.to_string()
}

/// Returns the response text and its token usage, or `None` if the response does not match the API.
pub(super) fn parse_answer(provider: ModelProvider, bytes: &[u8]) -> Option<(String, TokenUsage)> {
    let value: Value = serde_json::from_slice(bytes).ok()?;
    let tokens = |name: &str| value["usage"][name].as_i64().unwrap_or(0).max(0);
    match provider {
        ModelProvider::Anthropic => {
            let parts = value["content"].as_array()?;
            let text: String = parts.iter().filter_map(|part| part["text"].as_str()).collect();
            Some((
                text,
                TokenUsage { input_tokens: tokens("input_tokens"), output_tokens: tokens("output_tokens") },
            ))
        }
        ModelProvider::Openai => {
            let text = value["choices"][0]["message"]["content"].as_str()?.to_owned();
            let usage = TokenUsage {
                input_tokens: tokens("prompt_tokens"),
                output_tokens: tokens("completion_tokens"),
            };
            Some((text, usage))
        }
    }
}
