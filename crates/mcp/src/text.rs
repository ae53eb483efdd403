//! Short texts for the model. The structured content has everything else.

use serde_json::Value;

/// Returns one line about an environment.
pub(crate) fn describe_environment(pipeline: &str, environment: &Value) -> String {
    let name = format!("{pipeline}/{}", text_of(&environment["envName"]));
    let state = text_of(&environment["state"]);
    let mut line = match &environment["lock"] {
        Value::Null => format!("{name}: free, {state}"),
        lock => format!("{name}: held by {}, {state}", describe_holder(lock)),
    };
    if let Some(commit) = environment["deployedCommitId"].as_str() {
        line += &format!(", commit {commit} is deployed");
    }
    match environment["queueLength"].as_u64() {
        None | Some(0) => {}
        Some(waiting) => line += &format!(", {waiting} in the queue"),
    }
    line
}

fn describe_holder(lock: &Value) -> String {
    let mut text = text_of(&lock["holder"]["name"]).to_owned();
    if let Some(contact) = lock["contact"].as_str() {
        text += &format!(" for {contact:?}");
    }
    if let Some(context) = lock["context"].as_str() {
        text += &format!(" ({context:?})");
    }
    match lock["expiresAt"].as_str() {
        Some(end) => text + &format!(" until {end}"),
        None => text + " without an end",
    }
}

/// Returns the state of a session, and what the holder can do next.
pub(crate) fn describe_session(environment: &str, session: &Value) -> String {
    let id = text_of(&session["sessionId"]);
    if session["status"] != "active" {
        return format!("Session {id} of {environment} has ended: {}.", text_of(&session["status"]));
    }
    let mut text = format!("You hold {environment} in session {id}");
    match session["expiresAt"].as_str() {
        Some(end) => text += &format!(" until {end}."),
        None => text += "; it does not expire.",
    }
    if let Some(deployment) = session["deploymentId"].as_str() {
        text += &format!(" Deployment {deployment} was started: call deployment_status.");
    }
    if let Some(by) = session["takeover"]["by"]["name"].as_str() {
        let at = session["takeover"]["at"].as_str().unwrap_or("the end of the running deployment");
        text += &format!(" {by} takes over at {at}.");
    }
    text + " Call release_session when you are done."
}

/// Returns the state of a ticket, and what to do next.
pub(crate) fn describe_ticket(environment: &str, ticket: &Value) -> String {
    let id = text_of(&ticket["ticketId"]);
    match text_of(&ticket["status"]) {
        "granted" => format!(
            "Ticket {id}: {environment} is yours in session {}. Call release_session when you are done.",
            text_of(&ticket["sessionId"])
        ),
        "waiting" => {
            let holder = text_of(&ticket["holder"]["name"]);
            let mut text = format!(
                "Ticket {id} of {holder} is at position {} of the queue for {environment}",
                ticket["position"]
            );
            if let Some(seconds) = ticket["etaSeconds"].as_u64() {
                text += &format!(", about {} min to wait", seconds.div_ceil(60));
            }
            if let Some(at) = ticket["takeoverAt"].as_str() {
                text += &format!(", takes over at {at}");
            }
            text + ". Call queue_status with this ticketId and waitSeconds."
        }
        status => {
            format!("Ticket {id} for {environment} has ended: {status}. Claim again if you still need it.")
        }
    }
}

pub(crate) fn is_deployment_finished(deployment: &Value) -> bool {
    matches!(text_of(&deployment["status"]), "succeeded" | "failed" | "cancelled" | "superseded")
}

/// Returns the state of a deployment, its steps, and what to do next.
pub(crate) fn describe_deployment(deployment: &Value) -> String {
    let (id, status) = (text_of(&deployment["id"]), text_of(&deployment["status"]));
    let mut lines =
        vec![format!("Deployment {id} of commit {}: {status}.", text_of(&deployment["commitId"]))];
    lines.extend(deployment["detail"].as_str().map(|detail| format!("Detail: {detail}")));
    let blockers = deployment["blockedBy"].as_array().map(Vec::as_slice).unwrap_or_default();
    lines.extend(blockers.iter().map(|blocker| format!("Waits for: {}", text_of(&blocker["detail"]))));
    for step in steps_of(deployment) {
        let mut line = format!(
            "- step {} ({}): {}",
            text_of(&step["step"]),
            text_of(&step["id"]),
            text_of(&step["status"])
        );
        if let Some(detail) = step["detail"].as_str() {
            line += &format!(", {detail}");
        }
        lines.push(line);
    }
    lines.extend(match status {
        "failed" => Some(format!("Call analyze_failure and read_log with deploymentId {id}.")),
        "succeeded" | "cancelled" | "superseded" => None,
        _ => Some(format!(
            "It has not finished. Call deployment_status with deploymentId {id} and waitSeconds."
        )),
    });
    lines.join("\n")
}

/// Returns one line for a progress notification.
pub(crate) fn describe_deployment_progress(deployment: &Value) -> String {
    let steps = steps_of(deployment);
    let named = |status: &str| -> Vec<&str> {
        steps.iter().filter(|step| step["status"] == status).map(|step| text_of(&step["step"])).collect()
    };
    let mut text = text_of(&deployment["status"]).to_owned();
    if !steps.is_empty() {
        text += &format!(", {} of {} steps succeeded", named("succeeded").len(), steps.len());
    }
    let running = named("running");
    if !running.is_empty() {
        text += &format!(", running: {}", running.join(", "));
    }
    text
}

fn steps_of(deployment: &Value) -> Vec<&Value> {
    let stages = deployment["stages"].as_array().map(Vec::as_slice).unwrap_or_default();
    stages.iter().filter_map(|stage| stage["steps"].as_array()).flatten().collect()
}

fn text_of(value: &Value) -> &str {
    value.as_str().unwrap_or("?")
}
