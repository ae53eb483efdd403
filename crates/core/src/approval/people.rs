//! Decides whose vote counts. Each account votes on behalf of the person behind it, so two accounts of one person have
//! one vote.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::access::Role;
use crate::event::Actor;
use crate::id::UserId;
use crate::name::{Email, Slug};
use crate::pipeline::model::{ApprovalPolicy, ApproverSelector};

/// An account that may vote, as it is at one point in time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VotingAccount {
    pub by: Actor,
    /// The person behind the account; for a service account, its owner.
    pub person: UserId,
    /// Roles in the organization and on the stage. For a service account, only roles that the person behind it has too.
    pub roles: Vec<Role>,
    /// Teams of the person.
    pub teams: BTreeSet<Slug>,
    /// Email addresses of the account and of the person.
    pub emails: Vec<Email>,
}

/// The authors of a change according to its commits. A commit can name any address, so being an author never grants a
/// right; it can only exclude a person from approving.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeAuthors {
    /// Addresses of authors, committers and co-authors, in lower case. Some may not be valid addresses.
    pub emails: BTreeSet<String>,
    /// The change has more commits or addresses than Berth reads, so some authors are unknown.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub is_cut: bool,
}

/// Everything that decides whose vote counts, at one point in time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ApprovalElectorate {
    /// Members who have the permission to approve, except service accounts.
    pub voters: Vec<VotingAccount>,
    /// The person behind each member's address, regardless of role. Addresses are in lower case.
    pub members: BTreeMap<String, UserId>,
    /// People who requested or retried the deployment, directly or through a service account.
    pub starters: BTreeSet<UserId>,
    /// `None` until the authors have been read from the repository. Until then, no approval counts if self-approval is
    /// off.
    pub authors: Option<ChangeAuthors>,
}

/// The result of counting the votes at one point in time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VoteTally {
    /// Number of approvals required.
    pub needed: u32,
    /// People whose approval counts.
    pub counted: BTreeSet<UserId>,
    /// Number of people who can approve, including those who already have.
    pub eligible: usize,
    /// The authors have not been read yet, and self-approval is off, so the votes cannot be enough yet.
    pub is_unread: bool,
}

impl ApprovalElectorate {
    /// Whether this voter wrote part of the change, or started or retried the deployment.
    pub fn is_barred(&self, voter: &VotingAccount) -> bool {
        self.people_involved().contains(&voter.person) || self.is_author(voter)
    }

    /// People who started or retried the deployment, and members who wrote part of the change, directly or through a
    /// service account.
    fn people_involved(&self) -> BTreeSet<UserId> {
        let emails = self.authors.iter().flat_map(|authors| &authors.emails);
        emails.filter_map(|email| self.members.get(email)).chain(&self.starters).copied().collect()
    }

    /// Whether an address of this voter is among the authors.
    fn is_author(&self, voter: &VotingAccount) -> bool {
        let names = |email: &Email| self.authors.as_ref().is_some_and(|it| it.emails.contains(&email.key()));
        voter.emails.iter().any(names)
    }

    /// Author addresses that do not belong to any member.
    pub fn unknown_authors(&self) -> impl Iterator<Item = &str> {
        let emails = self.authors.iter().flat_map(|authors| &authors.emails);
        emails.map(String::as_str).filter(|email| !self.members.contains_key(*email))
    }

    fn has_unknown_authors(&self) -> bool {
        self.unknown_authors().next().is_some() || self.authors.as_ref().is_some_and(|it| it.is_cut)
    }

    /// Number of approvals required. If self-approval is off and the change has unknown authors, one more is required,
    /// because an approver could be such an author.
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

    /// Whether enough people can approve.
    pub fn is_reachable(&self) -> bool {
        self.eligible >= self.needed_count()
    }

    fn needed_count(&self) -> usize {
        usize::try_from(self.needed).unwrap_or(usize::MAX)
    }
}

/// Whether the rule's list of approvers includes this voter. An empty list includes every voter.
pub fn admits(rule: &ApprovalPolicy, voter: &VotingAccount) -> bool {
    let is_named = |approver: &ApproverSelector| match approver {
        ApproverSelector::Role(role) => voter.roles.iter().any(|own| own.includes(*role)),
        ApproverSelector::Team(team) => voter.teams.contains(team),
        ApproverSelector::Email(email) => voter.emails.iter().any(|own| own.key() == email.key()),
    };
    rule.from.is_empty() || rule.from.iter().any(is_named)
}
