//! An event in a line of plain words, for people in a chat.

use serde_json::Value;

use crate::event::{Actor, Event};

/// Characters of a line; what is longer is cut.
const LINE_CHARS_MAX: usize = 1_000;

/// `pipeline` is the slug of the pipeline it is about, where that is known.
pub fn words(event: &Event, pipeline: Option<&str>) -> String {
    let told = Told { event, pipeline };
    let actor = &event.actor.name;
    let line = match event.kind.as_str() {
        "session_claimed" => {
            format!("{} claimed {}{}", told.text("holder"), told.place(), told.why("context"))
        }
        "session_overridden" => {
            format!(
                "{} took {} over from {}{}",
                told.text("endedBy"),
                told.place(),
                told.text("holder"),
                told.why("reason")
            )
        }
        "session_released" => {
            format!("{} released {}{}", told.text("endedBy"), told.place(), told.why("reason"))
        }
        "session_expired" => {
            format!("the session of {} in {} has expired", told.text("holder"), told.place())
        }
        "session_expiring" => {
            format!(
                "the session of {} in {} ends at {}",
                told.text("holder"),
                told.place(),
                told.text("expiresAt")
            )
        }
        "session_handed_over" => {
            format!("{} handed {} over{}", told.text("holder"), told.place(), told.why("reason"))
        }
        "ticket_queued" => format!("{} waits in line for {}", told.text("holder"), told.place()),
        "ticket_granted" => format!("{} was next in line and has {} now", told.text("holder"), told.place()),
        "ticket_cancelled" => format!("{} left the line for {}", told.text("holder"), told.place()),
        "ticket_expired" => format!("{} waited in line for {} in vain", told.text("holder"), told.place()),
        "deployment_queued" => format!("deployment {} is queued", told.deployment()),
        "deployment_started" => format!("deployment {} has begun", told.deployment()),
        "deployment_succeeded" => format!("deployment {} succeeded", told.deployment()),
        "deployment_failed" => format!("deployment {} failed{}", told.deployment(), told.why("detail")),
        "deployment_cancelled" => {
            format!("deployment {} was cancelled{}", told.deployment(), told.why("reason"))
        }
        "deployment_rolled_back" => {
            format!("{} was rolled back by {actor}{}", told.place(), told.why("reason"))
        }
        "approval_requested" => format!("{} waits for approval{}", told.gated(), told.why("message")),
        "approval_voted" => {
            format!("{actor} voted for {}{}{}", told.gated(), told.votes(), told.why("comment"))
        }
        "approval_approved" => format!("{actor} approved {}{}", told.gated(), told.why("comment")),
        "approval_rejected" => format!("{actor} rejected {}{}", told.gated(), told.why("comment")),
        "approval_expired" => format!("nobody approved {} in time", told.gated()),
        "approval_lapsed" => format!("the approval of {} lapsed{}", told.gated(), told.lapse()),
        "bypass_used" => format!("{actor} passed the gates of {}{}", told.gated(), told.why("reason")),
        "pipeline_stopped" => format!("{actor} stopped {}{}", told.place(), told.why("reason")),
        "pipeline_resumed" => format!("{actor} resumed {}{}", told.place(), told.why("reason")),
        "registry_built" => format!("registry {} was built{}", told.registry(), told.at_commit()),
        "registry_build_failed" => {
            format!(
                "registry {} could not be built{}{}",
                told.registry(),
                told.at_commit(),
                told.why("error")
            )
        }
        "events_removed" => {
            format!("events up to no. {} were removed, because they were old", told.text("through"))
        }
        _ => told.plainly(),
    };
    cut(&one_line(&line))
}

struct Told<'e> {
    event: &'e Event,
    pipeline: Option<&'e str>,
}

impl Told<'_> {
    fn text(&self, fact: &str) -> String {
        self.maybe(fact).unwrap_or_else(|| "somebody".to_owned())
    }

    fn maybe(&self, fact: &str) -> Option<String> {
        let value = self.event.data.get(fact)?;
        value.as_str().map(str::to_owned).or_else(|| value.as_i64().map(|number| number.to_string()))
    }

    /// `: hotfix`, or nothing.
    fn why(&self, fact: &str) -> String {
        self.maybe(fact).filter(|why| !why.is_empty()).map(|why| format!(": {why}")).unwrap_or_default()
    }

    fn named(&self, kind: &str) -> Option<&str> {
        let found = self.event.subjects.iter().find(|subject| subject.kind == kind)?;
        found.name.as_deref()
    }

    fn pipeline(&self) -> Option<&str> {
        self.pipeline.or_else(|| self.named("pipeline"))
    }

    /// `qa-1 of web`.
    fn place(&self) -> String {
        let inner = self.named("environment").map(str::to_owned).or_else(|| self.maybe("stage"));
        match (inner, self.pipeline()) {
            (Some(inner), Some(pipeline)) => format!("{inner} of {pipeline}"),
            (Some(inner), None) => inner,
            (None, Some(pipeline)) => pipeline.to_owned(),
            (None, None) => "it".to_owned(),
        }
    }

    /// `#42 of web (9fceb02)`.
    fn deployment(&self) -> String {
        let number = self.maybe("number").map(|number| format!("#{number} of "));
        let commit = self.maybe("commitId").map(|commit| format!(" ({commit})"));
        let place = match number {
            Some(_) => self.place(),
            None => format!("in {}", self.place()),
        };
        format!("{}{place}{}", number.unwrap_or_default(), commit.unwrap_or_default())
    }

    fn registry(&self) -> &str {
        self.named("registry").unwrap_or("of custom steps")
    }

    /// ` at 4f2a1c9e07`, or nothing.
    fn at_commit(&self) -> String {
        self.maybe("commit")
            .map(|commit| format!(" at {}", crate::registry::short(&commit)))
            .unwrap_or_default()
    }

    /// What an approval is for.
    fn gated(&self) -> String {
        let number =
            self.maybe("number").map(|number| format!("deployment #{number} to ")).unwrap_or_default();
        format!("{number}{}", self.place())
    }

    /// ` (1 of 2)`, or nothing.
    fn votes(&self) -> String {
        let (given, wanted) = (self.maybe("given"), self.maybe("approvals"));
        given.zip(wanted).map(|(given, wanted)| format!(" ({given} of {wanted})")).unwrap_or_default()
    }

    fn lapse(&self) -> &'static str {
        match self.event.data.get("why").and_then(Value::as_str) {
            Some("changed") => ": what it was for has changed",
            Some("over") => ": nothing waits for it any more",
            _ => "",
        }
    }

    /// `ada: webhook updated (ops)`.
    fn plainly(&self) -> String {
        let Actor { name, .. } = &self.event.actor;
        let what = self.event.kind.replace('_', " ");
        let about: Vec<&str> = [self.named("environment"), self.pipeline()].into_iter().flatten().collect();
        let about = match (about.as_slice(), self.event.subjects.first()) {
            ([], None) => String::new(),
            ([], Some(first)) => format!(" ({})", first.name.as_deref().unwrap_or(&first.id)),
            (some, _) => format!(" ({})", some.join(" of ")),
        };
        format!("{name}: {what}{about}{}", self.why("reason"))
    }
}

fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn cut(text: &str) -> String {
    crate::wording::cut(text, LINE_CHARS_MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::access::Role;
    use crate::approval::{
        Approval, Ballot, Choice, Electorate, Lapse, Request, Voter, expire, lapse, request, vote,
    };
    use crate::event::{ActorKind, EventKind, NewEvent, Subject};
    use crate::id::{ApprovalId, DeploymentId, EventId, OrgId, PipelineId, UserId};
    use crate::name::Reason;
    use crate::pipeline::model::Requires;
    use crate::pipeline::seconds::Seconds;
    use crate::time::Timestamp;

    const NOON: Timestamp = Timestamp::from_micros(1_763_200_800_000_000);

    fn event(kind: &str, subjects: &[(&str, Option<&str>)], data: Value) -> Event {
        let subject = |(kind, name): &(&str, Option<&str>)| Subject::new(kind, format!("{kind}_1"), *name);
        Event {
            id: EventId::from_parts(NOON, [1; 10]),
            org: OrgId::from_parts(NOON, [2; 10]),
            sequence: 1,
            kind: kind.into(),
            occurred_at: NOON,
            actor: Actor { kind: ActorKind::User, id: None, name: "ada".into(), token: None },
            request_id: None,
            subjects: subjects.iter().map(subject).collect(),
            data,
            previous_hash: String::new(),
            hash: String::new(),
        }
    }

    #[test]
    fn events_in_plain_words() {
        let qa: &[(&str, Option<&str>)] = &[("environment", Some("qa-1")), ("pipeline", None)];
        let dep: &[(&str, Option<&str>)] = &[("deployment", None), ("pipeline", None)];
        for (kind, subjects, data, wanted) in [
            (
                "session_overridden",
                qa,
                json!({"holder": "bob", "endedBy": "ada", "reason": "hotfix"}),
                "ada took qa-1 of web over from bob: hotfix",
            ),
            (
                "session_overridden",
                qa,
                json!({"holder": "bob", "endedBy": "ada"}),
                "ada took qa-1 of web over from bob",
            ),
            ("ticket_granted", qa, json!({"holder": "gil"}), "gil was next in line and has qa-1 of web now"),
            (
                "deployment_failed",
                dep,
                json!({"number": 42, "commitId": "9fceb02", "detail": "step \"deploy\" exited with 1"}),
                "deployment #42 of web (9fceb02) failed: step \"deploy\" exited with 1",
            ),
            (
                "deployment_failed",
                &[("deployment", None), ("environment", Some("qa-1")), ("pipeline", None)],
                json!({"commitId": "9fceb02", "detail": "lost"}),
                "deployment in qa-1 of web (9fceb02) failed: lost",
            ),
            (
                "approval_rejected",
                dep,
                json!({"stage": "production", "comment": "not\ntoday"}),
                "ada rejected production of web: not today",
            ),
            (
                "registry_build_failed",
                &[("registry", Some("tools"))],
                json!({"commit": "4f2a1c9e07b3d5", "error": "npm ci exited with 1"}),
                "registry tools could not be built at 4f2a1c9e07: npm ci exited with 1",
            ),
            ("member_added", &[("user", Some("gil"))], json!({}), "ada: member added (gil)"),
            ("something_new", &[], json!({}), "ada: something new"),
        ] {
            let pipeline = subjects.iter().any(|(kind, _)| *kind == "pipeline").then_some("web");
            assert_eq!(words(&event(kind, subjects, data), pipeline), wanted);
        }
    }

    fn asked(message: Option<&str>) -> (Approval, Vec<NewEvent>) {
        let asked = Request {
            id: ApprovalId::from_parts(NOON, [3; 10]),
            deployment: DeploymentId::from_parts(NOON, [4; 10]),
            number: 42,
            pipeline: PipelineId::from_parts(NOON, [5; 10]),
            stage: "production".into(),
            step: None,
            rule: Requires {
                approvals: 2,
                from: Vec::new(),
                self_approval: true,
                timeout: Some(Seconds::from_secs(60)),
            },
            message: message.map(str::to_owned),
            digest: "sha256:one".into(),
        };
        let decision = request(asked, 2, NOON);
        (decision.answer, decision.events)
    }

    fn answered(approval: &Approval, person: u8, choice: Choice, comment: &str) -> (Approval, Vec<NewEvent>) {
        let person = UserId::from_parts(NOON, [person; 10]);
        let by = Actor { kind: ActorKind::User, id: Some(person), name: "ada".into(), token: None };
        let voter = Voter { by, person, role: Role::Owner, emails: Vec::new() };
        let others = approval.votes.iter().map(|vote| Voter { person: vote.person, ..voter.clone() });
        let voters = others.chain([voter.clone()]).collect();
        let electorate = Electorate { voters, ..Electorate::default() };
        let ballot = Ballot { voter, choice, comment: Reason::parse(comment).ok() };
        let ruling = vote(approval, &ballot, "sha256:one", &electorate, NOON);
        (ruling.answer.unwrap(), ruling.events)
    }

    fn lines(made: &[NewEvent]) -> Vec<String> {
        let line = |it: &NewEvent| {
            let made = event(it.kind.as_str(), &[], it.data.clone());
            words(&Event { subjects: it.subjects.clone(), ..made }, Some("web"))
        };
        made.iter().map(line).collect()
    }

    #[test]
    fn what_becomes_of_an_approval_is_told_with_its_number_and_what_people_said() {
        let (pending, made) = asked(None);
        assert_eq!(lines(&made), ["deployment #42 to production of web waits for approval"]);
        let (_, made) = asked(Some("look at the graphs"));
        assert_eq!(
            lines(&made),
            ["deployment #42 to production of web waits for approval: look at the graphs"]
        );
        let (once, made) = answered(&pending, 1, Choice::Approve, "fine");
        assert_eq!(lines(&made), ["ada voted for deployment #42 to production of web (1 of 2): fine"]);
        let (_, made) = answered(&once, 2, Choice::Approve, "go");
        assert_eq!(
            lines(&made),
            [
                "ada voted for deployment #42 to production of web (2 of 2): go",
                "ada approved deployment #42 to production of web: go",
            ]
        );
        let (_, made) = answered(&once, 2, Choice::Reject, "not today");
        assert_eq!(lines(&made), ["ada rejected deployment #42 to production of web: not today"]);
        let made = expire(&pending, &Electorate::default(), NOON.plus_seconds(60)).events;
        assert_eq!(lines(&made), ["nobody approved deployment #42 to production of web in time"]);
        for (why, wanted) in [
            (Lapse::Changed, "lapsed: what it was for has changed"),
            (Lapse::Over, "lapsed: nothing waits for it any more"),
        ] {
            let made = lapse(&pending, why, NOON).events;
            assert_eq!(
                lines(&made),
                [format!("the approval of deployment #42 to production of web {wanted}")]
            );
        }
    }

    #[test]
    fn every_kind_has_words_whatever_is_missing() {
        for kind in EventKind::ALL {
            let line = words(&event(kind.as_str(), &[], Value::Null), None);
            assert!(!line.is_empty() && !line.contains('_'), "{kind}: {line}");
        }
        let long = words(&event("member_added", &[("user", Some(&"x".repeat(5_000)))], json!({})), None);
        assert_eq!(long.chars().count(), LINE_CHARS_MAX + 1);
    }
}
