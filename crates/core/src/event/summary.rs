//! Event summaries: one line of plain text for the dashboard, the CLI and webhooks.
//!
//! A summary is computed whenever an event is read; it is neither stored nor part of the hash chain. It contains names
//! and selected fields of `data`, never all of `data`.

use serde_json::Value;

use super::Event;

/// Longer summaries are truncated.
const SUMMARY_CHARS_MAX: usize = 1_000;
const COMMIT_CHARS_SHOWN: usize = 8;
/// A commit of at least this many hexadecimal digits is treated as a full hash and shortened. Anything else is a
/// branch, a tag or an abbreviated hash.
const COMMIT_CHARS_MIN: usize = 20;

/// The last words of event kinds that report an outcome, each with the words that express it in the summary.
const OUTCOMES: [(&str, &str); 10] = [
    ("started", "started"),
    ("succeeded", "succeeded"),
    ("failed", "failed"),
    ("ended", "ended"),
    ("cancelling", "is being cancelled"),
    ("cancelled", "was cancelled"),
    ("superseded", "was superseded"),
    ("unknown", "has an unknown outcome"),
    ("installed", "was installed"),
    ("uninstalled", "was uninstalled"),
];

/// Summarizes an event. `pipeline` is the slug of its pipeline, if known.
pub fn summarize(event: &Event, pipeline: Option<&str>) -> String {
    let facts = SummaryFacts { event, pipeline };
    let actor = event.actor.name.as_str();
    let holder = facts.text("holder").unwrap_or_else(|| actor.to_owned());
    let ended_by = facts.text("endedBy").unwrap_or_else(|| actor.to_owned());
    let place = facts.place().unwrap_or_else(|| "a pipeline".to_owned());
    let reason = facts.first_of(&["reason", "detail", "error"]);
    let comment = facts.first_of(&["comment"]);
    let gated = format!("{}{place}", facts.gated_deployment());
    let named = |kind, fallback| facts.subject_name(kind).unwrap_or(fallback);
    let summary = match event.kind.as_str() {
        "session_claimed" => format!("{holder} claimed {place}{}", facts.first_of(&["context"])),
        "session_extended" => format!("{actor} extended the session in {place}"),
        "session_released" => format!("{ended_by} released {place}{reason}"),
        "session_overridden" => format!("{ended_by} took {place} over from {holder}{reason}"),
        "session_expired" => format!("The session of {holder} in {place} expired"),
        "session_expiring" => {
            let at = facts.text("expiresAt").map_or_else(|| "soon".to_owned(), |at| format!("at {at}"));
            format!("The session of {holder} in {place} expires {at}")
        }
        "session_handed_over" => {
            let to = facts.text("to").map(|to| format!(" to {to}")).unwrap_or_default();
            format!("{holder} handed {place} over{to}{reason}")
        }
        "ticket_queued" => match facts.text("takeover") {
            Some(_) => format!("{holder} will take {place} over{}{reason}", facts.takeover_time()),
            None => format!("{holder} joined the queue for {place}"),
        },
        "ticket_granted" => format!("{holder} was next in the queue and now holds {place}"),
        "ticket_cancelled" => format!("{holder} left the queue for {place}"),
        "ticket_updated" => format!("{holder} waits for {place} with another commit"),
        "ticket_expired" => format!("The ticket of {holder} for {place} expired"),
        "environment_drained" => format!("{place} was drained"),
        "environment_reset" => format!("{place} was reset"),
        "environment_restored" => format!("{place} was restored from a backup; its state is unknown"),
        "environment_fence_refused" => {
            format!("Alarm: a runner knows a later session of {place} than this server; its state is unknown")
        }
        "epoch_raised" => format!(
            "Alarm: runner {} knows fencing tokens that this database has lost; it may be an older copy",
            named("runner", "unknown")
        ),
        "epoch_refused" => format!(
            "Alarm: runner {} was refused; it reports fencing tokens that cannot have been issued",
            named("runner", "unknown")
        ),
        "drain_overridden" => format!("{actor} did not wait for {place} to drain{reason}"),
        "deployment_queued" => format!("Deployment {} was queued by {actor}{reason}", facts.deployment()),
        "deployment_rolled_back" => format!("{actor} rolled {place} back{reason}"),
        "rollback_skipped" => format!("{place} was not rolled back{reason}"),
        "promotion_paused" => format!("Promotion into {place} was paused{reason}"),
        "promotion_resumed" => format!("{actor} resumed promotion into {place}{reason}"),
        "finished_after_cancel" => format!("{} finished after it was cancelled", facts.part()),
        "approval_requested" => {
            format!("Approval requested for {gated}{}", facts.first_of(&["message"]))
        }
        "approval_voted" => format!("{actor} voted for {gated}{}{comment}", facts.votes()),
        "approval_approved" => format!("{actor} approved {gated}{comment}"),
        "approval_rejected" => format!("{actor} rejected {gated}{comment}"),
        "approval_expired" => format!("The approval of {gated} expired"),
        "approval_lapsed" => format!("The approval of {gated} lapsed{}", facts.lapse()),
        "bypass_used" => format!("{actor} bypassed the gates of {gated}{reason}"),
        "pipeline_stopped" => format!("{actor} paused new deployments of {place}{reason}"),
        "agents_stopped" => format!("{actor} stopped all agents{reason}"),
        "agents_resumed" => format!("{actor} resumed the agents"),
        "pipeline_resumed" => format!("{actor} resumed {place}{reason}"),
        "registry_built" => {
            format!("Registry {} was built{}", named("registry", "unknown"), facts.at_commit())
        }
        "registry_build_failed" => {
            format!("Build of registry {} failed{}{reason}", named("registry", "unknown"), facts.at_commit())
        }
        "member_invited" => format!("{actor} invited {}", named("invitation", "a person")),
        "invitation_revoked" => {
            format!("{actor} revoked the invitation of {}", named("invitation", "a person"))
        }
        "pull_request_approved" => {
            let commit = facts.text("commitId").unwrap_or_default();
            format!("{actor} approved commit {commit} of pull request {}", named("pull_request", "unknown"))
        }
        "forge_account_linked" => {
            format!("{} linked the forge account {}", named("user", "A member"), facts.forge_account())
        }
        "forge_account_unlinked" => format!("{actor} unlinked the forge account {}", facts.forge_account()),
        "team_member_added" => {
            format!("{actor} added {} to the team {}", named("user", "a member"), named("team", "unknown"))
        }
        "team_member_removed" => {
            format!(
                "{actor} removed {} from the team {}",
                named("user", "a member"),
                named("team", "unknown")
            )
        }
        "notification_rules_updated" => match facts.subject_name("team") {
            Some(team) => format!("{actor} changed the notification rules of the team {team}"),
            None if facts.subject_name("organization").is_some() => {
                format!("{actor} changed the notification rules of the organization")
            }
            None => format!("{actor} changed their notification rules"),
        },
        "slack_connected" => {
            format!("{actor} connected the Slack workspace{}", facts.first_of(&["workspace"]))
        }
        "slack_disconnected" => {
            format!("{actor} disconnected the Slack workspace{}", facts.first_of(&["workspace"]))
        }
        "grant_created" | "grant_deleted" => facts.grant(actor),
        "login_succeeded" => match facts.text("provider") {
            Some(provider) => format!("{actor} logged in through {provider}"),
            None => format!("{actor} logged in"),
        },
        "login_failed" => format!("{actor} failed to log in"),
        "login_ended" => format!("{actor} logged out"),
        "logins_ended" => format!("{} was logged out everywhere by {actor}", named("user", "a member")),
        "cli_login_approved" => format!("{actor} approved a CLI login{}", facts.first_of(&["machine"])),
        "cli_login_denied" => format!("{actor} denied a CLI login{}", facts.first_of(&["machine"])),
        "identity_linked" => format!("{actor} linked the account at {}", facts.provider()),
        "identity_unlinked" => format!("{actor} unlinked the account at {}", facts.provider()),
        "account_provisioned" => {
            format!("{} created the account of {}", facts.provider(), named("user", "a person"))
        }
        "access_suspended" => {
            format!("Access of {} was suspended by {}{reason}", named("user", "a person"), facts.provider())
        }
        "access_restored" => format!("Access of {} was restored", named("user", "a person")),
        "password_changed" => format!("{actor} changed the password"),
        "password_reset_requested" => {
            format!("A link to reset the password of {} was created", named("user", "a user"))
        }
        "second_factor_enabled" => format!("{actor} switched on the second factor"),
        "second_factor_disabled" => format!("{actor} switched off the second factor"),
        "second_factor_reset" => format!("{actor} reset the second factor of {}", named("user", "a user")),
        "recovery_codes_replaced" => format!("{actor} created new recovery codes"),
        "recovery_code_used" => format!("{actor} used a recovery code"),
        "access_denied" => {
            format!("{actor} was denied access{}", facts.first_of(&["permission", "code"]))
        }
        "id_token_issued" => {
            let audience = facts.text("audience").map(|it| format!(" for {it}")).unwrap_or_default();
            format!("{} received an ID token{audience}", facts.part())
        }
        "image_pinned" => {
            let [image, digest] = ["image", "digest"].map(|fact| facts.text(fact).unwrap_or_default());
            format!("The image {image} was pinned to {digest}")
        }
        "events_removed" => match facts.text("through") {
            Some(last) => format!("Events up to no. {last} were removed after their retention period"),
            None => "Old events were removed after their retention period".to_owned(),
        },
        kind => facts.summarize_by_name(kind, &reason),
    };
    truncate(&summary)
}

struct SummaryFacts<'e> {
    event: &'e Event,
    pipeline: Option<&'e str>,
}

impl SummaryFacts<'_> {
    fn text(&self, fact: &str) -> Option<String> {
        let value = self.event.data.get(fact)?;
        value.as_str().map(str::to_owned).or_else(|| value.as_i64().map(|number| number.to_string()))
    }

    /// A suffix such as `: hotfix`, from the first of these fields that is not empty.
    fn first_of(&self, facts: &[&str]) -> String {
        let found = facts.iter().find_map(|fact| self.text(fact).filter(|text| !text.is_empty()));
        found.map(|text| format!(": {text}")).unwrap_or_default()
    }

    fn subject_name(&self, kind: &str) -> Option<&str> {
        self.event.subjects.iter().find(|subject| subject.kind == kind)?.name.as_deref()
    }

    /// Where it happened: `qa-1 of web`, `staging of web` or `web`.
    fn place(&self) -> Option<String> {
        let inner = self.subject_name("environment").map(str::to_owned).or_else(|| self.text("stage"));
        match (inner, self.pipeline.or_else(|| self.subject_name("pipeline"))) {
            (Some(inner), Some(pipeline)) => Some(format!("{inner} of {pipeline}")),
            (inner, pipeline) => inner.or_else(|| pipeline.map(str::to_owned)),
        }
    }

    /// The step and where it ran, such as `Step test in staging of web`; without a step, the deployment.
    fn part(&self) -> String {
        match self.subject_name("step") {
            Some(_) => format!("Step{}", self.object("step")),
            None => format!("Deployment {}", self.deployment()),
        }
    }

    /// The deployment, such as `#42 of web (9fceb02)`.
    fn deployment(&self) -> String {
        let number = self.text("number").map_or_else(|| "in ".to_owned(), |number| format!("#{number} of "));
        let place = self.place().unwrap_or_else(|| "a pipeline".to_owned());
        let commit = self.text("commitId").map(|commit| format!(" ({})", shorten_commit(&commit)));
        format!("{number}{place}{}", commit.unwrap_or_default())
    }

    /// A prefix such as `deployment #42 to `, for the stage or environment that an approval is for.
    fn gated_deployment(&self) -> String {
        self.text("number").map(|number| format!("deployment #{number} to ")).unwrap_or_default()
    }

    /// A created or deleted grant, such as `Ada gave QA the role tester on environment:shop/qa-*`.
    fn grant(&self, actor: &str) -> String {
        let subject = self.subject_name("team").or_else(|| self.subject_name("user")).unwrap_or("a member");
        let (role, scope) = (self.text("role").unwrap_or_default(), self.text("scope").unwrap_or_default());
        match self.event.kind.as_str() {
            "grant_created" => format!("{actor} gave {subject} the role {role} on {scope}"),
            _ => format!("{actor} removed the role {role} on {scope} from {subject}"),
        }
    }

    /// The name of a forge account and the forge's host.
    fn forge_account(&self) -> String {
        let text = |name| self.text(name).unwrap_or_else(|| "unknown".to_owned());
        format!("{} at {}", text("account"), text("host"))
    }

    /// The name of an identity provider.
    fn provider(&self) -> String {
        self.text("provider").unwrap_or_else(|| "the identity provider".to_owned())
    }

    /// A suffix such as ` at 4f2a1c9e`.
    fn at_commit(&self) -> String {
        self.text("commit").map(|commit| format!(" at {}", shorten_commit(&commit))).unwrap_or_default()
    }

    /// The number of votes, such as ` (1 of 2)`.
    fn votes(&self) -> String {
        let counts = self.text("given").zip(self.text("approvals"));
        counts.map(|(given, wanted)| format!(" ({given} of {wanted})")).unwrap_or_default()
    }

    /// When an announced takeover happens.
    fn takeover_time(&self) -> String {
        let at = self.text("takeoverAt").map(|at| format!(" at {at}"));
        at.unwrap_or_else(|| " after the current deployment".to_owned())
    }

    fn lapse(&self) -> &'static str {
        match self.event.data.get("why").and_then(Value::as_str) {
            Some("changed") => ": what it was for has changed",
            Some("over") => ": nothing waits for it any more",
            _ => "",
        }
    }

    /// Summarizes an event from the name of its kind, which consists of a noun and a verb, such as `token_created`.
    fn summarize_by_name(&self, kind: &str, reason: &str) -> String {
        let actor = &self.event.actor.name;
        let (noun, verb) = kind.rsplit_once('_').unwrap_or(("", kind));
        let noun = noun.replace('_', " ");
        let object = self.object(&noun);
        if let Some((_, predicate)) = OUTCOMES.iter().find(|(outcome, _)| *outcome == verb) {
            return format!("{}{object} {predicate}{reason}", capitalize(&noun));
        }
        if !noun.is_empty() && (verb.ends_with("ed") || verb == "read") {
            format!("{actor} {verb} the {noun}{object}{reason}")
        } else {
            format!("{actor}: {}{object}{reason}", kind.replace('_', " "))
        }
    }

    /// The words that follow the noun in the summary: the object's name or location.
    fn object(&self, noun: &str) -> String {
        let first = self.event.subjects.first().filter(|it| it.kind != "organization" || it.kind == noun);
        let step = self.subject_name("step").map(|step| format!("{step} in ")).unwrap_or_default();
        match (noun, self.place()) {
            ("deployment", _) => format!(" {}", self.deployment()),
            ("stage" | "step", Some(place)) => format!(" {step}{place}"),
            (_, place) => match (first.and_then(|first| first.name.as_deref()), place) {
                (Some(name), _) => format!(" {name}"),
                (None, Some(place)) => format!(" of {step}{place}"),
                (None, None) => String::new(),
            },
        }
    }
}

fn capitalize(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

fn shorten_commit(commit: &str) -> &str {
    let is_hash = commit.len() >= COMMIT_CHARS_MIN && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_hash { &commit[..COMMIT_CHARS_SHOWN] } else { commit }
}

/// Converts to one line of at most [`SUMMARY_CHARS_MAX`] characters, plus an ellipsis if text was cut off.
fn truncate(text: &str) -> String {
    let mut chars = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut line: String = chars.by_ref().take(SUMMARY_CHARS_MAX).collect();
    if chars.next().is_some() {
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests;
