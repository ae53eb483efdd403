//! Who counts. An account only ever votes for the person behind it.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::access::Role;
use crate::event::Actor;
use crate::id::UserId;
use crate::name::Email;
use crate::pipeline::model::{Approver, Requires};

/// An account that answers, as of this moment.
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

/// Who wrote a change, as its commits say. Commits can name any address, so that this only ever makes a rule stricter.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeAuthors {
    /// Authors, committers and co-authors, in lower case; not all of them are addresses.
    pub emails: BTreeSet<String>,
    /// There are more commits or addresses than are read: some authors are unknown.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub is_cut: bool,
}

/// Everything that decides whose word counts, as of one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Electorate {
    /// Members who may decide, without service accounts.
    pub voters: Vec<Voter>,
    /// The person behind each member's address, whatever the member may do. Addresses in lower case.
    pub members: BTreeMap<String, UserId>,
    /// People who asked for the deployment or retried it, also with a service account.
    pub starters: BTreeSet<UserId>,
    /// `None`: they are not read yet, so that no yes counts where self-approval is barred.
    pub authors: Option<ChangeAuthors>,
}

/// What the votes of an approval come to, as of one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tally {
    /// How many people have to approve.
    pub needed: u32,
    /// People whose yes counts.
    pub counted: BTreeSet<UserId>,
    /// How many people could approve, with those who have.
    pub eligible: usize,
    /// Authors of the change are still to be read.
    pub is_unread: bool,
}

impl Electorate {
    /// Whether this voter wrote or started what is to be approved.
    pub fn bars(&self, voter: &Voter) -> bool {
        self.people_involved().contains(&voter.person) || self.names(voter)
    }

    /// People who started it, and members who wrote part of it, also with the address of a service account.
    fn people_involved(&self) -> BTreeSet<UserId> {
        let emails = self.authors.iter().flat_map(|authors| &authors.emails);
        emails.filter_map(|email| self.members.get(email)).chain(&self.starters).copied().collect()
    }

    /// Whether the change names an address of this voter.
    fn names(&self, voter: &Voter) -> bool {
        let names = |email: &Email| self.authors.as_ref().is_some_and(|it| it.emails.contains(&email.key()));
        voter.emails.iter().any(names)
    }

    /// Addresses of the change that no member has.
    pub fn unknown_authors(&self) -> impl Iterator<Item = &str> {
        let emails = self.authors.iter().flat_map(|authors| &authors.emails);
        emails.map(String::as_str).filter(|email| !self.members.contains_key(*email))
    }

    fn has_unknown_authors(&self) -> bool {
        self.unknown_authors().next().is_some() || self.authors.as_ref().is_some_and(|it| it.is_cut)
    }

    /// How many people have to approve: one more where part of the change is by unknown authors, who could be among
    /// those who approve it.
    pub fn needed(&self, rule: &Requires) -> u32 {
        let is_raised = !rule.self_approval && self.has_unknown_authors();
        rule.approvals.saturating_add(u32::from(is_raised))
    }

    pub fn tally(&self, rule: &Requires, yes: &BTreeSet<UserId>) -> Tally {
        let involved = self.people_involved();
        let is_barred = |it: &Voter| involved.contains(&it.person) || self.names(it);
        let counts = |it: &&Voter| admits(rule, it) && (rule.self_approval || !is_barred(it));
        let eligible: BTreeSet<UserId> = self.voters.iter().filter(counts).map(|it| it.person).collect();
        Tally {
            needed: self.needed(rule),
            counted: eligible.intersection(yes).copied().collect(),
            eligible: eligible.len(),
            is_unread: !rule.self_approval && self.authors.is_none(),
        }
    }
}

impl Tally {
    pub fn is_enough(&self) -> bool {
        !self.is_unread && self.counted.len() >= self.wanted()
    }

    /// False: there are too few people to ask.
    pub fn is_reachable(&self) -> bool {
        self.eligible >= self.wanted()
    }

    fn wanted(&self) -> usize {
        usize::try_from(self.needed).unwrap_or(usize::MAX)
    }
}

/// Whether the rule names this voter. A rule without names is for all who may decide.
pub fn admits(rule: &Requires, voter: &Voter) -> bool {
    let is_named = |approver: &Approver| match approver {
        Approver::Role(role) => voter.role >= *role,
        Approver::Email(email) => voter.emails.iter().any(|own| own.key() == email.key()),
    };
    rule.from.is_empty() || rule.from.iter().any(is_named)
}
