//! Errors of tools: what went wrong, and which call to make next.

use rmcp::model::{CallToolResult, ContentBlock, JsonObject};
use serde_json::{Value, json};

/// Why a tool call failed.
#[derive(Debug)]
pub(crate) enum ToolFailure {
    /// The API refused the request: its problem body.
    Refused(Value),
    /// The arguments do not fit the tool's schema.
    InvalidArguments(String),
    /// There is nothing to return yet, such as the log of a step that has not started.
    NotYet(String),
    /// There was no response.
    Unreachable(String),
    /// The client cancelled the call.
    Cancelled,
}

impl ToolFailure {
    /// Returns the result of the failed call of this tool with these arguments.
    pub(crate) fn into_result(self, tool: &str, arguments: &JsonObject) -> CallToolResult {
        let mut problem = self.into_problem();
        let next = suggest_next_call(tool, arguments, &problem);
        let mut text = describe_problem(&problem);
        if let Some(next) = &next {
            text += &format!("\nNext: {next}");
        }
        problem["next"] = next.unwrap_or_default();
        let mut result = CallToolResult::structured_error(problem);
        result.content = vec![ContentBlock::text(text)];
        result
    }

    /// Returns the problem body; for failures that are not from the API, one with `code` and `detail`.
    pub(crate) fn into_problem(self) -> Value {
        match self {
            ToolFailure::Refused(problem) if problem.is_object() => problem,
            ToolFailure::Refused(_) => {
                json!({"code": "internal", "detail": "the server sent an error without a description"})
            }
            ToolFailure::InvalidArguments(detail) => json!({"code": "invalid_arguments", "detail": detail}),
            ToolFailure::NotYet(detail) => json!({"code": "not_yet", "detail": detail}),
            ToolFailure::Unreachable(detail) => json!({"code": "unreachable", "detail": detail}),
            ToolFailure::Cancelled => {
                json!({"code": "cancelled", "detail": "the call was cancelled; what it has started continues"})
            }
        }
    }
}

/// Returns the problem as text: the code, the detail, and every invalid field if there are several.
pub(crate) fn describe_problem(problem: &Value) -> String {
    let part = |name: &str| problem[name].as_str().unwrap_or_default();
    let mut text = format!("{}: {}", part("code"), part("detail"));
    let errors = problem["errors"].as_array().map(Vec::as_slice).unwrap_or_default();
    for error in errors.iter().filter(|_| errors.len() > 1) {
        let part = |name: &str| error[name].as_str().unwrap_or_default();
        text += &format!("\n{} {}", part("pointer"), part("detail"));
    }
    if let Some(names) = problem["grantedBy"].as_array().filter(|names| !names.is_empty()) {
        let names: Vec<&str> = names.iter().filter_map(Value::as_str).collect();
        text += &format!("\nMembers who can grant the permission: {}", names.join(", "));
    }
    text
}

/// Returns the call that is likely to help, as `{"tool", "arguments"}`. `None` if only a person can help, or if the
/// arguments themselves were wrong.
fn suggest_next_call(tool: &str, arguments: &JsonObject, problem: &Value) -> Option<Value> {
    let with = |names: &[&str]| -> JsonObject {
        let kept = names.iter().filter_map(|name| Some(((*name).to_owned(), arguments.get(*name)?.clone())));
        kept.collect()
    };
    let call = |tool: &str, arguments: JsonObject| Some(json!({"tool": tool, "arguments": arguments}));
    match problem["code"].as_str()? {
        // The caller holds it already, in a session that the problem names.
        "environment_locked" if problem["self"] == true => {
            let mut arguments = with(&["environment", "commitId"]);
            arguments.insert("sessionId".into(), problem["sessionId"].clone());
            match arguments.contains_key("commitId") {
                true => call("deploy_commit", arguments),
                false => call("extend_session", arguments),
            }
        }
        "environment_locked" => {
            let mut arguments = match tool {
                "claim_environment" => arguments.clone(),
                _ => with(&["environment", "commitId"]),
            };
            arguments.insert("queue".into(), true.into());
            call("claim_environment", arguments)
        }
        "not_session_holder" | "session_not_active" => {
            let mut arguments = with(&["environment", "commitId"]);
            arguments.insert("queue".into(), true.into());
            call("claim_environment", arguments)
        }
        "not_found" if arguments.contains_key("environment") => call("list_environments", JsonObject::new()),
        "not_yet" => call("deployment_status", with(&["deploymentId"])),
        "rate_limited" | "unavailable" | "request_timeout" | "idempotency_in_progress" | "unreachable" => {
            call(tool, arguments.clone())
        }
        "cancelled" if arguments.contains_key("deploymentId") => {
            call("deployment_status", with(&["deploymentId"]))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(value: &Value) -> JsonObject {
        value.as_object().cloned().unwrap_or_default()
    }

    #[test]
    fn error_of_a_held_environment_suggests_the_queue() {
        let asked = arguments(&json!({"environment": "shop/qa-1", "commitId": "4f2a1c9"}));
        let problem = json!({"code": "environment_locked", "detail": "held by Grace"});
        let result = ToolFailure::Refused(problem).into_result("claim_environment", &asked);
        assert_eq!(result.is_error, Some(true));
        let next = json!({"tool": "claim_environment", "arguments": {"environment": "shop/qa-1", "commitId": "4f2a1c9", "queue": true}});
        assert_eq!(result.structured_content.expect("content")["next"], next);
    }

    #[test]
    fn error_of_an_environment_held_by_the_caller_suggests_its_session() {
        let asked = arguments(&json!({"environment": "shop/qa-1", "commitId": "4f2a1c9"}));
        let problem = json!({"code": "environment_locked", "self": true, "sessionId": "ses_1"});
        let next = suggest_next_call("claim_environment", &asked, &problem).expect("a call");
        assert_eq!(next["tool"], "deploy_commit");
        assert_eq!(next["arguments"]["sessionId"], "ses_1");
    }

    #[test]
    fn error_that_only_a_person_can_solve_has_no_next_call() {
        for code in ["forbidden", "unauthenticated", "invalid_arguments", "invalid_request"] {
            assert_eq!(
                suggest_next_call("release_session", &JsonObject::new(), &json!({"code": code})),
                None
            );
        }
    }

    #[test]
    fn error_text_names_who_can_grant_the_permission() {
        let problem = json!({"code": "forbidden", "detail": "no", "grantedBy": ["Ada", "Bob"]});
        assert!(describe_problem(&problem).ends_with("grant the permission: Ada, Bob"));
    }
}
