//! The order in which tickets are granted: takeovers first, then by class if the definition says so, then by arrival.

use super::state::{LockHolder, Ticket};
use crate::event::ActorType;
use crate::id::TicketId;
use crate::pipeline::model::{QueueOrder, QueuePolicy};
use crate::time::Timestamp;

/// Smaller classes go first.
const PERSON: i64 = 0;
const CI: i64 = 1;
const AGENT: i64 = 2;

fn class_of(holder: &LockHolder) -> i64 {
    match holder.kind {
        _ if holder.agent.is_some() => AGENT,
        ActorType::Service => CI,
        ActorType::User | ActorType::System => PERSON,
    }
}

/// The class in which a ticket waits now. It moves up with time, so that tickets of a lower class do not starve.
fn effective_class(ticket: &Ticket, policy: &QueuePolicy, now: Timestamp) -> i64 {
    match policy.order {
        QueueOrder::Arrival => PERSON,
        QueueOrder::Class => {
            let ageing = i64::try_from(policy.ageing.as_secs()).unwrap_or(i64::MAX).max(1);
            let waited = now.seconds_since(ticket.created_at).max(0);
            (class_of(&ticket.holder) - waited / ageing).max(PERSON)
        }
    }
}

fn order_key(ticket: &Ticket, policy: &QueuePolicy, now: Timestamp) -> (bool, i64, i64) {
    (ticket.takeover.is_none(), effective_class(ticket, policy, now), ticket.number)
}

/// Sorts waiting tickets into the order in which they would be granted now.
pub fn sort_tickets(tickets: &mut [Ticket], policy: &QueuePolicy, now: Timestamp) {
    tickets.sort_by_key(|ticket| order_key(ticket, policy, now));
}

/// The ticket to grant now.
pub(super) fn next_ticket(tickets: &[Ticket], policy: &QueuePolicy, now: Timestamp) -> Option<TicketId> {
    tickets.iter().min_by_key(|ticket| order_key(ticket, policy, now)).map(|ticket| ticket.id)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::agent::AgentHolder;
    use crate::environment::{ClaimTerms, TicketState};
    use crate::id::{EnvironmentId, UserId};
    use crate::pipeline::seconds::DurationSeconds;

    const AGEING_S: i64 = 600;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_micros(second * 1_000_000)
    }

    fn policy(order: QueueOrder) -> QueuePolicy {
        QueuePolicy { order, ageing: DurationSeconds::from_secs(AGEING_S.unsigned_abs()) }
    }

    fn ticket(number: i64, class: i64, created: i64) -> Ticket {
        let seed = u8::try_from(number).unwrap();
        let id = UserId::from_parts(at(0), [seed; 10]);
        let agent = AgentHolder { owner: id, owner_name: "ada".into(), session_seconds: 60 };
        let holder = LockHolder {
            kind: if class == PERSON { ActorType::User } else { ActorType::Service },
            id,
            name: format!("holder {number}"),
            session_token: None,
            agent: (class == AGENT).then(|| Box::new(agent)),
        };
        Ticket {
            id: TicketId::from_parts(at(created), [seed; 10]),
            environment: EnvironmentId::from_parts(at(0), [1; 10]),
            number,
            holder,
            token: None,
            terms: ClaimTerms::default(),
            created_at: at(created),
            expires_at: at(1_000_000),
            takeover: None,
            group: None,
            is_entitled: true,
            status: TicketState::Waiting,
        }
    }

    /// Tickets of random classes that arrive one after the other, and a time after the last arrival.
    fn queue() -> impl Strategy<Value = (Vec<Ticket>, Timestamp)> {
        (vec((0..3i64, 0..500i64), 1..30), 0..3_000i64).prop_map(|(arrivals, later)| {
            let mut second = 0;
            let mut tickets = Vec::new();
            for (number, (class, pause)) in (1..).zip(arrivals) {
                second += pause;
                tickets.push(ticket(number, class, second));
            }
            (tickets, at(second + later))
        })
    }

    proptest! {
        #[test]
        fn queue_is_first_in_first_out_within_a_class((tickets, now) in queue()) {
            let mut sorted = tickets;
            sort_tickets(&mut sorted, &policy(QueueOrder::Class), now);
            for class in [PERSON, CI, AGENT] {
                let of_class = sorted.iter().filter(|it| class_of(&it.holder) == class);
                prop_assert!(of_class.map(|it| it.number).is_sorted());
            }
        }

        #[test]
        fn ticket_that_has_waited_long_enough_is_overtaken_by_no_later_one((tickets, now) in queue()) {
            let mut sorted = tickets;
            sort_tickets(&mut sorted, &policy(QueueOrder::Class), now);
            for (index, ticket) in sorted.iter().enumerate() {
                if now.seconds_since(ticket.created_at) >= AGENT * AGEING_S {
                    prop_assert!(sorted[..index].iter().all(|before| before.number < ticket.number));
                }
            }
        }

        #[test]
        fn ticket_moves_up_a_class_only_with_time((tickets, now) in queue(), more in 0..5_000i64) {
            let policy = policy(QueueOrder::Class);
            let later = now.plus_seconds(more);
            for ticket in &tickets {
                let (before, after) =
                    (effective_class(ticket, &policy, now), effective_class(ticket, &policy, later));
                prop_assert!(after <= before && before <= class_of(&ticket.holder));
            }
        }

        #[test]
        fn queue_without_classes_is_in_order_of_arrival((tickets, now) in queue()) {
            let mut sorted = tickets.clone();
            sort_tickets(&mut sorted, &policy(QueueOrder::Arrival), now);
            prop_assert_eq!(sorted, tickets);
        }

        #[test]
        fn next_ticket_is_the_first_of_the_sorted_queue((tickets, now) in queue()) {
            let policy = policy(QueueOrder::Class);
            let mut sorted = tickets.clone();
            sort_tickets(&mut sorted, &policy, now);
            prop_assert_eq!(next_ticket(&tickets, &policy, now), Some(sorted[0].id));
        }
    }

    #[test]
    fn people_go_before_ci_and_ci_before_agents_until_they_have_aged() {
        let tickets = [ticket(1, AGENT, 0), ticket(2, CI, 0), ticket(3, PERSON, 300)];
        let order = |second| {
            let mut sorted = tickets.to_vec();
            sort_tickets(&mut sorted, &policy(QueueOrder::Class), at(second));
            sorted.iter().map(|ticket| ticket.number).collect::<Vec<_>>()
        };
        assert_eq!(order(599), [3, 2, 1]);
        assert_eq!(order(600), [2, 3, 1], "CI has moved up to the people");
        assert_eq!(order(1_200), [1, 2, 3], "and the agent, too");
    }
}
