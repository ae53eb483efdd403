//! Finds the people behind accounts, and determines who is eligible to approve.

use std::collections::{BTreeMap, BTreeSet};

use berth_core::access::{AccessTarget, Action, EffectiveAccess, Role, ScopedGrant};
use berth_core::approval::{Approval, ApprovalElectorate, VoteTally, VotingAccount};
use berth_core::decision::CommandRefusal;
use berth_core::deployment::{Deployment, DeploymentTarget};
use berth_core::event::{Actor, ActorType};
use berth_core::id::{DeploymentId, UserId};
use berth_core::name::Slug;
use berth_store::StoreRead;
use berth_store::pagination::PageStart;
use berth_store::tables::deployment;
use berth_store::tables::member::{self, MemberView};
use berth_store::tables::user::{self, User, UserAccount};
use berth_store::tables::{change_authors, grant, pipeline, plan, team, token};

use crate::error::EngineError;
use crate::limits::MEMBERS_PER_ORGANIZATION_MAX;

/// Maximum length of a chain of service account owners or token creators.
const OWNERS_MAX: usize = 16;

/// Returns the person who owns an account. For a service account, follows its owners until a person is found.
fn owning_person(db: &mut impl StoreRead, account: User) -> Result<User, EngineError> {
    let mut found = account;
    for _ in 0..OWNERS_MAX {
        let UserAccount::Service { owner, .. } = found.account else { break };
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

/// Returns the caller as a voter on an approval, with the access that is in effect in this transaction.
pub fn voter(
    db: &mut impl StoreRead,
    by: Actor,
    account: UserId,
    access: &EffectiveAccess,
    approval: &Approval,
) -> Result<VotingAccount, EngineError> {
    let account = user::by_id(db, account)?.ok_or_else(|| EngineError::bug("a caller without an account"))?;
    let (id, own) = (account.id, account.email.clone());
    let person = owning_person(db, account)?;
    let target = approval_target(db, approval)?;
    let mut roles = access.roles_on(&target);
    if id != person.id {
        let Some(member) = member::by_user(db, person.id)? else {
            let text = "the owner of this service account is no longer a member, so it cannot vote";
            return Err(CommandRefusal::NotEligible(text.into()).into());
        };
        let grants = grant::list_of_member(db, person.id)?;
        let owner = EffectiveAccess { grants, ..EffectiveAccess::of_role(member.role) }.roles_on(&target);
        roles = roles.iter().flat_map(|role| owner.iter().map(|theirs| role.common_part(*theirs))).collect();
    }
    let teams = team::list_of_user(db, person.id)?.into_iter().map(|team| team.slug).collect();
    Ok(VotingAccount { by, person: person.id, roles, teams, emails: vec![own, person.email] })
}

/// The stage or environment that waits for an approval.
pub fn approval_target(db: &mut impl StoreRead, approval: &Approval) -> Result<AccessTarget, EngineError> {
    let found = deployment::by_id(db, approval.deployment)?;
    let found = found.ok_or_else(|| EngineError::bug("an approval without a deployment"))?;
    stage_target(db, &found, &approval.stage)
}

fn stage_target(
    db: &mut impl StoreRead,
    deployment: &Deployment,
    stage: &str,
) -> Result<AccessTarget, EngineError> {
    let Some(pipeline) = pipeline::find_slug(db, deployment.pipeline)? else {
        return Ok(AccessTarget::Organization);
    };
    let (pipeline, name) = (pipeline.to_string(), stage.to_owned());
    Ok(match deployment.target {
        DeploymentTarget::Environment(_) => AccessTarget::Environment { pipeline, environment: name },
        DeploymentTarget::Stages(_) => AccessTarget::Stage { pipeline, stage: name },
    })
}

/// The members of an organization with their access, which decides who may vote on an approval.
pub struct VotingMembers {
    people: Vec<(MemberView, EffectiveAccess)>,
    teams: BTreeMap<UserId, BTreeSet<Slug>>,
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
        let mut grants = BTreeMap::<UserId, Vec<ScopedGrant>>::new();
        for (user, grant) in grant::list_of_all_members(db)? {
            grants.entry(user).or_default().push(grant);
        }
        let mut teams = BTreeMap::<UserId, BTreeSet<Slug>>::new();
        for (team, user) in team::list_all_members(db)? {
            teams.entry(user).or_default().insert(team);
        }
        let people = all.into_iter().filter(|it| !it.is_service).map(|it| {
            let grants = grants.remove(&it.user).unwrap_or_default().into();
            let access = EffectiveAccess { grants, ..EffectiveAccess::of_role(it.role) };
            (it, access)
        });
        Ok(Self { people: people.collect(), teams, by_address })
    }

    /// Returns the people who have the permission to approve in a stage or environment.
    pub fn voters_on(&self, target: &AccessTarget) -> Vec<VotingAccount> {
        let may_decide = |access: &EffectiveAccess| access.may(Action::ApprovalsDecide, target);
        let voters = self.people.iter().filter(|(_, access)| may_decide(access));
        voters.map(|(member, access)| self.as_voter(member, access.roles_on(target))).collect()
    }

    fn as_voter(&self, member: &MemberView, roles: Vec<Role>) -> VotingAccount {
        let name = member.name.to_string();
        let by = Actor { kind: ActorType::User, id: Some(member.user), name, token: None };
        let teams = self.teams.get(&member.user).cloned().unwrap_or_default();
        VotingAccount { by, person: member.user, roles, teams, emails: vec![member.email.clone()] }
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
            voters: self.voters_on(&stage_target(db, &found, stage)?),
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
