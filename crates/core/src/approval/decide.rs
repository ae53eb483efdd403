//! State transitions of an approval: request, vote, expire, lapse.

use super::people::{ApprovalElectorate, VoteTally, VotingAccount, admits};
use super::state::{Approval, ApprovalChoice, ApprovalState, LapseCause, RecordedVote};
use crate::decision::{CommandRefusal, DomainRecord, RecordChange, RefusableDecision, RuleDecision};
use crate::event::{EventKind, EventSubject, NewEvent};
use crate::id::{ApprovalId, DeploymentId, PipelineId, StepRunId};
use crate::name::Reason;
use crate::pipeline::model::{ApprovalPolicy, ApproverSelector};
use crate::time::Timestamp;

/// A request for approval.
#[derive(Debug, Clone)]
pub struct NewApproval {
    pub id: ApprovalId,
    pub deployment: DeploymentId,
    pub number: i64,
    pub pipeline: PipelineId,
    pub stage: String,
    pub step: Option<StepRunId>,
    pub rule: ApprovalPolicy,
    pub message: Option<String>,
    pub digest: String,
}

/// One person's vote.
#[derive(Debug, Clone)]
pub struct VoteRequest {
    pub voter: VotingAccount,
    pub choice: ApprovalChoice,
    pub comment: Option<Reason>,
}

/// Creates a pending approval. `needed` is the number of approvals required at this time.
pub fn request(asked: NewApproval, needed: u32, now: Timestamp) -> RuleDecision<Approval> {
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
        status: ApprovalState::Pending,
        requested_at: now,
        expires_at: timeout_s.map(|seconds| now.plus_seconds(seconds)),
        ended_at: None,
        version: 1,
    };
    let from: Vec<String> = approval.rule.from.iter().map(ApproverSelector::to_string).collect();
    let event = approval_event(EventKind::ApprovalRequested, &approval)
        .with("approvals", approval.needed)
        .with("from", from)
        .with("digest", approval.digest.as_str())
        .with_some("message", approval.message.as_ref())
        .with_some("expiresAt", approval.expires_at);
    put(approval, vec![event])
}

/// Records a vote. `digest` identifies the content that would be deployed now. If the approval has expired, or its
/// content has changed since it was requested, the vote is refused, and the expiry or lapse is stored.
pub fn vote(
    approval: &Approval,
    ballot: &VoteRequest,
    digest: &str,
    electorate: &ApprovalElectorate,
    now: Timestamp,
) -> RefusableDecision<Approval> {
    if approval.status != ApprovalState::Pending {
        return RuleDecision::without_changes(Err(ended_refusal(approval)));
    }
    if approval.expires_at.is_some_and(|at| at <= now) {
        return into_refusal(expire(approval, electorate, now));
    }
    if approval.digest != digest {
        return into_refusal(lapse(approval, LapseCause::Changed, now));
    }
    let person = ballot.voter.person;
    if approval.votes.iter().any(|vote| vote.person == person) {
        let text = "you have already voted; each person can vote once, whichever account they use";
        return RuleDecision::without_changes(Err(CommandRefusal::AlreadyVoted(text.into())));
    }
    if let Err(refusal) = check_eligibility(&approval.rule, ballot, electorate) {
        return RuleDecision::without_changes(Err(refusal));
    }
    let mut next = Approval { version: approval.version + 1, ..approval.clone() };
    next.votes.push(RecordedVote {
        by: ballot.voter.by.clone(),
        person,
        choice: ballot.choice,
        comment: ballot.comment.clone(),
        at: now,
        is_void: false,
    });
    let tally = electorate.tally(&next.rule, &next.approvers());
    next.needed = tally.needed;
    let voted = |kind: EventKind, next: &Approval| {
        count_event(kind, next, &tally).with_some("comment", ballot.comment.as_ref())
    };
    let mut events = Vec::new();
    match ballot.choice {
        ApprovalChoice::Reject => {
            close(&mut next, ApprovalState::Rejected, &tally, now);
            events.push(voted(EventKind::ApprovalRejected, &next));
        }
        ApprovalChoice::Approve => {
            events.push(voted(EventKind::ApprovalVoted, &next));
            if tally.is_enough() {
                close(&mut next, ApprovalState::Approved, &tally, now);
                events.push(voted(EventKind::ApprovalApproved, &next));
            }
        }
    }
    let decision = put(next, events);
    RuleDecision {
        answer: Ok(decision.answer),
        changes: decision.changes,
        events: decision.events,
        effects: Vec::new(),
    }
}

/// Checks whether the rule lets this person vote this way. If self-approval is off, people who wrote the change or
/// started the deployment may only reject.
fn check_eligibility(
    rule: &ApprovalPolicy,
    ballot: &VoteRequest,
    electorate: &ApprovalElectorate,
) -> Result<(), CommandRefusal> {
    if !admits(rule, &ballot.voter) {
        let from: Vec<String> = rule.from.iter().map(ApproverSelector::to_string).collect();
        let text = format!("only {} can decide this approval", from.join(", "));
        return Err(CommandRefusal::NotEligible(text));
    }
    if ballot.choice == ApprovalChoice::Reject || rule.self_approval {
        return Ok(());
    }
    if electorate.is_barred(&ballot.voter) {
        let text = "you wrote, committed or co-authored part of this change, or started or retried this deployment, \
                    and `self_approval` is false: another person has to approve it";
        return Err(CommandRefusal::NotEligible(text.into()));
    }
    if electorate.authors.is_none() {
        let text =
            "the authors of this change are still being read from its repository; try again in a few seconds";
        return Err(CommandRefusal::InvalidState(text.into()));
    }
    Ok(())
}

/// Grants a pending approval that now has enough valid votes without a new one, for example because a member returned
/// or an unknown author became a member.
pub fn recount(
    approval: &Approval,
    digest: &str,
    electorate: &ApprovalElectorate,
    now: Timestamp,
) -> RuleDecision<Approval> {
    let tally = electorate.tally(&approval.rule, &approval.approvers());
    let is_late = approval.expires_at.is_some_and(|at| at <= now);
    if approval.status != ApprovalState::Pending || is_late || approval.digest != digest || !tally.is_enough()
    {
        return RuleDecision::without_changes(approval.clone());
    }
    let mut next = Approval { version: approval.version + 1, ..approval.clone() };
    close(&mut next, ApprovalState::Approved, &tally, now);
    let event = count_event(EventKind::ApprovalApproved, &next, &tally);
    put(next, vec![event])
}

/// Ends the approval and marks as void each approving vote that no longer counts.
fn close(approval: &mut Approval, status: ApprovalState, tally: &VoteTally, now: Timestamp) {
    (approval.status, approval.ended_at, approval.needed) = (status, Some(now), tally.needed);
    for vote in &mut approval.votes {
        vote.is_void = vote.choice == ApprovalChoice::Approve && !tally.counted.contains(&vote.person);
    }
}

fn count_event(kind: EventKind, approval: &Approval, tally: &VoteTally) -> NewEvent {
    approval_event(kind, approval).with("given", tally.counted.len()).with("approvals", tally.needed)
}

/// Expires the approval if its time is up; otherwise changes nothing.
pub fn expire(
    approval: &Approval,
    electorate: &ApprovalElectorate,
    now: Timestamp,
) -> RuleDecision<Approval> {
    let is_due = approval.expires_at.is_some_and(|at| at <= now);
    if approval.status != ApprovalState::Pending || !is_due {
        return RuleDecision::without_changes(approval.clone());
    }
    let mut next = Approval { version: approval.version + 1, ..approval.clone() };
    close(&mut next, ApprovalState::Expired, &electorate.tally(&approval.rule, &approval.approvers()), now);
    let event = approval_event(EventKind::ApprovalExpired, &next);
    put(next, vec![event])
}

/// Ends a pending or granted approval because its content has changed or nothing waits for it any more.
pub fn lapse(approval: &Approval, why: LapseCause, now: Timestamp) -> RuleDecision<Approval> {
    if !matches!(approval.status, ApprovalState::Pending | ApprovalState::Approved) {
        return RuleDecision::without_changes(approval.clone());
    }
    let (status, version, ended_at) = (ApprovalState::Lapsed(why), approval.version + 1, Some(now));
    let next = Approval { status, ended_at, version, ..approval.clone() };
    let event = approval_event(EventKind::ApprovalLapsed, &next).with("why", why.as_str());
    put(next, vec![event])
}

/// Whether a granted approval is still valid: the content is unchanged and enough of its votes still count. Votes do
/// not count if the voter has since left, lost the required role or retried the deployment.
pub fn is_still_valid(approval: &Approval, digest: &str, electorate: &ApprovalElectorate) -> bool {
    approval.status == ApprovalState::Approved
        && approval.digest == digest
        && electorate.tally(&approval.rule, &approval.approvers()).is_enough()
}

fn into_refusal(decision: RuleDecision<Approval>) -> RefusableDecision<Approval> {
    let refusal = ended_refusal(&decision.answer);
    RuleDecision {
        changes: decision.changes,
        events: decision.events,
        effects: decision.effects,
        answer: Err(refusal),
    }
}

fn ended_refusal(approval: &Approval) -> CommandRefusal {
    CommandRefusal::ApprovalEnded(match approval.status {
        ApprovalState::Pending => "the approval still waits".into(),
        ApprovalState::Approved => "it was already approved; cancel the deployment to stop it".into(),
        ApprovalState::Rejected => {
            "it was already rejected; retry the stage to request a new approval".into()
        }
        ApprovalState::Expired => "it expired; retry the stage to request a new approval".into(),
        ApprovalState::Lapsed(LapseCause::Changed) => {
            "what it was for has changed; use the approval that replaced it".into()
        }
        ApprovalState::Lapsed(LapseCause::Over) => "nothing waits for it any more".into(),
    })
}

fn put(approval: Approval, events: Vec<NewEvent>) -> RuleDecision<Approval> {
    RuleDecision {
        changes: vec![RecordChange::Put(DomainRecord::Approval(Box::new(approval.clone())))],
        events,
        effects: Vec::new(),
        answer: approval,
    }
}

fn approval_event(kind: EventKind, approval: &Approval) -> NewEvent {
    let event = NewEvent::new(kind, EventSubject::new("approval", approval.id, None))
        .with_subject(EventSubject::new("deployment", approval.deployment, None))
        .with_subject(EventSubject::new("pipeline", approval.pipeline, None))
        .with("number", approval.number)
        .with("stage", approval.stage.as_str());
    match approval.step {
        Some(step) => event.with_subject(EventSubject::new("step", step, None)),
        None => event,
    }
}
