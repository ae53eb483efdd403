//! Fifty agents contend for five environments. They crash, lose contact with the server, and stop working before their
//! lease can have ended; the server restarts. Checks what leases promise: two agents never work in one environment, and
//! a dead agent keeps its environment for no longer than its lease. A seed determines everything.

use std::fmt;

use berth_core::agent::AgentHolder;
use berth_core::decision::RuleDecision;
use berth_core::environment::claim::{ClaimCommand, ClaimOutcome, claim};
use berth_core::environment::declare::{DeclareCommand, declare};
use berth_core::environment::fence::Fence;
use berth_core::environment::lease::renew_lease;
use berth_core::environment::limits::{LEASE_S_AGENT, LEASE_S_MIN, RUNNER_LOST_S};
use berth_core::environment::release::{ReleaseCommand, release};
use berth_core::environment::{
    ClaimTerms, DecisionContext, Lock, LockHolder, NamedSession, Session, SessionEndReason, TicketState,
    settle,
};
use berth_core::event::ActorType;
use berth_core::id::{EnvironmentId, SessionId, TicketId, UserId};
use berth_core::memory_store::MemoryStore;
use berth_core::name::EnvName;
use berth_core::time::Timestamp;

use crate::locks::fixtures;
use crate::random::SeededRandom;

const AGENTS: u8 = 50;
const ENVIRONMENTS: u8 = 5;
const SECONDS: i64 = 600;
/// The server applies timers at least this often.
const SWEEP_S: i64 = 2;

/// Counts of what happened in a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AgentTally {
    pub sessions: u64,
    pub crashes: u64,
    /// Sessions that ended at their lease.
    pub leases_ended: u64,
    pub restarts: u64,
}

impl std::ops::AddAssign for AgentTally {
    fn add_assign(&mut self, more: Self) {
        self.sessions += more.sessions;
        self.crashes += more.crashes;
        self.leases_ended += more.leases_ended;
        self.restarts += more.restarts;
    }
}

impl fmt::Display for AgentTally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let AgentTally { sessions, crashes, leases_ended, restarts } = self;
        write!(f, "{sessions} sessions, {crashes} crashes, {leases_ended} leases ended, {restarts} restarts")
    }
}

enum AgentState {
    /// Does nothing until this second, because it has crashed or finished its work.
    Away {
        until: i64,
    },
    Waiting {
        environment: EnvironmentId,
        ticket: TicketId,
    },
    Working(Box<AgentWork>),
}

struct AgentWork {
    session: Session,
    /// When the last successful heartbeat was sent.
    renewed_at: i64,
    ends_at: i64,
}

impl AgentWork {
    fn lease(&self) -> i64 {
        self.session.lease_seconds.unwrap_or(LEASE_S_AGENT)
    }
}

struct SimAgent {
    holder: LockHolder,
    state: AgentState,
    /// Until this second, none of its requests arrive.
    cut_off_until: i64,
}

struct AgentWorld {
    store: MemoryStore,
    environments: Vec<EnvironmentId>,
    chance: SeededRandom,
    now: i64,
    /// The server is stopped until this second.
    down_until: i64,
    decisions: u64,
    tally: AgentTally,
}

/// Runs ten simulated minutes. Fails with the promise that was broken.
pub fn run(seed: u64) -> Result<AgentTally, String> {
    let mut world = AgentWorld::new(seed);
    let mut agents: Vec<_> = (0..AGENTS).map(SimAgent::new).collect();
    // The second at which the holder of each active session was last at work.
    let mut last_alive: Vec<(SessionId, i64)> = Vec::new();
    while world.now < SECONDS {
        world.now += 1;
        world.run_server();
        for agent in &mut agents {
            agent.act(&mut world);
        }
        check_single_worker(&agents).map_err(|what| world.describe(seed, &what))?;
        world.check_dead_holders(&agents, &mut last_alive).map_err(|what| world.describe(seed, &what))?;
    }
    Ok(world.tally)
}

/// Two agents must not work in the same environment, because the earlier one could not know that it lost it.
fn check_single_worker(agents: &[SimAgent]) -> Result<(), String> {
    let mut places: Vec<EnvironmentId> = agents.iter().filter_map(SimAgent::workplace).collect();
    let count = places.len();
    places.sort_unstable();
    places.dedup();
    if places.len() == count { Ok(()) } else { Err("two agents work in one environment".to_owned()) }
}

impl AgentWorld {
    fn new(seed: u64) -> Self {
        let environments: Vec<_> =
            (0..ENVIRONMENTS).map(|place| fixtures::environment(9, place, 0)).collect();
        let mut store = MemoryStore::default();
        for (number, id) in (1..).zip(&environments) {
            let name =
                EnvName::parse(&format!("qa-{number}")).unwrap_or_else(|_| unreachable!("it is valid"));
            let command = DeclareCommand {
                id: *id,
                pipeline: fixtures::pipeline(0, 0),
                name,
                configuration: fixtures::configuration(1),
                definition_hash: "definition".into(),
                last_fence: Fence::default(),
            };
            if store.apply(declare(command, fixtures::START)).is_err() {
                unreachable!("the store is empty");
            }
        }
        Self {
            store,
            environments,
            chance: SeededRandom::from_seed(seed),
            now: 0,
            down_until: 0,
            decisions: 0,
            tally: AgentTally::default(),
        }
    }

    fn time(&self) -> Timestamp {
        fixtures::START.plus_seconds(self.now)
    }

    fn is_up(&self) -> bool {
        self.now >= self.down_until
    }

    /// Loads a lock, decides and writes, in one step, as the store does.
    fn decide<A>(
        &mut self,
        environment: EnvironmentId,
        rule: impl FnOnce(&Lock, &DecisionContext) -> RuleDecision<A>,
    ) -> A {
        self.decisions += 1;
        let mut entropy = [0; 10];
        entropy[1..9].copy_from_slice(&self.decisions.to_be_bytes());
        let moment = DecisionContext { now: self.time(), epoch: 0, lost_s: RUNNER_LOST_S, entropy };
        let Some(lock) = self.store.load(environment) else { unreachable!("environments stay") };
        let decision = rule(&lock, &moment);
        self.store.apply(decision).unwrap_or_else(|_| unreachable!("nothing is written in between"))
    }

    /// Sometimes restarts the server, which renews all leases, and applies timers while it runs.
    fn run_server(&mut self) {
        if self.now == self.down_until {
            let now = self.time();
            for session in self.store.sessions.values_mut().filter(|session| session.end.is_none()) {
                session.lease_expires_at = session.lease_seconds.map(|seconds| now.plus_seconds(seconds));
            }
        }
        if self.is_up() && self.chance.below(400) == 0 {
            self.tally.restarts += 1;
            self.down_until = self.now + i64::from(5 + self.chance.below_u8(90));
        }
        if self.is_up() && self.now % SWEEP_S == 0 {
            for environment in self.environments.clone() {
                self.decide(environment, settle);
            }
            self.forget_ended();
        }
    }

    /// Removes records that nothing refers to any more, so that a run stays fast.
    fn forget_ended(&mut self) {
        let by_lease =
            |session: &Session| session.end.as_ref().is_some_and(|end| end.reason == SessionEndReason::Lease);
        self.tally.leases_ended +=
            self.store.sessions.values().filter(|session| by_lease(session)).count() as u64;
        self.store.sessions.retain(|_, session| session.end.is_none());
        let oldest = self.time().plus_seconds(-60);
        self.store.tickets.retain(|_, ticket| match &ticket.status {
            TicketState::Waiting => true,
            TicketState::Granted { at, .. } => *at > oldest,
            TicketState::Cancelled { .. } | TicketState::Expired { .. } => false,
        });
    }

    /// A session whose holder does not work ends within its lease, and a free environment is granted at once.
    fn check_dead_holders(
        &self,
        agents: &[SimAgent],
        last_alive: &mut Vec<(SessionId, i64)>,
    ) -> Result<(), String> {
        let open: Vec<&Session> = self.store.sessions.values().filter(|it| it.end.is_none()).collect();
        last_alive.retain(|(id, _)| open.iter().any(|session| session.id == *id));
        for session in open {
            let is_worked_in = agents.iter().any(|agent| agent.session() == Some(session.id));
            let known = last_alive.iter_mut().find(|(id, _)| *id == session.id);
            match known {
                Some((_, at)) if is_worked_in || !self.is_up() => *at = self.now,
                Some((_, at)) => {
                    let lease = session.lease_seconds.unwrap_or_default();
                    let dead = self.now - *at;
                    if dead > lease + SWEEP_S {
                        return Err(format!(
                            "a dead agent has held its environment for {dead} s of {lease} s"
                        ));
                    }
                }
                None => last_alive.push((session.id, self.now)),
            }
        }
        let waiting = self.store.tickets.values().filter(|it| it.status == TicketState::Waiting);
        for ticket in waiting {
            let is_held = self
                .store
                .sessions
                .values()
                .any(|it| it.environment == ticket.environment && it.end.is_none());
            if !is_held {
                return Err("an environment is free while a ticket waits".to_owned());
            }
        }
        Ok(())
    }

    fn describe(&self, seed: u64, what: &str) -> String {
        format!("seed {seed}, second {}: {what}\nagain: cargo xtask sim agents --seed {seed}", self.now)
    }
}

impl SimAgent {
    fn new(index: u8) -> Self {
        let id = |kind| UserId::from_parts(fixtures::START, [0, 0, 0, 6, kind, 0, 0, 0, 0, index]);
        let agent = AgentHolder { owner: id(1), owner_name: "ada".into(), session_seconds: 300 };
        let holder = LockHolder {
            kind: ActorType::Service,
            id: id(0),
            name: format!("agent {index}"),
            session_token: None,
            agent: Some(Box::new(agent)),
        };
        Self { holder, state: AgentState::Away { until: 0 }, cut_off_until: 0 }
    }

    fn session(&self) -> Option<SessionId> {
        match &self.state {
            AgentState::Working(work) => Some(work.session.id),
            AgentState::Away { .. } | AgentState::Waiting { .. } => None,
        }
    }

    fn workplace(&self) -> Option<EnvironmentId> {
        match &self.state {
            AgentState::Working(work) => Some(work.session.environment),
            AgentState::Away { .. } | AgentState::Waiting { .. } => None,
        }
    }

    /// One second of an agent.
    fn act(&mut self, world: &mut AgentWorld) {
        if !matches!(self.state, AgentState::Away { .. }) && world.chance.below(400) == 0 {
            world.tally.crashes += 1;
            self.state = AgentState::Away { until: world.now + i64::from(world.chance.below_u8(200)) };
            return;
        }
        if world.chance.below(500) == 0 {
            self.cut_off_until = world.now + i64::from(world.chance.below_u8(150));
        }
        let is_heard = world.is_up() && world.now >= self.cut_off_until;
        let next = match &mut self.state {
            AgentState::Away { until } if *until <= world.now && is_heard => self.claim(world),
            AgentState::Waiting { environment, ticket } if is_heard => {
                let (environment, ticket) = (*environment, *ticket);
                self.poll_ticket(world, environment, ticket)
            }
            AgentState::Working(work) => work.continue_or_stop(&self.holder, is_heard, world),
            AgentState::Away { .. } | AgentState::Waiting { .. } => None,
        };
        if let Some(next) = next {
            self.state = next;
        }
    }

    fn claim(&self, world: &mut AgentWorld) -> Option<AgentState> {
        let environment = world.chance.pick(&world.environments.clone());
        let terms = ClaimTerms {
            ttl_seconds: Some(300),
            lease_seconds: world.chance.pick(&[None, Some(LEASE_S_MIN), Some(30), Some(90)]),
            ..ClaimTerms::default()
        };
        let command =
            ClaimCommand { by: self.holder.clone(), token: None, terms, wait_seconds: Some(SECONDS) };
        match world.decide(environment, |lock, moment| claim(lock, &command, moment)).ok()? {
            ClaimOutcome::Session(opened) => Some(start_work(opened.session, world)),
            ClaimOutcome::Ticket(ticket) => Some(AgentState::Waiting { environment, ticket: ticket.id }),
        }
    }

    fn poll_ticket(
        &self,
        world: &mut AgentWorld,
        environment: EnvironmentId,
        ticket: TicketId,
    ) -> Option<AgentState> {
        let status = world.store.tickets.get(&ticket).map(|ticket| ticket.status.clone());
        let session = match status {
            Some(TicketState::Waiting) => return None,
            Some(TicketState::Granted { session, .. }) => world.store.sessions.get(&session).cloned(),
            Some(TicketState::Cancelled { .. } | TicketState::Expired { .. }) | None => None,
        };
        // The first heartbeat shows that the session is still active, and how long it will be.
        let renewed = session.and_then(|session| {
            let named = NamedSession { session: &session, expected: None };
            let renewed =
                world.decide(environment, |lock, moment| renew_lease(lock, &named, &self.holder, moment));
            renewed.ok()
        });
        Some(match renewed {
            Some(session) => {
                world.store.renew_lease(&session);
                start_work(session, world)
            }
            None => AgentState::Away { until: world.now + 1 },
        })
    }
}

fn start_work(session: Session, world: &mut AgentWorld) -> AgentState {
    world.tally.sessions += 1;
    let ends_at = world.now + 10 + i64::from(world.chance.below_u8(120));
    AgentState::Working(Box::new(AgentWork { session, renewed_at: world.now, ends_at }))
}

impl AgentWork {
    /// Sends a heartbeat every third of the lease. Stops before the lease can have ended, as the CLI does.
    fn continue_or_stop(
        &mut self,
        holder: &LockHolder,
        is_heard: bool,
        world: &mut AgentWorld,
    ) -> Option<AgentState> {
        let (lease, now) = (self.lease(), world.now);
        let away = Some(AgentState::Away { until: now + i64::from(world.chance.below_u8(60)) });
        let named = NamedSession { session: &self.session, expected: None };
        let environment = self.session.environment;
        if now >= self.ends_at && is_heard {
            let command = ReleaseCommand { by: holder.clone(), may_force: false };
            let released = world.decide(environment, |lock, moment| release(lock, &named, &command, moment));
            drop(released);
            return away;
        }
        if now - self.renewed_at >= lease / 3 && is_heard {
            let renewed = world.decide(environment, |lock, moment| renew_lease(lock, &named, holder, moment));
            let Ok(session) = renewed else { return away };
            world.store.renew_lease(&session);
            self.renewed_at = now;
        }
        let is_safe = now - self.renewed_at < lease - lease / 4;
        if is_safe { None } else { away }
    }
}
