//! Claim-any with a queue: it creates a ticket in every queue, gets exactly one environment, and leaves no ticket
//! behind.

use std::collections::BTreeSet;

use berth_core::environment::claim::{ClaimCommand, ClaimOutcome, claim, claim_in_group};
use berth_core::environment::{ClaimTerms, DecisionContext, LockHolder, Ticket, TicketState, settle};
use berth_core::event::ActorType;
use berth_core::id::{OrgId, TicketGroupId};
use berth_core::name::EnvName;
use berth_store::tables::{environment, ticket};
use berth_store::{StoreError, TxContext};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use super::{DEFINITION, EnvironmentsFixture, PIPELINE, environments_path, expect_data, expect_str};
use crate::audit_export::acme_org_id;
use crate::world::{MemberAccount, TestResponse, TestWorld, call, get, post};

const POOL: [&str; 2] = ["qa-2", "qa-3"];

async fn claim_any(world: &TestWorld, who: &MemberAccount, body: &Value) -> TestResponse {
    world.send(post(&format!("{PIPELINE}/claim-any")).with_account(who).json(body)).await
}

/// Claims both environments of the pool for Grace, and returns the paths of the sessions.
async fn claim_pool(shop: &EnvironmentsFixture) -> Vec<String> {
    let mut sessions = Vec::new();
    for name in POOL {
        let held = shop
            .send(
                post(&environments_path(&format!("{name}/sessions")))
                    .with_account(&shop.grace)
                    .json(&json!({})),
            )
            .await;
        sessions.push(format!("{name}/sessions/{}", expect_str(&expect_data(held, 201)["sessionId"])));
    }
    sessions
}

async fn queue_for_any(shop: &EnvironmentsFixture, who: &MemberAccount) -> TestResponse {
    claim_any(&shop.world, who, &json!({"label": "small", "queue": true, "commitId": "main"})).await
}

/// The stored tickets of a group.
async fn load_tickets(world: &TestWorld, org: OrgId, group: &str) -> Vec<Ticket> {
    let group: TicketGroupId = group.parse().unwrap();
    let read = world.app.store().read(Some(org), move |db| ticket::list_of_group(db, group));
    read.await.unwrap()
}

#[tokio::test]
async fn claim_any_waits_in_every_queue_and_gets_the_first_that_becomes_free() {
    let shop = EnvironmentsFixture::new().await;
    let held = claim_pool(&shop).await;
    let accepted = queue_for_any(&shop, &shop.ada).await;
    let watch = accepted.header("location").to_owned();
    let mine = expect_data(accepted, 202);
    assert!(expect_str(&mine["groupId"]).starts_with("tkg_"), "{mine}");
    for name in POOL {
        let queue = shop.fetch(&format!("{name}/queue")).await;
        assert_eq!((&queue[0]["groupId"], &queue[0]["position"]), (&mine["groupId"], &json!(1)), "{name}");
    }
    assert_eq!(mine["envName"], "qa-2", "the answer is one of them");
    let since = shop.events(0).await.len();

    // The second environment becomes free.
    expect_data(shop.send(call("DELETE", &environments_path(&held[1])).with_account(&shop.grace)).await, 200);
    let told = expect_data(shop.send(get(&watch).with_account(&shop.ada)).await, 200);
    assert_eq!((&told["status"], &told["envName"]), (&json!("granted"), &json!("qa-3")), "{told}");
    assert!(told["deploymentId"].is_string(), "with the commit it came for");
    let lock = shop.fetch("qa-3").await["lock"].clone();
    assert_eq!((&lock["holder"]["name"], &lock["sessionId"]), (&json!("ada"), &told["sessionId"]));
    for name in POOL {
        assert_eq!(shop.fetch(name).await["queueLength"], 0, "{name}");
    }
    let events = shop.events(since).await;
    let cancelled = events.iter().find(|event| event["kind"] == "ticket_cancelled").unwrap();
    assert_eq!(
        (&cancelled["data"]["cause"], &cancelled["actor"]["type"]),
        (&json!("granted_elsewhere"), &json!("system"))
    );

    // The first environment becomes free later and stays free, because its ticket was withdrawn.
    expect_data(shop.send(call("DELETE", &environments_path(&held[0])).with_account(&shop.grace)).await, 200);
    assert_eq!(shop.fetch("qa-2").await["lockStatus"], "unlocked");
    let insights = shop.fetch("qa-2/insights").await;
    assert_eq!(insights["gaveUp"], 0, "{insights}");
}

#[tokio::test]
async fn claim_any_long_poll_on_one_ticket_ends_with_the_grant_of_another() {
    let shop = EnvironmentsFixture::new().await;
    let held = claim_pool(&shop).await;
    let accepted = queue_for_any(&shop, &shop.ada).await;
    let (watch, tag) = (accepted.header("location").to_owned(), accepted.header("etag").to_owned());
    let poll = get(&format!("{watch}?wait=20")).with_account(&shop.ada).header("if-none-match", &tag);
    let release = async {
        tokio::time::sleep(crate::world::POLL_EVERY).await;
        shop.send(call("DELETE", &environments_path(&held[1])).with_account(&shop.grace)).await
    };
    let (told, released) = tokio::join!(shop.send(poll), release);
    assert_eq!(released.status, 200);
    let told = expect_data(told, 200);
    assert_eq!((&told["status"], &told["envName"]), (&json!("granted"), &json!("qa-3")));
}

#[tokio::test]
async fn cancelling_one_ticket_of_a_group_cancels_the_group() {
    let shop = EnvironmentsFixture::new().await;
    let held = claim_pool(&shop).await;
    let mine = expect_data(queue_for_any(&shop, &shop.ada).await, 202);
    let other = shop.fetch("qa-3/queue").await[0].clone();
    let path = environments_path(&format!("qa-3/queue/{}", expect_str(&other["ticketId"])));
    let left = expect_data(shop.send(call("DELETE", &path).with_account(&shop.ada)).await, 200);
    assert_eq!((&left["status"], &left["cause"]), (&json!("cancelled"), &json!("requested")));
    let first = shop.fetch(&format!("qa-2/queue/{}", expect_str(&mine["ticketId"]))).await;
    assert_eq!((&first["status"], &first["cause"]), (&json!("cancelled"), &json!("requested")));
    let before = shop.snapshot().await;
    assert_eq!(
        expect_data(shop.send(call("DELETE", &path).with_account(&shop.ada)).await, 200),
        left,
        "again is calm"
    );
    assert_eq!(shop.snapshot().await, before);
    for session in held {
        expect_data(
            shop.send(call("DELETE", &environments_path(&session)).with_account(&shop.grace)).await,
            200,
        );
    }
    for name in POOL {
        assert_eq!(shop.fetch(name).await["lockStatus"], "unlocked", "{name}");
    }
}

#[tokio::test]
async fn group_continues_without_a_removed_environment() {
    let shop = EnvironmentsFixture::new().await;
    let held = claim_pool(&shop).await;
    let mine = expect_data(queue_for_any(&shop, &shop.ada).await, 202);
    let without = DEFINITION.replace("    qa-2: { labels: [small] }\n", "");
    let put = call("PUT", &format!("{PIPELINE}/definition")).with_account(&shop.ada);
    assert_eq!(shop.send(put.json(&json!({"definition": without}))).await.status, 200);
    assert_eq!(shop.fetch("qa-3").await["queueLength"], 1);
    expect_data(shop.send(call("DELETE", &environments_path(&held[1])).with_account(&shop.grace)).await, 200);
    assert_eq!(shop.fetch("qa-3").await["lock"]["holder"]["name"], "ada");
    let first = shop.fetch(&format!("qa-2/queue/{}", expect_str(&mine["ticketId"]))).await;
    assert_eq!(first["cause"], "environment_deleted");
}

#[tokio::test]
async fn claim_any_joins_the_queues_that_have_room_and_is_refused_when_none_has() {
    let shop = EnvironmentsFixture::new().await;
    claim_pool(&shop).await;
    let queued = async |name: &str| {
        shop.send(
            post(&environments_path(&format!("{name}/sessions")))
                .with_account(&shop.ada)
                .json(&json!({"queue": true})),
        )
        .await
    };
    for _ in 0..100 {
        assert_eq!(queued("qa-2").await.status, 202);
    }
    let mine = expect_data(queue_for_any(&shop, &shop.ada).await, 202);
    assert_eq!(mine["envName"], "qa-3");
    for _ in 0..99 {
        assert_eq!(queued("qa-3").await.status, 202);
    }
    let before = shop.fetch("").await;
    queue_for_any(&shop, &shop.ada).await.assert_problem(409, "invalid_state");
    assert_eq!(shop.fetch("").await, before);
}

/// Two environments are released at the same moment. On PostgreSQL, the requests go to two different servers.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn claim_any_gets_one_of_two_environments_that_become_free_at_once() {
    let shop = EnvironmentsFixture::new().await;
    let other = shop.world.another_server().await;
    let org = acme_org_id(&shop.world).await;
    for _ in 0..10 {
        let held = claim_pool(&shop).await;
        let mine = expect_data(queue_for_any(&shop, &shop.ada).await, 202);
        let there = other.as_ref().unwrap_or(&shop.world);
        let (one, two) = tokio::join!(
            shop.world.send(call("DELETE", &environments_path(&held[0])).with_account(&shop.grace)),
            there.send(call("DELETE", &environments_path(&held[1])).with_account(&shop.grace)),
        );
        assert_eq!((one.status.as_u16(), two.status.as_u16()), (200, 200));
        check_group(&load_tickets(&shop.world, org, &expect_str(&mine["groupId"])).await);
        let mut holders = Vec::new();
        for name in POOL {
            if let Some(lock) = shop.fetch(name).await["lock"].as_object() {
                assert_eq!(lock["holder"]["name"], "ada");
                holders.push(format!("{name}/sessions/{}", expect_str(&lock["sessionId"])));
            }
        }
        assert_eq!(holders.len(), 1, "{holders:?}");
        expect_data(
            shop.send(call("DELETE", &environments_path(&holders[0])).with_account(&shop.ada)).await,
            200,
        );
    }
}

/// The sessions of both environments are overdue when the sweep runs. The environment that is processed first is
/// granted. The ticket for the other one is then withdrawn and must not be granted as well.
#[tokio::test]
async fn claim_any_gets_one_of_two_environments_whose_sessions_are_overdue() {
    let shop = EnvironmentsFixture::new().await;
    let org = acme_org_id(&shop.world).await;
    let (ada, grace) = (lock_holder(&shop, &shop.ada).await, lock_holder(&shop, &shop.grace).await);
    let joined = shop.world.app.store().transact(TxContext::system(Some(org)), move |tx| {
        let group = TicketGroupId::from_parts(tx.now(), tx.entropy()?);
        for name in POOL {
            let name = EnvName::parse(name).unwrap();
            let wish = ClaimTerms { ttl_seconds: Some(3_600), ..ClaimTerms::default() };
            let hold = ClaimCommand { by: grace.clone(), token: None, terms: wish, wait_seconds: None };
            let lock = environment::find(tx, "shop", &name)?.unwrap();
            let earlier = DecisionContext { now: tx.now().plus_seconds(-7_200), ..tx.moment()? };
            let ruling = claim(&lock, &hold, &earlier);
            assert!(matches!(tx.commit(ruling)?, Ok(ClaimOutcome::Session(_))));
            let wait = ClaimCommand {
                by: ada.clone(),
                terms: ClaimTerms::default(),
                wait_seconds: Some(14_400),
                ..hold
            };
            let lock = environment::find(tx, "shop", &name)?.unwrap();
            let ruling = claim_in_group(&lock, &wait, group, &earlier);
            assert!(matches!(tx.commit(ruling)?, Ok(ClaimOutcome::Ticket(_))));
        }
        Ok::<_, StoreError>(group.to_string())
    });
    let group = joined.await.unwrap();
    berth_server::jobs::tick(shop.world.app.jobs()).await.unwrap();
    let found = load_tickets(&shop.world, org, &group).await;
    check_group(&found);
    assert!(found.iter().any(|it| matches!(it.status, TicketState::Granted { .. })), "{found:#?}");
    let mut held = Vec::new();
    for name in POOL {
        held.push(shop.fetch(name).await["lockStatus"].clone());
    }
    held.sort_by_key(Value::to_string);
    assert_eq!(held, ["locked", "unlocked"]);
}

async fn lock_holder(shop: &EnvironmentsFixture, who: &MemberAccount) -> LockHolder {
    LockHolder {
        kind: ActorType::User,
        id: shop.user_id(who).await.parse().unwrap(),
        name: who.email.clone(),
        session_token: None,
        agent: None,
    }
}

/// Checks that at most one ticket of the group was granted, and that no ticket is waiting after one was granted or the
/// owner has cancelled.
fn check_group(tickets: &[Ticket]) {
    let count = |wanted: fn(&TicketState) -> bool| tickets.iter().filter(|it| wanted(&it.status)).count();
    let granted = count(|status| matches!(status, TicketState::Granted { .. }));
    let waiting = count(|status| *status == TicketState::Waiting);
    assert!(granted <= 1, "two environments for one claim-any: {tickets:#?}");
    assert!(granted == 0 || waiting == 0, "a ticket is left: {tickets:#?}");
    let cancelled = tickets.iter().any(|it| match &it.status {
        TicketState::Cancelled { cause, .. } => cause.as_str() == "requested",
        _ => false,
    });
    assert!(!cancelled || waiting == 0, "a ticket outlived its group: {tickets:#?}");
}

/// A step of the simulation. The numbers select a person, an environment, a session or a ticket.
#[derive(Debug, Clone)]
enum SimulationStep {
    ClaimAny(usize),
    Queue(usize, usize),
    ForceClaim(usize, usize),
    Release(usize),
    CancelTicket(usize),
    /// Sweeps one environment as if it were this many seconds later.
    Sweep(usize, i64),
    /// Applies a definition that has both environments, or only the second one.
    Define(bool),
}

fn simulation_step() -> impl Strategy<Value = SimulationStep> {
    prop_oneof![
        4 => (0..2usize).prop_map(SimulationStep::ClaimAny),
        2 => (0..2usize, 0..2usize).prop_map(|(who, place)| SimulationStep::Queue(who, place)),
        1 => (0..2usize, 0..2usize).prop_map(|(who, place)| SimulationStep::ForceClaim(who, place)),
        4 => (0..2usize).prop_map(SimulationStep::Release),
        1 => (0..100usize).prop_map(SimulationStep::CancelTicket),
        2 => (0..2usize, prop_oneof![Just(61i64), Just(4_000)]).prop_map(|(place, late)| SimulationStep::Sweep(place, late)),
        1 => any::<bool>().prop_map(SimulationStep::Define),
    ]
}

struct GroupSimulation {
    shop: EnvironmentsFixture,
    org: OrgId,
    /// A second server on the same database; `None` on SQLite.
    other: Option<TestWorld>,
    groups: BTreeSet<String>,
    tickets: Vec<String>,
}

impl GroupSimulation {
    async fn run_step(&mut self, number: usize, step: &SimulationStep) {
        let shop = &self.shop;
        let world = self.other.as_ref().filter(|_| number % 2 == 1).unwrap_or(&shop.world);
        let people = [&shop.ada, &shop.grace];
        let wish = json!({"queue": true, "ttlSeconds": 60});
        match step {
            SimulationStep::ClaimAny(who) => {
                let mut body = wish;
                body["label"] = json!("small");
                let answer = claim_any(world, people[*who], &body).await;
                assert!([201, 202, 400].contains(&answer.status.as_u16()), "{}", answer.text);
                if answer.status == 202 {
                    self.groups.insert(expect_str(&answer.body["data"]["groupId"]));
                    let place = expect_str(&answer.body["data"]["envName"]);
                    self.tickets.push(format!("{place}/queue/{}", expect_str(&answer.body["data"]["id"])));
                }
            }
            SimulationStep::Queue(who, place) => {
                let path = environments_path(&format!("{}/sessions", POOL[*place]));
                world.send(post(&path).with_account(people[*who]).json(&wish)).await;
            }
            SimulationStep::ForceClaim(who, place) => {
                let path = environments_path(&format!("{}/force-claim", POOL[*place]));
                world.send(post(&path).with_account(people[*who]).json(&json!({"ttlSeconds": 60}))).await;
            }
            SimulationStep::Release(place) => {
                let seen = world.send(get(&environments_path(POOL[*place])).with_account(&shop.ada)).await;
                if let Some(session) = seen.body["data"]["lock"]["sessionId"].as_str() {
                    let path = environments_path(&format!("{}/sessions/{session}", POOL[*place]));
                    assert_eq!(world.send(call("DELETE", &path).with_account(&shop.ada)).await.status, 200);
                }
            }
            SimulationStep::CancelTicket(which) if !self.tickets.is_empty() => {
                let path = environments_path(&self.tickets[which % self.tickets.len()]);
                assert_eq!(world.send(call("DELETE", &path).with_account(&shop.ada)).await.status, 200);
            }
            SimulationStep::CancelTicket(_) => {}
            SimulationStep::Sweep(place, late) => {
                let (name, late) = (EnvName::parse(POOL[*place]).unwrap(), *late);
                let done = world.app.store().transact(TxContext::system(Some(self.org)), move |tx| {
                    let lock = environment::find(tx, "shop", &name)?.unwrap();
                    let moment = DecisionContext { now: tx.now().plus_seconds(late), ..tx.moment()? };
                    let decision = settle(&lock, &moment);
                    tx.commit(decision)?;
                    Ok::<_, StoreError>(())
                });
                done.await.unwrap();
            }
            SimulationStep::Define(both) => {
                let without = DEFINITION.replace("    qa-2: { labels: [small] }\n", "");
                let body = json!({"definition": if *both { DEFINITION } else { &without }});
                let put = call("PUT", &format!("{PIPELINE}/definition")).with_account(&shop.ada);
                let answer = world.send(put.json(&body)).await;
                assert_eq!(answer.status, 200, "{}", answer.text);
            }
        }
        self.check().await;
    }

    async fn check(&self) {
        for group in &self.groups {
            check_group(&load_tickets(&self.shop.world, self.org, group).await);
        }
        for seen in self.shop.fetch("").await.as_array().unwrap() {
            let is_free = seen["lockStatus"] == "unlocked";
            assert!(!is_free || seen["queueLength"] == 0, "free while a ticket waits: {seen}");
        }
    }
}

#[test]
fn claim_any_never_gets_two_environments_and_leaves_no_ticket() {
    let mut runner = TestRunner::deterministic();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    for _ in 0..6 {
        let steps = vec(simulation_step(), 60).new_tree(&mut runner).unwrap().current();
        runtime.block_on(async {
            let shop = EnvironmentsFixture::new().await;
            let (org, other) = (acme_org_id(&shop.world).await, shop.world.another_server().await);
            let mut simulation =
                GroupSimulation { shop, org, other, groups: BTreeSet::new(), tickets: Vec::new() };
            for (number, step) in steps.iter().enumerate() {
                simulation.run_step(number, step).await;
            }
            assert!(!simulation.groups.is_empty(), "it simulated nothing: {steps:?}");
        });
    }
}
