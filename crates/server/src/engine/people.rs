//! People: who stands behind an account, and whose word does not count.

use std::collections::BTreeSet;

use berth_core::access::Role;
use berth_core::approval::{Excluded, Voter};
use berth_core::decision::Refusal;
use berth_core::event::Actor;
use berth_core::id::UserId;
use berth_core::name::Email;
use berth_store::Read;
use berth_store::records::member;
use berth_store::records::user::{self, Account, User};

use super::whole::{Head, Whole};
use crate::error::AppError;

/// A service account may be owned by another one; nobody needs more of them in a row.
const OWNERS_MAX: usize = 16;

/// The owner of a service account, through others if need be; a person is behind their own.
fn behind(db: &mut impl Read, account: User) -> Result<User, AppError> {
    let mut found = account;
    for _ in 0..OWNERS_MAX {
        let Account::Service { owner } = found.account else { break };
        found = user::by_id(db, owner)?.ok_or_else(|| AppError::bug("a service account without an owner"))?;
    }
    Ok(found)
}

/// Whoever answers, with the role they have in this transaction.
pub(crate) fn voter(db: &mut impl Read, by: Actor, account: UserId, role: Role) -> Result<Voter, AppError> {
    let account = user::by_id(db, account)?.ok_or_else(|| AppError::bug("a caller without an account"))?;
    let (id, own) = (account.id, account.email.clone());
    let person = behind(db, account)?;
    let role = match id == person.id {
        true => role,
        false => match member::by_user(db, person.id)? {
            Some(member) => role.min(member.role),
            None => {
                let text =
                    "the owner of this service account is not a member any more; nobody answers for it";
                return Err(Refusal::NotEligible(text.into()).into());
            }
        },
    };
    Ok(Voter { by, person: person.id, role, emails: vec![own, person.email] })
}

/// The commit's author, whoever asked for the deployment, and whoever retried it.
pub(super) fn excluded(db: &mut impl Read, whole: &Whole) -> Result<Excluded, AppError> {
    let accounts: BTreeSet<UserId> = match &whole.head {
        Head::Environment { deployment, .. } => deployment.requested_by.id.into_iter().collect(),
        Head::Stages { rollout, .. } => {
            rollout.requested_by.id.into_iter().chain(rollout.retried_by.iter().copied()).collect()
        }
    };
    let mut people = BTreeSet::new();
    for account in accounts {
        if let Some(found) = user::by_id(db, account)? {
            people.insert(behind(db, found)?.id);
        }
    }
    let author = whole.plan.source.as_ref().and_then(|source| source.author.as_deref());
    Ok(Excluded { people, author: author.and_then(|text| Email::parse(text).ok()) })
}
