//! Tests the summaries of all event kinds and of the events that the approval rules build.

use std::collections::BTreeSet;

use serde_json::json;

use super::*;
use crate::access::Role;
use crate::approval::{
    Approval, ApprovalChoice, ApprovalElectorate, LapseCause, NewApproval, VoteRequest, VotingAccount,
    expire, lapse, request, vote,
};
use crate::event::{Actor, ActorType, EventKind, EventSubject, NewEvent};
use crate::id::{ApprovalId, DeploymentId, EventId, OrgId, PipelineId, UserId};
use crate::name::Reason;
use crate::pipeline::model::ApprovalPolicy;
use crate::pipeline::seconds::DurationSeconds;
use crate::time::Timestamp;

const NOON: Timestamp = Timestamp::from_micros(1_763_200_800_000_000);

fn event(kind: &str, subjects: &[(&str, Option<&str>)], data: Value) -> Event {
    let subject = |(kind, name): &(&str, Option<&str>)| EventSubject::new(kind, format!("{kind}_1"), *name);
    Event {
        id: EventId::from_parts(NOON, [1; 10]),
        org: OrgId::from_parts(NOON, [2; 10]),
        sequence: 1,
        kind: kind.into(),
        occurred_at: NOON,
        actor: Actor { kind: ActorType::User, id: None, name: "ada".into(), token: None },
        request_id: None,
        subjects: subjects.iter().map(subject).collect(),
        data,
        previous_hash: String::new(),
        hash: String::new(),
    }
}

#[test]
fn summary_names_actor_location_and_reason() {
    let qa: &[(&str, Option<&str>)] = &[("environment", Some("qa-1")), ("pipeline", None)];
    let dep: &[(&str, Option<&str>)] = &[("deployment", None), ("pipeline", None)];
    let in_qa: &[(&str, Option<&str>)] = &[("deployment", None), qa[0], qa[1]];
    let step: &[(&str, Option<&str>)] = &[dep[0], dep[1], ("step", Some("test"))];
    let hash = "9fceb02d0ae598e95dc970b74767f19372d61af8";
    for (kind, subjects, data, wanted) in [
        (
            "session_overridden",
            qa,
            json!({"holder": "bob", "endedBy": "ada", "reason": "hotfix"}),
            "ada took qa-1 of web over from bob: hotfix",
        ),
        ("session_claimed", qa, json!({"holder": "gil", "context": ""}), "gil claimed qa-1 of web"),
        (
            "ticket_queued",
            qa,
            json!({"holder": "gil", "takeover": "grace", "takeoverAt": "2026-11-15T12:00:00Z", "reason": "demo"}),
            "gil will take qa-1 of web over at 2026-11-15T12:00:00Z: demo",
        ),
        (
            "ticket_queued",
            qa,
            json!({"holder": "gil", "takeover": "after_current_deployment"}),
            "gil will take qa-1 of web over after the current deployment",
        ),
        ("ticket_queued", qa, json!({"holder": "gil"}), "gil joined the queue for qa-1 of web"),
        (
            "ticket_granted",
            qa,
            json!({"holder": "gil"}),
            "gil was next in the queue and now holds qa-1 of web",
        ),
        (
            "deployment_failed",
            dep,
            json!({"number": 42, "commitId": hash, "detail": "step \"deploy\" exited with 1"}),
            "Deployment #42 of web (9fceb02d) failed: step \"deploy\" exited with 1",
        ),
        (
            "deployment_failed",
            in_qa,
            json!({"commitId": "v2", "detail": "lost"}),
            "Deployment in qa-1 of web (v2) failed: lost",
        ),
        ("stage_started", dep, json!({"stage": "staging"}), "Stage staging of web started"),
        ("step_failed", step, json!({"stage": "staging"}), "Step test in staging of web failed"),
        (
            "approval_rejected",
            dep,
            json!({"stage": "production", "comment": "not\ntoday"}),
            "ada rejected production of web: not today",
        ),
        (
            "registry_build_failed",
            &[("registry", Some("tools"))],
            json!({"commit": hash, "error": "npm ci exited with 1"}),
            "Build of registry tools failed at 9fceb02d: npm ci exited with 1",
        ),
        ("pipeline_stopped", &[("pipeline", Some("web"))], json!({}), "ada paused new deployments of web"),
        ("secret_read", &[("secret", Some("KEY"))], json!({}), "ada read the secret KEY"),
        ("member_added", &[("user", Some("gil"))], json!({}), "ada added the member gil"),
        ("root_key_rotated", &[("organization", Some("acme"))], json!({}), "ada rotated the root key"),
        ("something_new", &[], json!({}), "ada: something new"),
    ] {
        let pipeline = subjects.iter().any(|(kind, _)| *kind == "pipeline").then_some("web");
        assert_eq!(summarize(&event(kind, subjects, data), pipeline), wanted);
    }
}

fn request_approval(message: Option<&str>) -> (Approval, Vec<NewEvent>) {
    let asked = NewApproval {
        id: ApprovalId::from_parts(NOON, [3; 10]),
        deployment: DeploymentId::from_parts(NOON, [4; 10]),
        number: 42,
        pipeline: PipelineId::from_parts(NOON, [5; 10]),
        stage: "production".into(),
        step: None,
        rule: ApprovalPolicy {
            approvals: 2,
            from: Vec::new(),
            self_approval: true,
            timeout: Some(DurationSeconds::from_secs(60)),
        },
        message: message.map(str::to_owned),
        digest: "sha256:one".into(),
    };
    let decision = request(asked, 2, NOON);
    (decision.answer, decision.events)
}

fn cast_vote(
    approval: &Approval,
    person: u8,
    choice: ApprovalChoice,
    comment: &str,
) -> (Approval, Vec<NewEvent>) {
    let person = UserId::from_parts(NOON, [person; 10]);
    let by = Actor { kind: ActorType::User, id: Some(person), name: "ada".into(), token: None };
    let voter =
        VotingAccount { by, person, roles: vec![Role::Owner], teams: BTreeSet::new(), emails: Vec::new() };
    let others = approval.votes.iter().map(|vote| VotingAccount { person: vote.person, ..voter.clone() });
    let voters = others.chain([voter.clone()]).collect();
    let electorate = ApprovalElectorate { voters, ..ApprovalElectorate::default() };
    let ballot = VoteRequest { voter, choice, comment: Reason::parse(comment).ok() };
    let ruling = vote(approval, &ballot, "sha256:one", &electorate, NOON);
    (ruling.answer.unwrap(), ruling.events)
}

fn summaries(made: &[NewEvent]) -> Vec<String> {
    let line = |it: &NewEvent| {
        let made = event(it.kind.as_str(), &[], it.data.clone());
        summarize(&Event { subjects: it.subjects.clone(), ..made }, Some("web"))
    };
    made.iter().map(line).collect()
}

#[test]
fn summary_of_approval_contains_deployment_and_comment() {
    let (pending, made) = request_approval(None);
    assert_eq!(summaries(&made), ["Approval requested for deployment #42 to production of web"]);
    let (_, made) = request_approval(Some("look at the graphs"));
    assert_eq!(
        summaries(&made),
        ["Approval requested for deployment #42 to production of web: look at the graphs"]
    );
    let (once, made) = cast_vote(&pending, 1, ApprovalChoice::Approve, "fine");
    assert_eq!(summaries(&made), ["ada voted for deployment #42 to production of web (1 of 2): fine"]);
    let (_, made) = cast_vote(&once, 2, ApprovalChoice::Approve, "go");
    assert_eq!(
        summaries(&made),
        [
            "ada voted for deployment #42 to production of web (2 of 2): go",
            "ada approved deployment #42 to production of web: go",
        ]
    );
    let (_, made) = cast_vote(&once, 2, ApprovalChoice::Reject, "not today");
    assert_eq!(summaries(&made), ["ada rejected deployment #42 to production of web: not today"]);
    let made = expire(&pending, &ApprovalElectorate::default(), NOON.plus_seconds(60)).events;
    assert_eq!(summaries(&made), ["The approval of deployment #42 to production of web expired"]);
    for (why, wanted) in [
        (LapseCause::Changed, "lapsed: what it was for has changed"),
        (LapseCause::Over, "lapsed: nothing waits for it any more"),
    ] {
        let made = lapse(&pending, why, NOON).events;
        assert_eq!(
            summaries(&made),
            [format!("The approval of deployment #42 to production of web {wanted}")]
        );
    }
}

#[test]
fn summary_of_every_kind_is_one_line_without_underscores_or_raw_data() {
    let data = json!({"value": "hunter2", "secret": "hunter2", "token": "hunter2", "password": "hunter2"});
    for kind in EventKind::ALL {
        for data in [&Value::Null, &data] {
            let line = summarize(&event(kind.as_str(), &[], data.clone()), None);
            assert!(!line.is_empty() && !line.contains('_'), "{kind}: {line}");
            assert!(!line.contains("hunter2"), "{kind}: {line}");
        }
    }
    let long = event("member_added", &[("user", Some(&"x".repeat(5_000)))], json!({}));
    assert_eq!(summarize(&long, None).chars().count(), SUMMARY_CHARS_MAX + 1);
}
