//! People: who stands behind an account, and whose word counts at this moment.

use std::collections::{BTreeMap, BTreeSet};

use berth_core::access::{Action, Role};
use berth_core::approval::{Approval, Electorate, Tally, Voter};
use berth_core::decision::Refusal;
use berth_core::event::{Actor, ActorKind};
use berth_core::id::{DeploymentId, UserId};
use berth_store::Read;
use berth_store::pagination::From;
use berth_store::query::deployments::{self, Either};
use berth_store::tables::member::{self, MemberView};
use berth_store::tables::user::{self, Account, User};
use berth_store::tables::{change_authors, plan, token};

use crate::error::EngineError;
use crate::limits::MEMBERS_PER_ORGANIZATION_MAX;

/// A service account may be owned by another one, and a token created with another one. This many in a row are followed.
const OWNERS_MAX: usize = 16;

/// The owner of a service account, through others if need be; a person is behind their own.
fn behind(db: &mut impl Read, account: User) -> Result<User, EngineError> {
    let mut found = account;
    for _ in 0..OWNERS_MAX {
        let Account::Service { owner } = found.account else { break };
        found =
            user::by_id(db, owner)?.ok_or_else(|| EngineError::bug("a service account without an owner"))?;
    }
    Ok(found)
}

/// People who may have acted: of a service account its owner, and the person who created the token it came with. Other
/// people who have the token are not recorded anywhere.
pub fn people_behind(db: &mut impl Read, by: &Actor) -> Result<BTreeSet<UserId>, EngineError> {
    let (mut people, mut next) = (BTreeSet::new(), Some(by.clone()));
    for _ in 0..OWNERS_MAX {
        let Some(actor) = next.take() else { break };
        let Some(id) = actor.id else { break };
        let Some(account) = user::by_id(db, id)? else { break };
        let is_service = matches!(account.account, Account::Service { .. });
        people.insert(behind(db, account)?.id);
        if let Some(used) = actor.token.filter(|_| is_service) {
            next = token::creator(db, used)?;
        }
    }
    Ok(people)
}

/// The caller, with the role they have in this transaction.
pub fn voter(db: &mut impl Read, by: Actor, account: UserId, role: Role) -> Result<Voter, EngineError> {
    let account = user::by_id(db, account)?.ok_or_else(|| EngineError::bug("a caller without an account"))?;
    let (id, own) = (account.id, account.email.clone());
    let person = behind(db, account)?;
    let role = match id == person.id {
        true => role,
        false => match member::by_user(db, person.id)? {
            Some(member) => role.min(member.role),
            None => {
                let text =
                    "the owner of this service account is not a member any more, so that it cannot answer";
                return Err(Refusal::NotEligible(text.into()).into());
            }
        },
    };
    Ok(Voter { by, person: person.id, role, emails: vec![own, person.email] })
}

/// The members of an organization, as those who decide on approvals.
pub struct Members {
    voters: Vec<Voter>,
    by_address: BTreeMap<String, UserId>,
}

impl Members {
    pub fn load(db: &mut impl Read) -> Result<Self, EngineError> {
        let all = member::list(db, &From::Offset(0), MEMBERS_PER_ORGANIZATION_MAX)?.items;
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

    pub fn voters(&self) -> &[Voter] {
        &self.voters
    }

    /// Whose word counts about a deployment and one of its stages.
    pub fn electorate(
        &self,
        db: &mut impl Read,
        deployment: DeploymentId,
        stage: &str,
    ) -> Result<Electorate, EngineError> {
        let found = deployments::by_id(db, deployment)?;
        let found = found.ok_or_else(|| EngineError::bug("an approval without a deployment"))?;
        let mut starters = match &found {
            Either::Environment(it) => people_behind(db, &it.requested_by)?,
            Either::Stages(it) => people_behind(db, &it.requested_by)?,
        };
        if let Either::Stages(it) = &found {
            for account in &it.retried_by {
                if let Some(found) = user::by_id(db, *account)? {
                    starters.insert(behind(db, found)?.id);
                }
            }
        }
        let authors = match change_authors::by_stage(db, deployment, stage)? {
            None if has_commits(db, &found)? => None,
            read => Some(read.unwrap_or_default()),
        };
        Ok(Electorate { voters: self.voters.clone(), members: self.by_address.clone(), starters, authors })
    }
}

/// Whether there are authors to read. What a rollback brings back has been in the stage before.
fn has_commits(db: &mut impl Read, deployment: &Either) -> Result<bool, EngineError> {
    Ok(match deployment {
        Either::Stages(it) => it.trigger.takes_back().is_none() && it.resolved_commit.is_some(),
        Either::Environment(it) => plan::by_id(db, it.id)?.is_some_and(|plan| plan.source.is_some()),
    })
}

fn as_voter(member: &MemberView) -> Voter {
    let name = member.name.to_string();
    let by = Actor { kind: ActorKind::User, id: Some(member.user), name, token: None };
    Voter { by, person: member.user, role: member.role, emails: vec![member.email.clone()] }
}

/// Whose word counts about a deployment and one of its stages, now.
pub fn electorate(
    db: &mut impl Read,
    deployment: DeploymentId,
    stage: &str,
) -> Result<Electorate, EngineError> {
    Members::load(db)?.electorate(db, deployment, stage)
}

/// What the votes of an approval come to now.
pub fn tally(db: &mut impl Read, approval: &Approval) -> Result<Tally, EngineError> {
    Ok(electorate(db, approval.deployment, &approval.stage)?.tally(&approval.rule, &approval.yes()))
}
