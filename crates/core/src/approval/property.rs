//! What must hold of approvals, whoever votes and in whichever order.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::access::Role;
use crate::decision::Refusal;
use crate::event::{Actor, ActorKind};
use crate::id::{ApprovalId, DeploymentId, PipelineId, UserId};
use crate::name::Email;
use crate::pipeline::model::{Approver, Requires};
use crate::pipeline::seconds::Seconds;
use crate::time::Timestamp;

const START: Timestamp = Timestamp::from_micros(1_794_729_600_000_000);
const TIMEOUT_S: i64 = 100;

fn person(number: u8) -> UserId {
    UserId::from_parts(START, [number; 10])
}

fn email(number: u8) -> Email {
    Email::parse(&format!("p{number}@acme.test")).expect("an address")
}

/// Accounts 0..8 are people; 8..16 are service accounts of the same people.
fn voter(account: u8) -> Voter {
    let owner = account % 8;
    let role = Role::ALL[usize::from(owner % 4)];
    let kind = if account < 8 { ActorKind::User } else { ActorKind::Service };
    let by = Actor { kind, id: Some(person(account)), name: format!("a{account}"), token: None };
    Voter { by, person: person(owner), role, emails: vec![email(account), email(owner)] }
}

#[derive(Debug, Clone)]
struct Case {
    rule: Requires,
    excluded: Excluded,
    /// Account, whether it says yes, seconds since the one before, and whether the thing is another one by now.
    votes: Vec<(u8, bool, i64, bool)>,
}

fn cases() -> impl Strategy<Value = Case> {
    let approver = prop_oneof![
        prop::sample::select(Role::ALL.to_vec()).prop_map(Approver::Role),
        (0u8..8).prop_map(|number| Approver::Email(email(number))),
    ];
    let rule = (1u32..4, prop::collection::vec(approver, 0..3), any::<bool>(), any::<bool>());
    let votes = prop::collection::vec(
        (0u8..16, prop::bool::weighted(0.9), 0i64..30, prop::bool::weighted(0.03)),
        0..16,
    );
    let excluded = (prop::collection::btree_set(0u8..8, 0..3), prop::option::of(0u8..8));
    (rule, excluded, votes).prop_map(
        |((approvals, from, self_approval, has_timeout), (people, author), votes)| {
            let timeout = has_timeout.then_some(Seconds::from_secs(TIMEOUT_S.unsigned_abs()));
            let excluded =
                Excluded { people: people.into_iter().map(person).collect(), author: author.map(email) };
            Case { rule: Requires { approvals, from, self_approval, timeout }, excluded, votes }
        },
    )
}

fn asked(rule: Requires) -> Approval {
    let request = Request {
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
    super::request(request, START).answer
}

/// What a decision leaves: its last word about the record, or the record as it was.
fn after(before: &Approval, ruling: &crate::decision::Ruling<Approval>) -> Approval {
    let put = ruling.changes.iter().rev().find_map(|change| match change {
        crate::decision::Change::Put(crate::decision::Record::Approval(it)) => Some((**it).clone()),
        crate::decision::Change::Put(_) => None,
    });
    put.unwrap_or_else(|| before.clone())
}

proptest! {
    #[test]
    fn only_enough_distinct_people_who_count_approve(case in cases()) {
        let mut approval = asked(case.rule.clone());
        let mut now = START;
        for (account, says_yes, later_s, is_other) in case.votes {
            now = now.plus_seconds(later_s);
            let voter = voter(account);
            let digest = if is_other { "sha256:two" } else { "sha256:one" };
            let choice = if says_yes { Choice::Approve } else { Choice::Reject };
            let ballot = Ballot { voter: voter.clone(), choice, comment: None };
            let ruling = vote(&approval, &ballot, digest, &case.excluded, now);
            let next = after(&approval, &ruling);
            prop_assert_eq!(next.version - approval.version, i64::from(next != approval));
            prop_assert_eq!(ruling.changes.is_empty(), ruling.events.is_empty());
            let is_late = case.rule.timeout.is_some() && now >= START.plus_seconds(TIMEOUT_S);
            match &ruling.answer {
                Ok(_) => {
                    prop_assert_eq!(approval.status, Status::Pending);
                    prop_assert!(!is_late && !is_other);
                    prop_assert!(admits(&case.rule, &voter));
                    prop_assert!(!says_yes || case.rule.self_approval || !case.excluded.bars(&voter));
                    prop_assert_eq!(next.votes.len(), approval.votes.len() + 1);
                }
                Err(refusal) => {
                    prop_assert_eq!(&next.votes, &approval.votes);
                    match refusal {
                        Refusal::ApprovalEnded(_) => prop_assert!(next.status != Status::Pending),
                        Refusal::AlreadyVoted(_) => {
                            prop_assert!(next.votes.iter().any(|vote| vote.person == voter.person));
                        }
                        Refusal::NotEligible(_) => prop_assert!(
                            !admits(&case.rule, &voter)
                                || (says_yes && !case.rule.self_approval && case.excluded.bars(&voter))
                        ),
                        other => prop_assert!(false, "{other:?}"),
                    }
                }
            }
            if approval.status != Status::Pending {
                prop_assert_eq!(&next, &approval, "what has ended stays as it ended");
            }
            approval = next;
        }
        let yes = approval.votes.iter().filter(|vote| vote.choice == Choice::Approve);
        let people: BTreeSet<UserId> = yes.map(|vote| vote.person).collect();
        prop_assert_eq!(people.len(), approval.given(), "a person counts once");
        let is_enough = people.len() >= usize::try_from(case.rule.approvals).unwrap();
        match approval.status {
            Status::Approved => prop_assert!(is_enough),
            _ => prop_assert!(!still_holds(&approval, "sha256:one", &case.excluded)),
        }
        prop_assert_eq!(approval.status == Status::Rejected, approval.rejection().is_some());
        prop_assert_eq!(approval.status == Status::Pending, approval.ended_at.is_none());
    }

    #[test]
    fn an_approval_holds_for_its_digest_and_loses_those_who_retry(
        approvals in 1u32..4, self_approval: bool, retriers in prop::collection::btree_set(0u8..4, 0..4),
    ) {
        let rule = Requires { approvals, from: Vec::new(), self_approval, timeout: None };
        let mut approval = asked(rule);
        for account in 0..u8::try_from(approvals).unwrap() {
            let ballot = Ballot { voter: voter(account), choice: Choice::Approve, comment: None };
            approval = vote(&approval, &ballot, "sha256:one", &Excluded::default(), START).answer.unwrap();
        }
        prop_assert_eq!(approval.status, Status::Approved);
        prop_assert!(still_holds(&approval, "sha256:one", &Excluded::default()));
        prop_assert!(!still_holds(&approval, "sha256:two", &Excluded::default()));
        let is_lost = retriers.iter().any(|it| u32::from(*it) < approvals) && !self_approval;
        let excluded = Excluded { people: retriers.into_iter().map(person).collect(), author: None };
        prop_assert_eq!(still_holds(&approval, "sha256:one", &excluded), !is_lost);
    }

    #[test]
    fn it_expires_at_its_time_and_not_before(later_s in 0i64..200) {
        let timeout = Some(Seconds::from_secs(TIMEOUT_S.unsigned_abs()));
        let rule = Requires { approvals: 1, from: Vec::new(), self_approval: true, timeout };
        let expired = expire(&asked(rule), START.plus_seconds(later_s)).answer;
        prop_assert_eq!(expired.status == Status::Expired, later_s >= TIMEOUT_S);
    }
}

#[test]
fn a_second_account_of_the_author_does_not_approve() {
    let rule = Requires { approvals: 1, from: Vec::new(), self_approval: false, timeout: None };
    let approval = asked(rule);
    let excluded =
        Excluded { people: BTreeSet::new(), author: Some(Email::parse("P3@Acme.Test").expect("an address")) };
    for account in [3, 11] {
        let ballot = Ballot { voter: voter(account), choice: Choice::Approve, comment: None };
        let said = vote(&approval, &ballot, "sha256:one", &excluded, START).answer;
        assert!(matches!(said, Err(Refusal::NotEligible(_))), "{said:?}");
    }
    let reject = Ballot { voter: voter(3), choice: Choice::Reject, comment: None };
    let said = vote(&approval, &reject, "sha256:one", &excluded, START).answer.expect("a no");
    assert_eq!(said.status, Status::Rejected);
}
