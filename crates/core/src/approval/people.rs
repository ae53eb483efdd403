//! Who counts. An account only ever votes for the person behind it.

use std::collections::BTreeSet;

use crate::access::Role;
use crate::event::Actor;
use crate::id::UserId;
use crate::name::Email;
use crate::pipeline::model::{Approver, Requires};

/// Somebody who answers, as of this moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Voter {
    pub by: Actor,
    /// The owner, for a service account.
    pub person: UserId,
    /// The lower one of the account's and the person's.
    pub role: Role,
    /// Of the account and of the person.
    pub emails: Vec<Email>,
}

/// Who may not approve where the rule bars self-approval.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Excluded {
    /// Whoever asked for the deployment or has retried it, with all their accounts.
    pub people: BTreeSet<UserId>,
    /// The commit's author. It comes out of a commit, where anybody can write anything: it only ever excludes.
    pub author: Option<Email>,
}

impl Excluded {
    pub fn bars(&self, voter: &Voter) -> bool {
        let author = self.author.as_ref().map(Email::key);
        self.people.contains(&voter.person)
            || author.is_some_and(|author| voter.emails.iter().any(|email| email.key() == author))
    }
}

/// Whether the rule names this voter. A rule that names nobody is for everybody who may decide at all.
pub fn admits(rule: &Requires, voter: &Voter) -> bool {
    let is_named = |approver: &Approver| match approver {
        Approver::Role(role) => voter.role >= *role,
        Approver::Email(email) => voter.emails.iter().any(|own| own.key() == email.key()),
    };
    rule.from.is_empty() || rule.from.iter().any(is_named)
}
