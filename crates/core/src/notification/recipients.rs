//! Decides whom an event concerns.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::event::Event;
use crate::id::UserId;

/// Why an event concerns a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NotificationCause {
    /// Another member took over the person's session.
    TakenOver,
    /// Another member announced a takeover of the person's session.
    TakeoverAnnounced,
    /// Another member waits for the environment that the person holds.
    QueueJoined,
    /// The person was next in the queue and now holds the environment.
    SessionGranted,
    /// The person's session ends soon.
    SessionExpiring,
    /// A deployment failed that the person started, retried or wrote.
    DeploymentFailed,
    /// The person may approve.
    ApprovalRequested,
}

impl NotificationCause {
    pub const ALL: [NotificationCause; 7] = [
        NotificationCause::TakenOver,
        NotificationCause::TakeoverAnnounced,
        NotificationCause::QueueJoined,
        NotificationCause::SessionGranted,
        NotificationCause::SessionExpiring,
        NotificationCause::DeploymentFailed,
        NotificationCause::ApprovalRequested,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            NotificationCause::TakenOver => "taken_over",
            NotificationCause::TakeoverAnnounced => "takeover_announced",
            NotificationCause::QueueJoined => "queue_joined",
            NotificationCause::SessionGranted => "session_granted",
            NotificationCause::SessionExpiring => "session_expiring",
            NotificationCause::DeploymentFailed => "deployment_failed",
            NotificationCause::ApprovalRequested => "approval_requested",
        }
    }

    /// Returns why this event concerns people. `None` if people hear of it only by subscription.
    pub fn of_event(event: &Event) -> Option<Self> {
        Some(match event.kind.as_str() {
            "session_overridden" => Self::TakenOver,
            "ticket_queued" if event.data.get("takeover").is_some() => Self::TakeoverAnnounced,
            "ticket_queued" if event.data.get("heldById").is_some() => Self::QueueJoined,
            "ticket_granted" => Self::SessionGranted,
            "session_expiring" => Self::SessionExpiring,
            "deployment_failed" => Self::DeploymentFailed,
            "approval_requested" => Self::ApprovalRequested,
            _ => return None,
        })
    }
}

/// The people behind an event, at the time at which it is read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EventPeople {
    /// The person behind each account that the event names; for a service account, its owner.
    pub behind: BTreeMap<UserId, UserId>,
    /// People who started, retried or wrote the deployment.
    pub starters: BTreeSet<UserId>,
    /// People whose approval would count, and who have not voted.
    pub approvers: BTreeSet<UserId>,
}

impl EventPeople {
    /// Returns the accounts that an event names, for which `behind` is needed: the actor, the holder, and the holder that
    /// a ticket waits for.
    pub fn accounts_of(event: &Event) -> BTreeSet<UserId> {
        let named = ["holderId", "heldById"].into_iter().filter_map(|name| account(event, name));
        event.actor.id.into_iter().chain(named).collect()
    }

    fn person(&self, event: &Event, name: &str) -> Option<UserId> {
        self.behind.get(&account(event, name)?).copied()
    }
}

fn account(event: &Event, name: &str) -> Option<UserId> {
    event.data.get(name).and_then(Value::as_str)?.parse().ok()
}

/// Returns the people whom the event concerns. A person is not notified of
/// their own takeover or ticket.
pub fn concerned_people(event: &Event, cause: NotificationCause, people: &EventPeople) -> BTreeSet<UserId> {
    let actor = event.actor.id.and_then(|id| people.behind.get(&id).copied());
    let one = |name: &str, by: Option<UserId>| {
        people.person(event, name).filter(|person| Some(*person) != by).into_iter().collect()
    };
    match cause {
        NotificationCause::TakenOver => one("holderId", actor),
        NotificationCause::TakeoverAnnounced | NotificationCause::QueueJoined => {
            one("heldById", people.person(event, "holderId"))
        }
        NotificationCause::SessionGranted | NotificationCause::SessionExpiring => one("holderId", None),
        NotificationCause::DeploymentFailed => people.starters.clone(),
        NotificationCause::ApprovalRequested => people.approvers.clone(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::event::{Actor, ActorType, EventKind};
    use crate::id::{EventId, OrgId};
    use crate::time::Timestamp;

    const NOW: Timestamp = Timestamp::from_micros(1_794_729_600_000_000);

    fn user(number: u8) -> UserId {
        UserId::from_parts(NOW, [number; 10])
    }

    fn event(kind: &str, actor: Option<u8>, data: Value) -> Event {
        Event {
            id: EventId::from_parts(NOW, [0; 10]),
            org: OrgId::from_parts(NOW, [0; 10]),
            sequence: 1,
            kind: kind.into(),
            occurred_at: NOW,
            actor: Actor { kind: ActorType::User, id: actor.map(user), name: "x".into(), token: None },
            request_id: None,
            subjects: Vec::new(),
            data,
            previous_hash: String::new(),
            hash: String::new(),
        }
    }

    /// Accounts 8 to 15 are service accounts of the people 0 to 7.
    fn people(members: &[u8], starters: &[u8], approvers: &[u8]) -> EventPeople {
        EventPeople {
            behind: members.iter().map(|it| (user(*it), user(it % 8))).collect(),
            starters: starters.iter().copied().map(user).collect(),
            approvers: approvers.iter().copied().map(user).collect(),
        }
    }

    fn concerned(event: &Event, people: &EventPeople) -> BTreeSet<UserId> {
        NotificationCause::of_event(event)
            .map(|cause| concerned_people(event, cause, people))
            .unwrap_or_default()
    }

    #[test]
    fn each_cause_concerns_the_documented_people() {
        let all = people(&[0, 1, 2, 9, 10], &[3], &[4, 5]);
        let held = json!({"holderId": user(2), "heldById": user(1)});
        let announced = json!({"holderId": user(2), "heldById": user(1), "takeover": "grace"});
        for (kind, actor, data, wanted) in [
            ("session_overridden", Some(2), json!({"holderId": user(1)}), vec![user(1)]),
            ("session_overridden", Some(2), json!({"holderId": user(9)}), vec![user(1)]),
            ("ticket_queued", Some(2), held, vec![user(1)]),
            ("ticket_queued", Some(2), announced, vec![user(1)]),
            ("ticket_queued", Some(2), json!({"holderId": user(2)}), vec![]),
            ("ticket_granted", Some(1), json!({"holderId": user(2)}), vec![user(2)]),
            ("session_expiring", None, json!({"holderId": user(10)}), vec![user(2)]),
            ("deployment_failed", None, json!({}), vec![user(3)]),
            ("approval_requested", None, json!({}), vec![user(4), user(5)]),
            ("session_claimed", Some(1), json!({"holderId": user(1)}), vec![]),
        ] {
            let found = concerned(&event(kind, actor, data.clone()), &all);
            assert_eq!(found, wanted.into_iter().collect(), "{kind} {data}");
        }
    }

    #[test]
    fn words_of_causes_are_distinct() {
        let words: BTreeSet<_> = NotificationCause::ALL.iter().map(|it| it.as_str()).collect();
        assert_eq!(words.len(), NotificationCause::ALL.len());
    }

    proptest! {
        /// Only members are notified, and a takeover or ticket never concerns the person who caused it, whichever account
        /// that person used.
        #[test]
        fn only_members_other_than_the_cause_are_concerned(
            kind in prop::sample::select(EventKind::ALL.to_vec()),
            actor in proptest::option::of(0u8..16), holder in 0u8..16, held_by in proptest::option::of(0u8..16),
            takeover in any::<bool>(), members in prop::collection::vec(0u8..16, 0..16),
            starters in prop::collection::vec(0u8..8, 0..3), approvers in prop::collection::vec(0u8..8, 0..3),
        ) {
            let mut data = json!({"holderId": user(holder)});
            if let Some(held_by) = held_by { data["heldById"] = json!(user(held_by)); }
            if takeover { data["takeover"] = json!("grace"); }
            let event = event(kind.as_str(), actor, data);
            let people = people(&members, &starters, &approvers);
            let found = concerned(&event, &people);
            let known: BTreeSet<_> =
                people.behind.values().chain(&people.starters).chain(&people.approvers).copied().collect();
            prop_assert!(found.is_subset(&known));
            let causer = match kind {
                EventKind::SessionOverridden => actor,
                EventKind::TicketQueued => Some(holder),
                _ => None,
            };
            let causer = causer.and_then(|it| people.behind.get(&user(it)).copied());
            prop_assert!(causer.is_none_or(|causer| !found.contains(&causer)));
            prop_assert_eq!(concerned(&event, &people), found);
        }
    }
}
