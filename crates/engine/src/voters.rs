//! Finds the people behind accounts, and determines who is eligible to approve.

use std::collections::{BTreeMap, BTreeSet};

use berth_core::access::{Action, Role};
use berth_core::approval::{Approval, ApprovalElectorate, VoteTally, VotingAccount};
use berth_core::decision::CommandRefusal;
use berth_core::deployment::{Deployment, DeploymentTarget};
use berth_core::event::{Actor, ActorType};
use berth_core::id::{DeploymentId, UserId};
use berth_store::StoreRead;
use berth_store::pagination::PageStart;
use berth_store::tables::deployment;
use berth_store::tables::member::{self, MemberView};
use berth_store::tables::user::{self, User, UserAccount};
use berth_store::tables::{change_authors, plan, token};

use crate::error::EngineError;
use crate::limits::MEMBERS_PER_ORGANIZATION_MAX;

/// Maximum length of a chain of service account owners or token creators.
const OWNERS_MAX: usize = 16;

/// Returns the person who owns an account. For a service account, follows its owners until a person is found.
fn owning_person(db: &mut impl StoreRead, account: User) -> Result<User, EngineError> {
    let mut found = account;
    for _ in 0..OWNERS_MAX {
        let UserAccount::Service { owner } = found.account else { break };
        found =
            user::by_id(db, owner)?.ok_or_else(|| EngineError::bug("a service account without an owner"))?;
    }
    Ok(found)
}

/// Returns the people who may be behind an action: the owner of the account and, for a service account, the creator of
/// the token that was used. Other people who know the token cannot be determined.
pub fn people_behind(db: &mut impl StoreRead, by: &Actor) -> Result<BTreeSet<UserId>, EngineError> {
    let (mut people, mut next) = (BTreeSet::new(), Some(by.clone()));
    for _ in 0..OWNERS_MAX {
        let Some(actor) = next.take() else { break };
        let Some(id) = actor.id else { break };
        let Some(account) = user::by_id(db, id)? else { break };
        let is_service = matches!(account.account, UserAccount::Service { .. });
        people.insert(owning_person(db, account)?.id);
        if let Some(used) = actor.token.filter(|_| is_service) {
            next = token::find_creator(db, used)?;
        }
    }
    Ok(people)
}

/// Returns the caller as a voter, with the role that is in effect in this transaction.
pub fn voter(
    db: &mut impl StoreRead,
    by: Actor,
    account: UserId,
    role: Role,
) -> Result<VotingAccount, EngineError> {
    let account = user::by_id(db, account)?.ok_or_else(|| EngineError::bug("a caller without an account"))?;
    let (id, own) = (account.id, account.email.clone());
    let person = owning_person(db, account)?;
    let role = match id == person.id {
        true => role,
        false => match member::by_user(db, person.id)? {
            Some(member) => role.min(member.role),
            None => {
                let text = "the owner of this service account is no longer a member, so it cannot vote";
                return Err(CommandRefusal::NotEligible(text.into()).into());
            }
        },
    };
    Ok(VotingAccount { by, person: person.id, role, emails: vec![own, person.email] })
}

/// The members of an organization, and which of them may vote on approvals.
pub struct VotingMembers {
    voters: Vec<VotingAccount>,
    by_address: BTreeMap<String, UserId>,
}

impl VotingMembers {
    pub fn load(db: &mut impl StoreRead) -> Result<Self, EngineError> {
        let all = member::list(db, &PageStart::Offset(0), MEMBERS_PER_ORGANIZATION_MAX)?.items;
        let by_id: BTreeMap<UserId, &MemberView> = all.iter().map(|it| (it.user, it)).collect();
        let mut by_address = BTreeMap::new();
        for member in &all {
            let mut person = member.user;
            for _ in 0..OWNERS_MAX {
                let Some(owner) = by_id.get(&person).and_then(|it| it.owner) else { break };
                person = owner;
            }
            by_address.insert(member.email.key(), person);
        }
        let decides = |it: &&MemberView| !it.is_service && it.role.may(Action::ApprovalsDecide);
        Ok(Self { voters: all.iter().filter(decides).map(as_voter).collect(), by_address })
    }

    pub fn voters(&self) -> &[VotingAccount] {
        &self.voters
    }

    /// Returns the people who are eligible to approve a deployment in one of its stages.
    pub fn electorate(
        &self,
        db: &mut impl StoreRead,
        deployment: DeploymentId,
        stage: &str,
    ) -> Result<ApprovalElectorate, EngineError> {
        let found = deployment::by_id(db, deployment)?;
        let found = found.ok_or_else(|| EngineError::bug("an approval without a deployment"))?;
        let mut starters = people_behind(db, &found.requested_by)?;
        if let DeploymentTarget::Stages(it) = &found.target {
            for account in &it.retried_by {
                if let Some(found) = user::by_id(db, *account)? {
                    starters.insert(owning_person(db, found)?.id);
                }
            }
        }
        let authors = match change_authors::load_of_stage(db, deployment, stage)? {
            None if has_commits(db, &found)? => None,
            read => Some(read.unwrap_or_default()),
        };
        Ok(ApprovalElectorate {
            voters: self.voters.clone(),
            members: self.by_address.clone(),
            starters,
            authors,
        })
    }
}

/// Whether the deployment has commits whose authors have to be read. A rollback has none, because its commits were in
/// the stage before.
fn has_commits(db: &mut impl StoreRead, deployment: &Deployment) -> Result<bool, EngineError> {
    Ok(match &deployment.target {
        DeploymentTarget::Stages(it) => {
            it.trigger.rollback_of().is_none() && deployment.resolved_commit.is_some()
        }
        DeploymentTarget::Environment(_) => {
            plan::by_id(db, deployment.id)?.is_some_and(|plan| plan.source.is_some())
        }
    })
}

fn as_voter(member: &MemberView) -> VotingAccount {
    let name = member.name.to_string();
    let by = Actor { kind: ActorType::User, id: Some(member.user), name, token: None };
    VotingAccount { by, person: member.user, role: member.role, emails: vec![member.email.clone()] }
}

/// Returns the people who are currently eligible to approve a deployment in one of its stages.
pub fn electorate(
    db: &mut impl StoreRead,
    deployment: DeploymentId,
    stage: &str,
) -> Result<ApprovalElectorate, EngineError> {
    VotingMembers::load(db)?.electorate(db, deployment, stage)
}

/// Counts the current votes of an approval.
pub fn tally(db: &mut impl StoreRead, approval: &Approval) -> Result<VoteTally, EngineError> {
    Ok(electorate(db, approval.deployment, &approval.stage)?.tally(&approval.rule, &approval.approvers()))
}
