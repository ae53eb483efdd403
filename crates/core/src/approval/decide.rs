//! State transitions of an approval: request, vote, expire, lapse.

use super::people::{Electorate, Tally, Voter, admits};
use super::state::{Approval, Choice, Lapse, Status, Vote};
use crate::decision::{Change, Decision, Record, Refusal, Ruling};
use crate::event::{EventKind, NewEvent, Subject};
use crate::id::{ApprovalId, DeploymentId, PipelineId, StepRunId};
use crate::name::Reason;
use crate::pipeline::model::{Approver, Requires};
use crate::time::Timestamp;

/// A request for approval.
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

/// One person's vote.
#[derive(Debug, Clone)]
pub struct Ballot {
    pub voter: Voter,
    pub choice: Choice,
    pub comment: Option<Reason>,
}

/// `needed` is the number of approvals required at this time.
pub fn request(asked: Request, needed: u32, now: Timestamp) -> Decision<Approval> {
    let timeout_s = asked.rule.timeout.map(|it| i64::try_from(it.as_secs()).unwrap_or(i64::MAX));
    let approval = Approval {
        id: asked.id,
        deployment: asked.deployment,
        number: asked.number,
        pipeline: asked.pipeline,
        stage: asked.stage,
        step: asked.step,
        rule: asked.rule,
        needed,
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
        .with("approvals", approval.needed)
        .with("from", from)
        .with("digest", approval.digest.as_str())
        .with_some("message", approval.message.as_ref())
        .with_some("expiresAt", approval.expires_at);
    put(approval, vec![event])
}

/// `digest` is that of the content to be deployed now. Expiry and lapse are written even if the vote is refused.
pub fn vote(
    approval: &Approval,
    ballot: &Ballot,
    digest: &str,
    electorate: &Electorate,
    now: Timestamp,
) -> Ruling<Approval> {
    if approval.status != Status::Pending {
        return Decision::calm(Err(ended(approval)));
    }
    if approval.expires_at.is_some_and(|at| at <= now) {
        return refused(expire(approval, electorate, now));
    }
    if approval.digest != digest {
        return refused(lapse(approval, Lapse::Changed, now));
    }
    let person = ballot.voter.person;
    if approval.votes.iter().any(|vote| vote.person == person) {
        let text = "you have already voted; each person can vote once, whichever account they use";
        return Decision::calm(Err(Refusal::AlreadyVoted(text.into())));
    }
    if let Err(refusal) = may_vote(&approval.rule, ballot, electorate) {
        return Decision::calm(Err(refusal));
    }
    let mut next = Approval { version: approval.version + 1, ..approval.clone() };
    next.votes.push(Vote {
        by: ballot.voter.by.clone(),
        person,
        choice: ballot.choice,
        comment: ballot.comment.clone(),
        at: now,
        is_void: false,
    });
    let tally = electorate.tally(&next.rule, &next.yes());
    next.needed = tally.needed;
    let voted = |kind: EventKind, next: &Approval| {
        count_event(kind, next, &tally).with_some("comment", ballot.comment.as_ref())
    };
    let mut events = Vec::new();
    match ballot.choice {
        Choice::Reject => {
            close(&mut next, Status::Rejected, &tally, now);
            events.push(voted(EventKind::ApprovalRejected, &next));
        }
        Choice::Approve => {
            events.push(voted(EventKind::ApprovalVoted, &next));
            if tally.is_enough() {
                close(&mut next, Status::Approved, &tally, now);
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

/// A rejection is never self-approval.
fn may_vote(rule: &Requires, ballot: &Ballot, electorate: &Electorate) -> Result<(), Refusal> {
    if !admits(rule, &ballot.voter) {
        let from: Vec<String> = rule.from.iter().map(Approver::to_string).collect();
        let text = format!("only {} can decide this approval", from.join(", "));
        return Err(Refusal::NotEligible(text));
    }
    if ballot.choice == Choice::Reject || rule.self_approval {
        return Ok(());
    }
    if electorate.bars(&ballot.voter) {
        let text = "you wrote, committed or co-authored part of this change, or started or retried this deployment, \
                    and `self_approval` is false: another person has to approve it";
        return Err(Refusal::NotEligible(text.into()));
    }
    if electorate.authors.is_none() {
        let text =
            "the authors of this change are still being read from its repository; try again in a few seconds";
        return Err(Refusal::InvalidState(text.into()));
    }
    Ok(())
}

/// Grants an approval that has enough votes already: a member returned, or an unknown author became a member.
pub fn recount(
    approval: &Approval,
    digest: &str,
    electorate: &Electorate,
    now: Timestamp,
) -> Decision<Approval> {
    let tally = electorate.tally(&approval.rule, &approval.yes());
    let is_late = approval.expires_at.is_some_and(|at| at <= now);
    if approval.status != Status::Pending || is_late || approval.digest != digest || !tally.is_enough() {
        return Decision::calm(approval.clone());
    }
    let mut next = Approval { version: approval.version + 1, ..approval.clone() };
    close(&mut next, Status::Approved, &tally, now);
    let event = count_event(EventKind::ApprovalApproved, &next, &tally);
    put(next, vec![event])
}

/// Ends the approval with the votes that count now.
fn close(approval: &mut Approval, status: Status, tally: &Tally, now: Timestamp) {
    (approval.status, approval.ended_at, approval.needed) = (status, Some(now), tally.needed);
    for vote in &mut approval.votes {
        vote.is_void = vote.choice == Choice::Approve && !tally.counted.contains(&vote.person);
    }
}

fn count_event(kind: EventKind, approval: &Approval, tally: &Tally) -> NewEvent {
    telling(kind, approval).with("given", tally.counted.len()).with("approvals", tally.needed)
}

/// Ends an overdue approval. No change otherwise.
pub fn expire(approval: &Approval, electorate: &Electorate, now: Timestamp) -> Decision<Approval> {
    let is_due = approval.expires_at.is_some_and(|at| at <= now);
    if approval.status != Status::Pending || !is_due {
        return Decision::calm(approval.clone());
    }
    let mut next = Approval { version: approval.version + 1, ..approval.clone() };
    close(&mut next, Status::Expired, &electorate.tally(&approval.rule, &approval.yes()), now);
    let event = telling(EventKind::ApprovalExpired, &next);
    put(next, vec![event])
}

/// Ends an approval whose subject has changed or is over. A granted approval also lapses if its subject changed.
pub fn lapse(approval: &Approval, why: Lapse, now: Timestamp) -> Decision<Approval> {
    if !matches!(approval.status, Status::Pending | Status::Approved) {
        return Decision::calm(approval.clone());
    }
    let (status, version, ended_at) = (Status::Lapsed(why), approval.version + 1, Some(now));
    let next = Approval { status, ended_at, version, ..approval.clone() };
    let event = telling(EventKind::ApprovalLapsed, &next).with("why", why.as_str());
    put(next, vec![event])
}

/// Whether a granted approval is still valid: same content, and enough approvers may still approve. Votes of members
/// who left, changed their role or retried the deployment since do not count.
pub fn still_holds(approval: &Approval, digest: &str, electorate: &Electorate) -> bool {
    approval.status == Status::Approved
        && approval.digest == digest
        && electorate.tally(&approval.rule, &approval.yes()).is_enough()
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
        Status::Approved => "it was already approved; cancel the deployment to stop it".into(),
        Status::Rejected => "it was already rejected; retry the stage to request a new approval".into(),
        Status::Expired => "it expired; retry the stage to request a new approval".into(),
        Status::Lapsed(Lapse::Changed) => {
            "what it was for has changed; use the approval that replaced it".into()
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
