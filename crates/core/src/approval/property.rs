//! Property tests: invariants of approvals while people vote, join, leave and change roles.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::access::{Action, Role};
use crate::decision::CommandRefusal;
use crate::event::{Actor, ActorType};
use crate::id::{ApprovalId, DeploymentId, PipelineId, UserId};
use crate::name::{Email, Slug};
use crate::pipeline::model::{ApprovalPolicy, ApproverSelector};
use crate::pipeline::seconds::DurationSeconds;
use crate::time::Timestamp;

const START: Timestamp = Timestamp::from_micros(1_794_729_600_000_000);
const TIMEOUT_S: i64 = 100;

fn person(number: u8) -> UserId {
    UserId::from_parts(START, [number; 10])
}

fn email(number: u8) -> Email {
    Email::parse(&format!("p{number}@acme.test")).expect("an address")
}

/// Accounts 0 to 7 are people; accounts 8 to 15 are service accounts of the same people.
fn voter(account: u8) -> VotingAccount {
    let owner = account % 8;
    let roles = vec![Role::ALL[usize::from(owner % 7)]];
    let teams = owner.is_multiple_of(3).then(|| team("sre")).into_iter().collect();
    let kind = if account < 8 { ActorType::User } else { ActorType::Service };
    let by = Actor { kind, id: Some(person(account)), name: format!("a{account}"), token: None };
    VotingAccount { by, person: person(owner), roles, teams, emails: vec![email(account), email(owner)] }
}

fn team(slug: &str) -> Slug {
    Slug::parse(slug).expect("a slug")
}

fn may_decide(voter: &VotingAccount) -> bool {
    voter.roles.iter().any(|role| role.may(Action::ApprovalsDecide))
}

/// A model of the people involved: members, their roles, authors and starters.
#[derive(Debug, Clone)]
struct ElectorateModel {
    /// The people (0 to 7) who are members.
    present: BTreeSet<u8>,
    /// Members who were demoted to viewers.
    demoted: BTreeSet<u8>,
    starters: BTreeSet<u8>,
    /// Authors of the change. Numbers from 16 on have no account.
    authors: BTreeSet<u8>,
    is_cut: bool,
    is_unread: bool,
}

impl ElectorateModel {
    fn voter(&self, account: u8) -> VotingAccount {
        let voter = voter(account);
        let is_demoted = self.demoted.contains(&(account % 8));
        let roles = if is_demoted { vec![Role::Viewer] } else { voter.roles.clone() };
        VotingAccount { roles, ..voter }
    }

    fn electorate(&self) -> ApprovalElectorate {
        let voters = self.present.iter().map(|it| self.voter(*it));
        let addresses = self.present.iter().flat_map(|it| [*it, *it + 8]);
        let authors = ChangeAuthors {
            emails: self.authors.iter().map(|it| email(*it).key()).collect(),
            is_cut: self.is_cut,
        };
        ApprovalElectorate {
            voters: voters.filter(may_decide).collect(),
            members: addresses.map(|it| (email(it).key(), person(it % 8))).collect(),
            starters: self.starters.iter().map(|it| person(*it)).collect(),
            authors: (!self.is_unread).then_some(authors),
        }
    }

    /// Reference implementation: whether an approval by this person (0 to 7) counts.
    fn counts(&self, rule: &ApprovalPolicy, number: u8) -> bool {
        let voter = self.voter(number);
        let wrote =
            !self.is_unread && (self.authors.contains(&number) || self.authors.contains(&(number + 8)));
        self.present.contains(&number)
            && may_decide(&voter)
            && admits(rule, &voter)
            && (rule.self_approval || !(wrote || self.starters.contains(&number)))
    }

    fn required_approvals(&self, rule: &ApprovalPolicy) -> u32 {
        let is_stranger = |it: &u8| *it >= 16 || !self.present.contains(&(it % 8));
        let strangers = !self.is_unread && (self.is_cut || self.authors.iter().any(is_stranger));
        rule.approvals + u32::from(strangers && !rule.self_approval)
    }

    fn is_enough(&self, rule: &ApprovalPolicy, yes: &BTreeSet<UserId>) -> bool {
        let counted = (0..8).filter(|it| yes.contains(&person(*it)) && self.counts(rule, *it)).count();
        (rule.self_approval || !self.is_unread)
            && counted >= usize::try_from(self.required_approvals(rule)).unwrap()
    }
}

fn number_set(of: std::ops::Range<u8>, many: usize) -> impl Strategy<Value = BTreeSet<u8>> {
    prop::collection::btree_set(of, 0..many)
}

fn people() -> impl Strategy<Value = ElectorateModel> {
    let sets = (number_set(0..8, 3), number_set(0..8, 3), number_set(0..8, 3), number_set(0..18, 3));
    (sets, prop::bool::weighted(0.1), prop::bool::weighted(0.1)).prop_map(
        |((gone, demoted, starters, authors), is_cut, is_unread)| ElectorateModel {
            present: (0..8).filter(|it| !gone.contains(it)).collect(),
            demoted,
            starters,
            authors,
            is_cut,
            is_unread,
        },
    )
}

fn rules() -> impl Strategy<Value = ApprovalPolicy> {
    let approver = prop_oneof![
        prop::sample::select(Role::ALL.to_vec()).prop_map(ApproverSelector::Role),
        prop::sample::select(vec!["sre", "qa"]).prop_map(|slug| ApproverSelector::Team(team(slug))),
        (0u8..8).prop_map(|number| ApproverSelector::Email(email(number))),
    ];
    (1u32..4, prop::collection::vec(approver, 0..3), any::<bool>(), any::<bool>()).prop_map(
        |(approvals, from, self_approval, has_timeout)| {
            let timeout = has_timeout.then_some(DurationSeconds::from_secs(TIMEOUT_S.unsigned_abs()));
            ApprovalPolicy { approvals, from, self_approval, timeout }
        },
    )
}

/// Account, whether it approves, seconds since the previous vote, and whether the content has changed.
type VoteInput = (u8, bool, i64, bool);

fn votes() -> impl Strategy<Value = Vec<(VoteInput, ElectorateModel)>> {
    let said = (0u8..16, prop::bool::weighted(0.9), 0i64..30, prop::bool::weighted(0.03));
    prop::collection::vec((said, people()), 0..16)
}

fn new_approval(rule: ApprovalPolicy) -> Approval {
    let needed = rule.approvals;
    let request = NewApproval {
        id: ApprovalId::from_parts(START, [1; 10]),
        deployment: DeploymentId::from_parts(START, [2; 10]),
        number: 42,
        pipeline: PipelineId::from_parts(START, [3; 10]),
        stage: "production".into(),
        step: None,
        rule,
        message: None,
        digest: "sha256:one".into(),
    };
    super::request(request, needed, START).answer
}

/// An approval that these people have voted for.
fn approval_with(rule: ApprovalPolicy, yes: &BTreeSet<u8>) -> Approval {
    let mut approval = new_approval(rule);
    let vote = |number: &u8| RecordedVote {
        by: voter(*number).by,
        person: person(*number),
        choice: ApprovalChoice::Approve,
        comment: None,
        at: START,
        is_void: false,
    };
    approval.votes = yes.iter().map(vote).collect();
    approval
}

/// The approval record after a decision.
fn approval_after(before: &Approval, ruling: &crate::decision::RefusableDecision<Approval>) -> Approval {
    let put = ruling.changes.iter().rev().find_map(|change| match change {
        crate::decision::RecordChange::Put(crate::decision::DomainRecord::Approval(it)) => {
            Some((**it).clone())
        }
        crate::decision::RecordChange::Put(_) => None,
    });
    put.unwrap_or_else(|| before.clone())
}

proptest! {
    #[test]
    fn approval_is_granted_only_with_enough_valid_votes_of_distinct_people(
        rule in rules(), votes in votes(),
    ) {
        let mut approval = new_approval(rule.clone());
        let mut now = START;
        for ((account, says_yes, later_s, is_other), people) in votes {
            now = now.plus_seconds(later_s);
            let (voter, electorate) = (people.voter(account), people.electorate());
            // Authentication admits only members, and service accounts may not approve.
            let is_let = people.present.contains(&(account % 8)) && may_decide(&voter);
            if !is_let || (says_yes && account >= 8) {
                continue;
            }
            let digest = if is_other { "sha256:two" } else { "sha256:one" };
            let choice = if says_yes { ApprovalChoice::Approve } else { ApprovalChoice::Reject };
            let ballot = VoteRequest { voter: voter.clone(), choice, comment: None };
            let ruling = vote(&approval, &ballot, digest, &electorate, now);
            let next = approval_after(&approval, &ruling);
            prop_assert_eq!(next.version - approval.version, i64::from(next != approval));
            prop_assert_eq!(ruling.changes.is_empty(), ruling.events.is_empty());
            let is_late = rule.timeout.is_some() && now >= START.plus_seconds(TIMEOUT_S);
            match &ruling.answer {
                Ok(_) => {
                    prop_assert_eq!(approval.status, ApprovalState::Pending);
                    prop_assert!(!is_late && !is_other);
                    prop_assert!(admits(&rule, &voter));
                    prop_assert!(!says_yes || people.counts(&rule, account));
                    prop_assert_eq!(next.votes.len(), approval.votes.len() + 1);
                    prop_assert_eq!(next.needed, people.required_approvals(&rule));
                    if says_yes {
                        let is_enough = people.is_enough(&rule, &next.approvers());
                        prop_assert_eq!(next.status == ApprovalState::Approved, is_enough);
                        prop_assert_eq!(is_enough, is_still_valid(&next, "sha256:one", &electorate));
                    }
                    if next.status == ApprovalState::Approved {
                        let voters = (0..8).filter(|it| next.approvers().contains(&person(*it)));
                        let counted = voters.filter(|it| people.counts(&rule, *it)).count();
                        prop_assert_eq!(next.valid_approvals(), counted, "votes that do not count are void");
                    }
                }
                Err(refusal) => {
                    let said = |it: &Approval| it.votes.iter().map(|it| (it.person, it.choice)).collect::<Vec<_>>();
                    prop_assert_eq!(said(&next), said(&approval));
                    match refusal {
                        CommandRefusal::ApprovalEnded(_) => prop_assert!(next.status != ApprovalState::Pending),
                        CommandRefusal::AlreadyVoted(_) => {
                            prop_assert!(next.votes.iter().any(|vote| vote.person == voter.person));
                        }
                        CommandRefusal::NotEligible(_) => prop_assert!(
                            !admits(&rule, &voter) || (says_yes && !people.counts(&rule, account))
                        ),
                        CommandRefusal::InvalidState(_) => {
                            prop_assert!(says_yes && people.is_unread && !rule.self_approval);
                        }
                        other => prop_assert!(false, "{other:?}"),
                    }
                }
            }
            if approval.status != ApprovalState::Pending {
                prop_assert_eq!(&next, &approval, "what has ended stays as it ended");
            }
            approval = next;
        }
        prop_assert_eq!(approval.approvers().len() + usize::from(approval.rejection().is_some()), approval.votes.len());
        prop_assert_eq!(approval.status == ApprovalState::Rejected, approval.rejection().is_some());
        prop_assert_eq!(approval.status == ApprovalState::Pending, approval.ended_at.is_none());
    }

    #[test]
    fn granted_approval_stays_valid_while_enough_votes_count(
        rule in rules(), yes in number_set(0..8, 8), people in people(),
    ) {
        let electorate = people.electorate();
        let pending = approval_with(rule.clone(), &yes);
        prop_assert!(!is_still_valid(&pending, "sha256:one", &electorate));
        let approved = Approval { status: ApprovalState::Approved, ..pending };
        let is_enough = people.is_enough(&rule, &approved.approvers());
        prop_assert_eq!(is_still_valid(&approved, "sha256:one", &electorate), is_enough);
        prop_assert!(!is_still_valid(&approved, "sha256:two", &electorate));
    }

    #[test]
    fn recount_grants_only_approvals_with_enough_valid_votes(
        rule in rules(), yes in number_set(0..8, 8), people in people(), later_s in 0i64..200, is_other: bool,
    ) {
        let (pending, now) = (approval_with(rule.clone(), &yes), START.plus_seconds(later_s));
        let pending =
            Approval { expires_at: rule.timeout.map(|_| START.plus_seconds(TIMEOUT_S)), ..pending };
        let digest = if is_other { "sha256:two" } else { "sha256:one" };
        let counted = recount(&pending, digest, &people.electorate(), now).answer;
        let is_late = rule.timeout.is_some() && later_s >= TIMEOUT_S;
        let is_granted = people.is_enough(&rule, &pending.approvers()) && !is_late && !is_other;
        prop_assert_eq!(counted.status == ApprovalState::Approved, is_granted);
        prop_assert!(is_granted || counted == pending);
        let again = recount(&counted, digest, &people.electorate(), now);
        prop_assert!(again.changes.is_empty());
    }

    #[test]
    fn tally_with_more_authors_or_fewer_members_is_never_more_lenient(
        rule in rules(), yes in number_set(0..8, 8), people in people(), more in people(),
    ) {
        let mut stricter = people.clone();
        stricter.present.retain(|it| more.present.contains(it));
        stricter.demoted.extend(&more.demoted);
        stricter.starters.extend(&more.starters);
        stricter.authors.extend(&more.authors);
        stricter.is_cut |= more.is_cut;
        let said: BTreeSet<UserId> = yes.iter().map(|it| person(*it)).collect();
        let [loose, strict] = [&people, &stricter].map(|it| it.electorate().tally(&rule, &said));
        prop_assert!(strict.counted.is_subset(&loose.counted) && strict.eligible <= loose.eligible);
        prop_assert!(strict.needed >= loose.needed);
        prop_assert!(strict.needed <= rule.approvals + 1, "unknown authors raise it by one in total");
        prop_assert!(loose.is_enough() || !strict.is_enough());
        prop_assert!(!loose.is_enough() || loose.is_reachable());
    }

    #[test]
    fn approval_expires_exactly_at_its_timeout(later_s in 0i64..200) {
        let timeout = Some(DurationSeconds::from_secs(TIMEOUT_S.unsigned_abs()));
        let rule = ApprovalPolicy { approvals: 1, from: Vec::new(), self_approval: true, timeout };
        let expired = expire(&new_approval(rule), &ApprovalElectorate::default(), START.plus_seconds(later_s)).answer;
        prop_assert_eq!(expired.status == ApprovalState::Expired, later_s >= TIMEOUT_S);
    }
}

#[test]
fn author_cannot_approve_with_another_account() {
    let rule = ApprovalPolicy { approvals: 1, from: Vec::new(), self_approval: false, timeout: None };
    let approval = new_approval(rule);
    let address = Email::parse("P3@Acme.Test").expect("an address");
    let everyone = ElectorateModel {
        present: (0..8).collect(),
        demoted: BTreeSet::new(),
        starters: BTreeSet::new(),
        authors: BTreeSet::new(),
        is_cut: false,
        is_unread: false,
    };
    let emails = BTreeSet::from([address.key()]);
    let authors = Some(ChangeAuthors { emails, is_cut: false });
    let electorate = ApprovalElectorate { authors, ..everyone.electorate() };
    for account in [3, 11] {
        let ballot = VoteRequest { voter: voter(account), choice: ApprovalChoice::Approve, comment: None };
        let said = vote(&approval, &ballot, "sha256:one", &electorate, START).answer;
        assert!(matches!(said, Err(CommandRefusal::NotEligible(_))), "{said:?}");
    }
    let reject = VoteRequest { voter: voter(3), choice: ApprovalChoice::Reject, comment: None };
    let said = vote(&approval, &reject, "sha256:one", &electorate, START).answer.expect("a no");
    assert_eq!(said.status, ApprovalState::Rejected);
}
