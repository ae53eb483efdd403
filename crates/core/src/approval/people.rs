//! Whose vote counts. An account votes only for the person behind it.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::access::Role;
use crate::event::Actor;
use crate::id::UserId;
use crate::name::Email;
use crate::pipeline::model::{ApprovalPolicy, ApproverSelector};

/// A voting account at one point in time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VotingAccount {
    pub by: Actor,
    /// The owner, if the account is a service account.
    pub person: UserId,
    /// The lower of the roles of the account and the person.
    pub role: Role,
    /// Addresses of the account and the person.
    pub emails: Vec<Email>,
}

/// Authors of a change according to its commits. Commits can name any address, so authorship only makes a rule
/// stricter.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeAuthors {
    /// Authors, committers and co-authors, in lower case. Not all are valid addresses.
    pub emails: BTreeSet<String>,
    /// The change has more commits or addresses than are read, so some authors are unknown.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub is_cut: bool,
}

/// Everything that decides whose vote counts, at one point in time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ApprovalElectorate {
    /// Members who may approve, without service accounts.
    pub voters: Vec<VotingAccount>,
    /// The person behind each member's address, regardless of role. Addresses are in lower case.
    pub members: BTreeMap<String, UserId>,
    /// People who requested or retried the deployment, directly or through a service account.
    pub starters: BTreeSet<UserId>,
    /// `None` if they are not read yet; then no approval counts if self-approval is off.
    pub authors: Option<ChangeAuthors>,
}

/// The count of votes at one point in time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VoteTally {
    /// Number of approvals required.
    pub needed: u32,
    /// People whose approval counts.
    pub counted: BTreeSet<UserId>,
    /// Number of people who can approve, including those who have.
    pub eligible: usize,
    /// The authors of the change are not read yet.
    pub is_unread: bool,
}

impl ApprovalElectorate {
    /// Whether this voter wrote part of the change or started the deployment.
    pub fn is_barred(&self, voter: &VotingAccount) -> bool {
        self.people_involved().contains(&voter.person) || self.is_author(voter)
    }

    /// People who started the deployment, and members who wrote part of it, directly or through a service account.
    fn people_involved(&self) -> BTreeSet<UserId> {
        let emails = self.authors.iter().flat_map(|authors| &authors.emails);
        emails.filter_map(|email| self.members.get(email)).chain(&self.starters).copied().collect()
    }

    /// Whether an address of this voter is among the authors.
    fn is_author(&self, voter: &VotingAccount) -> bool {
        let names = |email: &Email| self.authors.as_ref().is_some_and(|it| it.emails.contains(&email.key()));
        voter.emails.iter().any(names)
    }

    /// Author addresses that belong to no member.
    pub fn unknown_authors(&self) -> impl Iterator<Item = &str> {
        let emails = self.authors.iter().flat_map(|authors| &authors.emails);
        emails.map(String::as_str).filter(|email| !self.members.contains_key(*email))
    }

    fn has_unknown_authors(&self) -> bool {
        self.unknown_authors().next().is_some() || self.authors.as_ref().is_some_and(|it| it.is_cut)
    }

    /// Number of approvals required: one more if the change has unknown authors, who could be among the approvers.
    pub fn required_approvals(&self, rule: &ApprovalPolicy) -> u32 {
        let is_raised = !rule.self_approval && self.has_unknown_authors();
        rule.approvals.saturating_add(u32::from(is_raised))
    }

    pub fn tally(&self, rule: &ApprovalPolicy, yes: &BTreeSet<UserId>) -> VoteTally {
        let involved = self.people_involved();
        let is_barred = |it: &VotingAccount| involved.contains(&it.person) || self.is_author(it);
        let counts = |it: &&VotingAccount| admits(rule, it) && (rule.self_approval || !is_barred(it));
        let eligible: BTreeSet<UserId> = self.voters.iter().filter(counts).map(|it| it.person).collect();
        VoteTally {
            needed: self.required_approvals(rule),
            counted: eligible.intersection(yes).copied().collect(),
            eligible: eligible.len(),
            is_unread: !rule.self_approval && self.authors.is_none(),
        }
    }
}

impl VoteTally {
    pub fn is_enough(&self) -> bool {
        !self.is_unread && self.counted.len() >= self.needed_count()
    }

    /// False if too few people can approve.
    pub fn is_reachable(&self) -> bool {
        self.eligible >= self.needed_count()
    }

    fn needed_count(&self) -> usize {
        usize::try_from(self.needed).unwrap_or(usize::MAX)
    }
}

/// Whether the rule admits this voter. A rule without approvers admits everyone with the permission.
pub fn admits(rule: &ApprovalPolicy, voter: &VotingAccount) -> bool {
    let is_named = |approver: &ApproverSelector| match approver {
        ApproverSelector::Role(role) => voter.role >= *role,
        ApproverSelector::Email(email) => voter.emails.iter().any(|own| own.key() == email.key()),
    };
    rule.from.is_empty() || rule.from.iter().any(is_named)
}
