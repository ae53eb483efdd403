//! Approvals: listed, viewed, answered.

use berth_api::approval as wire;
use berth_core::access::permit;
use berth_core::approval::{Approval, Ballot, Choice, Lapse, Status, lapse, vote};
use berth_core::decision::Refusal;
use berth_core::name::Reason;
use berth_core::pipeline::model::Approver;
use berth_core::pipeline::seconds::Seconds;
use berth_store::Read;
use berth_store::idempotency::OnceKey;
use berth_store::query::From;
use berth_store::query::approvals;
use berth_store::query::deployments::{self, Either};
use berth_store::records::approval;

pub use berth_store::query::approvals::Filter as ApprovalFilter;

use super::wire::actor;
use super::{Answer, App, Outcome, Page, Ruled};
use crate::access::Authorized;
use crate::engine::{Whole, gates, voter};
use crate::error::AppError;

impl App {
    pub async fn list_approvals(
        &self,
        who: &Authorized<permit::ApprovalsRead>,
        filter: ApprovalFilter,
        from: From,
        limit: i64,
    ) -> Result<Page<wire::Approval>, AppError> {
        self.read(who, move |db| {
            let slice = approvals::list(db, &filter, &from, limit)?;
            let last = slice.items.last().map(|it| it.id.to_string());
            let items = slice.items.iter().map(|it| shown(db, it)).collect::<Result<_, _>>()?;
            Ok(Page { last, items, total: slice.total, has_more: slice.has_more })
        })
        .await
    }

    pub async fn view_approval(
        &self,
        who: &Authorized<permit::ApprovalsRead>,
        id: String,
    ) -> Result<Answer<wire::Approval>, AppError> {
        self.read(who, move |db| {
            let found = find(db, &id)?;
            Ok(Answer::ok(shown(db, &found)?).at_version(found.version))
        })
        .await
    }

    /// One person's answer. Enough of them let the work start; one no ends it.
    pub async fn answer_approval(
        &self,
        who: &Authorized<permit::ApprovalsDecide>,
        id: String,
        choice: Choice,
        comment: Option<Reason>,
        once: Option<OnceKey>,
    ) -> Result<Outcome<wire::Approval>, AppError> {
        let (by, account) = (who.principal().actor(), who.principal().user);
        let plans = self.engine.plans().clone();
        let done = self.rule(who, once, move |tx, standing| {
            let found = find(tx, &id)?;
            let Some(mut whole) = Whole::load(tx, &plans, found.deployment)? else {
                return Err(AppError::bug("an approval without a deployment"));
            };
            let ruling = match gates::digest_now(&whole, &found) {
                None if found.status == Status::Pending => {
                    let decision = lapse(&found, Lapse::Over, tx.now());
                    tx.commit(decision)?;
                    let text = "nothing waits for this approval any more";
                    return Ok(Ruled::No(Refusal::ApprovalEnded(text.into()).into()));
                }
                digest => {
                    let voter = voter(tx, by, account, standing.role)?;
                    if choice == Choice::Approve && voter.person != account {
                        let text = "approvals are given by people: a service account can reject, not approve";
                        return Ok(Ruled::No(Refusal::NotEligible(text.into()).into()));
                    }
                    let ballot = Ballot { voter, choice, comment };
                    let excluded = gates::barred(tx, &whole)?;
                    vote(&found, &ballot, digest.as_deref().unwrap_or_default(), &excluded, tx.now())
                }
            };
            let said = tx.commit(ruling)?;
            // What ended before has been followed: whatever waits now waits for another answer.
            if found.status == Status::Pending {
                let now = find(tx, &id)?;
                gates::follow(tx, &mut whole, &now)?;
            }
            match said {
                Err(refusal) => Ok(Ruled::No(refusal.into())),
                Ok(said) => Ok(Ruled::Yes(Answer::ok(shown(tx, &said)?).at_version(said.version))),
            }
        });
        let done = done.await;
        self.nudge();
        done
    }
}

fn find(db: &mut impl Read, id: &str) -> Result<Approval, AppError> {
    let missing = || AppError::not_found("approval");
    approval::by_id(db, id.parse().map_err(|_| missing())?)?.ok_or_else(missing)
}

fn shown(db: &mut impl Read, it: &Approval) -> Result<wire::Approval, AppError> {
    let commit = deployments::by_id(db, it.deployment)?.map(|found| match found {
        Either::Environment(it) => it.commit.to_string(),
        Either::Stages(it) => it.resolved_commit.unwrap_or_else(|| it.commit.to_string()),
    });
    let votes = it.votes.iter().map(|vote| wire::ApprovalVote {
        actor: actor(&vote.by),
        choice: match vote.choice {
            Choice::Approve => wire::VoteChoice::Approve,
            Choice::Reject => wire::VoteChoice::Reject,
        },
        comment: vote.comment.as_ref().map(ToString::to_string),
        at: vote.at.to_string(),
    });
    let (status, lapsed) = match it.status {
        Status::Pending => (wire::ApprovalStatus::Pending, None),
        Status::Approved => (wire::ApprovalStatus::Approved, None),
        Status::Rejected => (wire::ApprovalStatus::Rejected, None),
        Status::Expired => (wire::ApprovalStatus::Expired, None),
        Status::Lapsed(why) => (wire::ApprovalStatus::Lapsed, Some(why)),
    };
    Ok(wire::Approval {
        id: it.id.to_string(),
        status,
        deployment_id: it.deployment.to_string(),
        pipeline_id: it.pipeline.to_string(),
        stage: it.stage.clone(),
        step_id: it.step.map(|id| id.to_string()),
        message: it.message.clone(),
        commit_id: commit,
        digest: it.digest.clone(),
        rule: wire::ApprovalRule {
            approvals: it.rule.approvals,
            from: it.rule.from.iter().map(Approver::to_string).collect(),
            self_approval: it.rule.self_approval,
            timeout_seconds: it.rule.timeout.map(Seconds::as_secs),
        },
        given: it.given(),
        votes: votes.collect(),
        requested_at: it.requested_at.to_string(),
        expires_at: it.expires_at.map(|at| at.to_string()),
        ended_at: it.ended_at.map(|at| at.to_string()),
        lapsed_because: lapsed.map(|why| why.as_str().to_owned()),
    })
}
