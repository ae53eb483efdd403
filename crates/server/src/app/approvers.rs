//! Approvers: whether the members of today could give the approvals that a definition asks for.

use std::collections::BTreeSet;

use berth_core::access::Action;
use berth_core::approval::{Voter, admits};
use berth_core::event::{Actor, ActorKind};
use berth_core::id::UserId;
use berth_core::pipeline::Definition;
use berth_core::pipeline::model::Requires;
use berth_store::Read;
use berth_store::query::From;
use berth_store::query::members::{self, MemberView};

use crate::error::AppError;
use crate::limits::MEMBERS_PER_ORGANIZATION_MAX;

/// Rules of stages that cannot be fulfilled: where they stand, and why not.
pub(super) fn unfulfillable(
    db: &mut impl Read,
    definition: &Definition,
) -> Result<Vec<(String, String)>, AppError> {
    let rules = definition.stages.iter().enumerate();
    let rules: Vec<(usize, &Requires)> =
        rules.filter_map(|(index, stage)| Some((index, stage.requires.as_ref()?))).collect();
    if rules.is_empty() {
        return Ok(Vec::new());
    }
    let members = members::list(db, &From::Offset(0), MEMBERS_PER_ORGANIZATION_MAX)?.items;
    let voters: Vec<Voter> = members.iter().filter_map(|member| voter(member, &members)).collect();
    let mut found = Vec::new();
    for (index, rule) in rules {
        let people: BTreeSet<UserId> =
            voters.iter().filter(|voter| admits(rule, voter)).map(|voter| voter.person).collect();
        if people.len() < usize::try_from(rule.approvals).unwrap_or(usize::MAX) {
            let text = format!(
                "{} approvals are asked for, but of the members only {} can give one; add members or change the rule",
                rule.approvals,
                people.len()
            );
            found.push((format!("/pipeline/stages/{index}/requires"), text));
        }
    }
    Ok(found)
}

/// `None` for somebody who may not decide.
fn voter(member: &MemberView, all: &[MemberView]) -> Option<Voter> {
    let person = match member.owner {
        Some(owner) => all.iter().find(|it| it.user == owner)?,
        None => member,
    };
    let role = member.role.min(person.role);
    let by = Actor {
        kind: if member.is_service { ActorKind::Service } else { ActorKind::User },
        id: Some(member.user),
        name: member.name.to_string(),
        token: None,
    };
    let emails = vec![member.email.clone(), person.email.clone()];
    role.may(Action::ApprovalsDecide).then_some(Voter { by, person: person.user, role, emails })
}
