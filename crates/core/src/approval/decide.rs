//! Ask, vote, expire, lapse.

use super::people::{Excluded, Voter, admits};
use super::state::{Approval, Choice, Lapse, Status, Vote};
use crate::decision::{Change, Decision, Record, Refusal, Ruling};
use crate::event::{EventKind, NewEvent, Subject};
use crate::id::{ApprovalId, DeploymentId, PipelineId, StepRunId, UserId};
use crate::name::Reason;
use crate::pipeline::model::{Approver, Requires};
use crate::time::Timestamp;

use std::collections::BTreeSet;

/// What is to be approved, and by whom.
#[derive(Debug, Clone)]
pub struct Request {
    pub id: ApprovalId,
    pub deployment: DeploymentId,
    pub number: i64,
    pub pipeline: PipelineId,
    pub stage: String,
    pub step: Option<StepRunId>,
    pub rule: Requires,
    pub message: Option<String>,
    pub digest: String,
}

/// One person's answer.
#[derive(Debug, Clone)]
pub struct Ballot {
    pub voter: Voter,
    pub choice: Choice,
    pub comment: Option<Reason>,
}

pub fn request(asked: Request, now: Timestamp) -> Decision<Approval> {
    let timeout_s = asked.rule.timeout.map(|it| i64::try_from(it.as_secs()).unwrap_or(i64::MAX));
    let approval = Approval {
        id: asked.id,
        deployment: asked.deployment,
        number: asked.number,
        pipeline: asked.pipeline,
        stage: asked.stage,
        step: asked.step,
        rule: asked.rule,
        message: asked.message,
        digest: asked.digest,
        votes: Vec::new(),
        status: Status::Pending,
        requested_at: now,
        expires_at: timeout_s.map(|seconds| now.plus_seconds(seconds)),
        ended_at: None,
        version: 1,
    };
    let from: Vec<String> = approval.rule.from.iter().map(Approver::to_string).collect();
    let event = telling(EventKind::ApprovalRequested, &approval)
        .with("approvals", approval.rule.approvals)
        .with("from", from)
        .with("digest", approval.digest.as_str())
        .with_some("message", approval.message.as_ref())
        .with_some("expiresAt", approval.expires_at);
    put(approval, vec![event])
}

/// `digest` is that of what would be done now. What time or a change has made of the approval is written also where the
/// answer is no.
pub fn vote(
    approval: &Approval,
    ballot: &Ballot,
    digest: &str,
    excluded: &Excluded,
    now: Timestamp,
) -> Ruling<Approval> {
    if approval.status != Status::Pending {
        return Decision::calm(Err(ended(approval)));
    }
    if approval.expires_at.is_some_and(|at| at <= now) {
        return refused(expire(approval, now));
    }
    if approval.digest != digest {
        return refused(lapse(approval, Lapse::Changed, now));
    }
    let person = ballot.voter.person;
    if approval.votes.iter().any(|vote| vote.person == person) {
        let text =
            "you have answered already; a second answer, also from another account of yours, does not count";
        return Decision::calm(Err(Refusal::AlreadyVoted(text.into())));
    }
    if let Err(why) = may_vote(&approval.rule, ballot, excluded) {
        return Decision::calm(Err(Refusal::NotEligible(why)));
    }
    let mut next = Approval { version: approval.version + 1, ..approval.clone() };
    next.votes.push(Vote {
        by: ballot.voter.by.clone(),
        person,
        choice: ballot.choice,
        comment: ballot.comment.clone(),
        at: now,
    });
    let wanted = usize::try_from(next.rule.approvals).unwrap_or(usize::MAX);
    let voted = |kind: EventKind, next: &Approval| {
        telling(kind, next)
            .with("given", next.given())
            .with("approvals", next.rule.approvals)
            .with_some("comment", ballot.comment.as_ref())
    };
    let mut events = Vec::new();
    match ballot.choice {
        Choice::Reject => {
            (next.status, next.ended_at) = (Status::Rejected, Some(now));
            events.push(voted(EventKind::ApprovalRejected, &next));
        }
        Choice::Approve => {
            events.push(voted(EventKind::ApprovalVoted, &next));
            if next.given() >= wanted {
                (next.status, next.ended_at) = (Status::Approved, Some(now));
                events.push(voted(EventKind::ApprovalApproved, &next));
            }
        }
    }
    let decision = put(next, events);
    Decision {
        answer: Ok(decision.answer),
        changes: decision.changes,
        events: decision.events,
        effects: Vec::new(),
    }
}

/// Saying no is never self-approval.
fn may_vote(rule: &Requires, ballot: &Ballot, excluded: &Excluded) -> Result<(), String> {
    if !admits(rule, &ballot.voter) {
        let from: Vec<String> = rule.from.iter().map(Approver::to_string).collect();
        return Err(format!("this approval is for {}; you are none of these", from.join(", ")));
    }
    if ballot.choice == Choice::Approve && !rule.self_approval && excluded.bars(&ballot.voter) {
        let text = "you wrote this commit, or started or retried this deployment, and `self_approval` is false: \
                    somebody else has to approve it";
        return Err(text.into());
    }
    Ok(())
}

/// Nobody answered in time. What has ended stays as it is, and so does what has time left.
pub fn expire(approval: &Approval, now: Timestamp) -> Decision<Approval> {
    let is_due = approval.expires_at.is_some_and(|at| at <= now);
    if approval.status != Status::Pending || !is_due {
        return Decision::calm(approval.clone());
    }
    end(approval, Status::Expired, EventKind::ApprovalExpired, now)
}

/// What it was for has changed, or is over. An approval that was given lapses too when it was for something else.
pub fn lapse(approval: &Approval, why: Lapse, now: Timestamp) -> Decision<Approval> {
    if !matches!(approval.status, Status::Pending | Status::Approved) {
        return Decision::calm(approval.clone());
    }
    end(approval, Status::Lapsed(why), EventKind::ApprovalLapsed, now)
}

/// Whether what was approved may be done now: it is the same thing, and enough of those who said yes may still say so.
/// Whoever approves and then retries has become somebody whose word does not count.
pub fn still_holds(approval: &Approval, digest: &str, excluded: &Excluded) -> bool {
    let counts = |person: &UserId| approval.rule.self_approval || !excluded.people.contains(person);
    let yes = approval.votes.iter().filter(|vote| vote.choice == Choice::Approve);
    let people: BTreeSet<UserId> = yes.map(|vote| vote.person).filter(counts).collect();
    approval.status == Status::Approved
        && approval.digest == digest
        && people.len() >= usize::try_from(approval.rule.approvals).unwrap_or(usize::MAX)
}

fn end(approval: &Approval, status: Status, kind: EventKind, now: Timestamp) -> Decision<Approval> {
    let (version, ended_at) = (approval.version + 1, Some(now));
    let next = Approval { status, ended_at, version, ..approval.clone() };
    let mut event = telling(kind, &next);
    if let Status::Lapsed(why) = status {
        event = event.with("why", why.as_str());
    }
    put(next, vec![event])
}

fn refused(decision: Decision<Approval>) -> Ruling<Approval> {
    let refusal = ended(&decision.answer);
    Decision {
        changes: decision.changes,
        events: decision.events,
        effects: decision.effects,
        answer: Err(refusal),
    }
}

fn ended(approval: &Approval) -> Refusal {
    Refusal::ApprovalEnded(match approval.status {
        Status::Pending => "the approval still waits".into(),
        Status::Approved => "it was approved already; cancel the deployment to stop it".into(),
        Status::Rejected => "it was rejected already; retry the stage to ask again".into(),
        Status::Expired => "nobody answered in time; retry the stage to ask again".into(),
        Status::Lapsed(Lapse::Changed) => {
            "what it was asked for has changed since; look for the approval that took its place".into()
        }
        Status::Lapsed(Lapse::Over) => "nothing waits for it any more".into(),
    })
}

fn put(approval: Approval, events: Vec<NewEvent>) -> Decision<Approval> {
    Decision {
        changes: vec![Change::Put(Record::Approval(Box::new(approval.clone())))],
        events,
        effects: Vec::new(),
        answer: approval,
    }
}

fn telling(kind: EventKind, approval: &Approval) -> NewEvent {
    let event = NewEvent::new(kind, Subject::new("approval", approval.id, None))
        .about(Subject::new("deployment", approval.deployment, None))
        .about(Subject::new("pipeline", approval.pipeline, None))
        .with("number", approval.number)
        .with("stage", approval.stage.as_str());
    match approval.step {
        Some(step) => event.about(Subject::new("step", step, None)),
        None => event,
    }
}
