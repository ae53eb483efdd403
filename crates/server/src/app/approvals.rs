//! Approvals: list, view, vote.

use std::collections::BTreeSet;

use berth_api::approval as wire;
use berth_core::access::{Action, EffectiveAccess, permit};
use berth_core::approval::{
    Approval, ApprovalChoice, ApprovalElectorate, ApprovalState, LapseCause, VoteRequest, VoteTally, lapse,
    vote,
};
use berth_core::decision::CommandRefusal;
use berth_core::deployment::DeploymentTarget;
use berth_core::event::Actor;
use berth_core::id::UserId;
use berth_core::name::Reason;
use berth_core::pipeline::model::ApproverSelector;
use berth_core::pipeline::seconds::DurationSeconds;
use berth_store::idempotency::IdempotencyKey;
use berth_store::pagination::PageStart;
use berth_store::tables::{approval, deployment};
use berth_store::{StoreRead, Tx};

pub use berth_store::tables::approval::ApprovalFilter;

use berth_engine::{DeploymentAggregate, RunCache, VotingMembers, approval_target, electorate, gates, voter};

use super::commit_details::fill_approvals;
use super::resource_access::{require, visible_page};
use super::{ApiResponse, App, IdempotentResponse, ResponsePage, RuleOutcome};
use crate::auth::authorize::AuthorizedCaller;
use crate::config::AppConfig;
use crate::error::AppError;
use crate::wire::actor_to_wire;

/// Maximum number of members listed as excluded from approving.
const EXCLUDED_MAX: usize = 50;
/// Maximum number of commit authors that a message lists because their addresses belong to no member.
const UNKNOWN_SHOWN_MAX: usize = 5;

impl App {
    pub async fn list_approvals(
        &self,
        who: &AuthorizedCaller<permit::ApprovalsRead>,
        filter: ApprovalFilter,
        from: PageStart,
        limit: i64,
    ) -> Result<ResponsePage<wire::WireApproval>, AppError> {
        let (access, config) = (who.access().clone(), self.config.clone());
        self.read(who, move |db| {
            let slice = match access.may_everywhere(Action::ApprovalsRead) {
                true => approval::list(db, &filter, &from, limit)?,
                false => visible_page(
                    db,
                    (&from, limit),
                    |db, start, rows| approval::list(db, &filter, start, rows),
                    |it| it.id.to_string(),
                    |db, it| Ok(access.may(Action::ApprovalsRead, &approval_target(db, it)?)),
                )?,
            };
            let last = slice.items.last().map(|it| it.id.to_string());
            let members = VotingMembers::load(db)?;
            let items = slice.items.iter().map(|it| to_response(db, &members, it));
            let mut items = items.collect::<Result<Vec<_>, AppError>>()?;
            fill_approvals(db, &config.forges, &mut items)?;
            Ok(ResponsePage { last, items, total: slice.total, has_more: slice.has_more })
        })
        .await
    }

    pub async fn view_approval(
        &self,
        who: &AuthorizedCaller<permit::ApprovalsRead>,
        id: String,
    ) -> Result<ApiResponse<wire::WireApproval>, AppError> {
        let (access, config) = (who.access().clone(), self.config.clone());
        self.read(who, move |db| {
            let found = find(db, &access, Action::ApprovalsRead, &id)?;
            build_response(db, &found, &config)
        })
        .await
    }

    /// Records the vote of one user. The stage or step proceeds once enough users have approved; a single rejection
    /// ends the approval.
    pub async fn answer_approval(
        &self,
        who: &AuthorizedCaller<permit::ApprovalsDecide>,
        id: String,
        choice: ApprovalChoice,
        comment: Option<Reason>,
        once: Option<IdempotencyKey>,
    ) -> Result<IdempotentResponse<wire::WireApproval>, AppError> {
        let (by, account) = (who.principal().actor(), who.principal().user);
        let (plans, config) = (self.services.engine.run_cache().clone(), self.config.clone());
        let done = self.run_rule(who, once, move |tx, standing| {
            let caller = VoteCaller { by, account, access: &standing.access };
            match cast_vote(tx, &plans, caller, &id, choice, comment)? {
                Err(refusal) => Ok(RuleOutcome::No(refusal)),
                Ok(said) => Ok(RuleOutcome::Yes(build_response(tx, &said, &config)?)),
            }
        });
        let done = done.await;
        self.services.wake_engine();
        done
    }
}

/// The account that votes, with its access at this moment.
pub(super) struct VoteCaller<'a> {
    pub(super) by: Actor,
    pub(super) account: UserId,
    pub(super) access: &'a EffectiveAccess,
}

/// Records a vote in a transaction. The inner error is a refusal, with which the transaction is committed.
pub(super) fn cast_vote(
    tx: &mut Tx<'_>,
    plans: &RunCache,
    caller: VoteCaller<'_>,
    id: &str,
    choice: ApprovalChoice,
    comment: Option<Reason>,
) -> Result<Result<Approval, AppError>, AppError> {
    let found = find(tx, caller.access, Action::ApprovalsDecide, id)?;
    let Some(mut aggregate) = DeploymentAggregate::load(tx, plans, found.deployment)? else {
        return Err(AppError::bug("an approval without a deployment"));
    };
    let ruling = match gates::digest_now(&aggregate, &found) {
        None if found.status == ApprovalState::Pending => {
            let decision = lapse(&found, LapseCause::Over, tx.now());
            tx.commit(decision)?;
            let text = "nothing waits for this approval any more";
            return Ok(Err(CommandRefusal::ApprovalEnded(text.into()).into()));
        }
        digest => {
            let voter = voter(tx, caller.by, caller.account, caller.access, &found)?;
            if choice == ApprovalChoice::Approve && voter.person != caller.account {
                let text = "only people can approve; a service account can only reject";
                return Ok(Err(CommandRefusal::NotEligible(text.into()).into()));
            }
            let ballot = VoteRequest { voter, choice, comment };
            let electorate = electorate(tx, found.deployment, &found.stage)?;
            vote(&found, &ballot, digest.as_deref().unwrap_or_default(), &electorate, tx.now())
        }
    };
    let said = tx.commit(ruling)?;
    // If the approval had already ended, its effects were applied at that time.
    if found.status == ApprovalState::Pending {
        let now = load(tx, id)?;
        gates::follow_approval(tx, &mut aggregate, &now)?;
    }
    Ok(said.map_err(AppError::from))
}

/// Finds an approval and checks the permission on its stage.
pub(super) fn find(
    db: &mut impl StoreRead,
    access: &EffectiveAccess,
    action: Action,
    id: &str,
) -> Result<Approval, AppError> {
    let found = load(db, id)?;
    if !access.may_everywhere(action) {
        let target = approval_target(db, &found)?;
        // An approval is visible with its own permission, not with that for the pipeline.
        match access.may(Action::ApprovalsRead, &target) {
            true => require(access, action, &target, "approval")?,
            false => return Err(AppError::not_found("approval")),
        }
    }
    Ok(found)
}

fn load(db: &mut impl StoreRead, id: &str) -> Result<Approval, AppError> {
    let missing = || AppError::not_found("approval");
    approval::by_id(db, id.parse().map_err(|_| missing())?)?.ok_or_else(missing)
}

/// Builds the response. Its `ETag` includes the vote count and the comparison, because membership changes and other
/// deployments can change them without changing the approval.
fn build_response(
    db: &mut impl StoreRead,
    it: &Approval,
    config: &AppConfig,
) -> Result<ApiResponse<wire::WireApproval>, AppError> {
    let members = VotingMembers::load(db)?;
    let mut body = to_response(db, &members, it)?;
    fill_approvals(db, &config.forges, std::slice::from_mut(&mut body))?;
    let counted = (body.required, body.given, &body.excluded, &body.raised_because, &body.unreachable);
    let moment = (counted, &body.compare_url);
    let variant = crc32fast::hash(format!("{moment:?}").as_bytes());
    Ok(ApiResponse::ok(body).with_version(it.version).with_variant(variant))
}

/// The vote count. While the approval is pending, it depends on who is currently a member.
struct ApprovalCount {
    required: u32,
    raised_because: Option<String>,
    given: usize,
    /// The users whose approving votes count.
    counted: BTreeSet<UserId>,
    excluded: Vec<String>,
    unreachable: Option<String>,
}

impl ApprovalCount {
    /// Counts the votes of a pending approval against the current members.
    fn for_pending(
        db: &mut impl StoreRead,
        members: &VotingMembers,
        it: &Approval,
        may_bypass: bool,
    ) -> Result<Self, AppError> {
        let electorate = members.electorate(db, it.deployment, &it.stage)?;
        let tally = electorate.tally(&it.rule, &it.approvers());
        let barred =
            electorate.voters.iter().filter(|voter| !it.rule.self_approval && electorate.is_barred(voter));
        let excluded: Vec<String> = barred.map(|voter| voter.by.name.clone()).take(EXCLUDED_MAX).collect();
        let raised_because = (tally.needed > it.rule.approvals).then(|| describe_raise(&electorate));
        let unreachable =
            (!tally.is_reachable()).then(|| describe_unreachable(&tally, &excluded, may_bypass));
        let (required, given) = (tally.needed, tally.counted.len());
        Ok(Self { required, raised_because, given, counted: tally.counted, excluded, unreachable })
    }

    /// Returns the count as it was when the approval ended.
    fn for_ended(it: &Approval) -> Self {
        let counted = it.votes.iter().filter(|vote| !vote.is_void).map(|vote| vote.person);
        let text = "some authors of the change were not members";
        Self {
            required: it.needed,
            raised_because: (it.needed > it.rule.approvals).then(|| text.to_owned()),
            given: it.valid_approvals(),
            counted: counted.collect(),
            excluded: Vec::new(),
            unreachable: None,
        }
    }
}

fn describe_raise(electorate: &ApprovalElectorate) -> String {
    let unknown: Vec<&str> = electorate.unknown_authors().collect();
    if unknown.is_empty() {
        return "the change has too many commits or authors to read, so some authors are unknown".into();
    }
    let more = unknown.len().saturating_sub(UNKNOWN_SHOWN_MAX);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    let shown =
        |it: &&str| if it.is_empty() { "an author without an address".to_owned() } else { (*it).to_owned() };
    let unknown: Vec<String> = unknown.iter().take(UNKNOWN_SHOWN_MAX).map(shown).collect();
    format!("part of the change is by {}{more}, which is not the address of a member", unknown.join(", "))
}

fn describe_unreachable(tally: &VoteTally, excluded: &[String], may_bypass: bool) -> String {
    let (needed, can) = (tally.needed, tally.eligible);
    let approvals = if needed == 1 { "approval is" } else { "approvals are" };
    let others = if excluded.is_empty() { "" } else { "; people who wrote or started the change cannot" };
    let way_out = match may_bypass {
        true => "Add members who may approve, or deploy again with a bypass, which is recorded",
        false => "Add members who may approve, or cancel the deployment",
    };
    format!("{needed} {approvals} needed, but only {can} of the members can approve{others}. {way_out}.")
}

fn to_response(
    db: &mut impl StoreRead,
    members: &VotingMembers,
    it: &Approval,
) -> Result<wire::WireApproval, AppError> {
    let found = deployment::by_id(db, it.deployment)?;
    let may_bypass = found.as_ref().is_some_and(|found| matches!(found.target, DeploymentTarget::Stages(_)));
    let commit = found.map(|found| match found.target {
        DeploymentTarget::Environment(_) => found.commit.to_string(),
        DeploymentTarget::Stages(_) => found.resolved_commit.unwrap_or_else(|| found.commit.to_string()),
    });
    let count = match it.status {
        ApprovalState::Pending => ApprovalCount::for_pending(db, members, it, may_bypass)?,
        _ => ApprovalCount::for_ended(it),
    };
    let votes = it.votes.iter().map(|vote| wire::ApprovalVote {
        actor: actor_to_wire(&vote.by),
        counts: vote.choice == ApprovalChoice::Reject || count.counted.contains(&vote.person),
        choice: match vote.choice {
            ApprovalChoice::Approve => wire::VoteChoice::Approve,
            ApprovalChoice::Reject => wire::VoteChoice::Reject,
        },
        comment: vote.comment.as_ref().map(ToString::to_string),
        at: vote.at.to_string(),
    });
    let (status, lapsed) = match it.status {
        ApprovalState::Pending => (wire::ApprovalStatus::Pending, None),
        ApprovalState::Approved => (wire::ApprovalStatus::Approved, None),
        ApprovalState::Rejected => (wire::ApprovalStatus::Rejected, None),
        ApprovalState::Expired => (wire::ApprovalStatus::Expired, None),
        ApprovalState::Lapsed(why) => (wire::ApprovalStatus::Lapsed, Some(why)),
    };
    Ok(wire::WireApproval {
        id: it.id.to_string(),
        status,
        deployment_id: it.deployment.to_string(),
        pipeline_id: it.pipeline.to_string(),
        stage: it.stage.clone(),
        step_id: it.step.map(|id| id.to_string()),
        message: it.message.clone(),
        commit_id: commit,
        commit: None,
        compare_url: None,
        digest: it.digest.clone(),
        rule: wire::ApprovalRule {
            approvals: it.rule.approvals,
            from: it.rule.from.iter().map(ApproverSelector::to_string).collect(),
            self_approval: it.rule.self_approval,
            timeout_seconds: it.rule.timeout.map(DurationSeconds::as_secs),
        },
        required: count.required,
        raised_because: count.raised_because.clone(),
        given: count.given,
        excluded: count.excluded.clone(),
        unreachable: count.unreachable.clone(),
        votes: votes.collect(),
        requested_at: it.requested_at.to_string(),
        expires_at: it.expires_at.map(|at| at.to_string()),
        ended_at: it.ended_at.map(|at| at.to_string()),
        lapsed_because: lapsed.map(|why| why.as_str().to_owned()),
    })
}
