//! Dumps everything that a run has written, from the model and from the database, and compares both.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::str::FromStr;

use berth_core::deployment::EnvironmentDeployment;
use berth_core::environment::{Lock, Session, Ticket};
use berth_core::event::{Actor, EventSubject, NewEvent};
use berth_core::id::{DeploymentId, EnvironmentId, OrgId, SessionId, TicketId};
use berth_core::pipeline::model::ReleaseAction;
use berth_sim::locks::{EnvironmentIndex, LockModel, Surroundings, cast};
use berth_store::tables::{deployment, environment, event, session, ticket};
use berth_store::{StoreError, Tx};

use super::backend::{Run, caller, slug};
use super::beside::Beside;

/// Tables to which a run writes.
const TABLES: [&str; 9] = [
    "environments",
    "sessions",
    "tickets",
    "deployments",
    "pipelines",
    "events",
    "event_heads",
    "terms",
    "outbox",
];

/// All records, including ended ones.
#[derive(Debug, PartialEq)]
pub(super) struct Dump {
    environments: BTreeMap<EnvironmentId, Lock>,
    /// Each environment, found by the slug and by the id of its pipeline.
    named: Vec<[Option<Lock>; 2]>,
    sessions: BTreeMap<SessionId, Session>,
    /// Sessions of each environment, newest first.
    histories: BTreeMap<EnvironmentId, Vec<Session>>,
    tickets: BTreeMap<TicketId, Ticket>,
    deployments: BTreeMap<DeploymentId, EnvironmentDeployment>,
    events: Vec<Told>,
}

#[derive(Debug, PartialEq)]
struct Told {
    kind: String,
    actor: Actor,
    subjects: Vec<EventSubject>,
    data: serde_json::Value,
}

struct Ids {
    environments: Vec<EnvironmentId>,
    sessions: Vec<SessionId>,
    tickets: Vec<TicketId>,
    deployments: Vec<DeploymentId>,
}

pub(super) fn same<T: PartialEq + Debug>(what: &str, model: &T, store: &T) -> Result<(), String> {
    if model == store {
        return Ok(());
    }
    let (model, store) = (format!("{model:#?}"), format!("{store:#?}"));
    let lines = model.lines().zip(store.lines()).find(|(model, store)| model != store);
    let (a, b) = lines.unwrap_or_default();
    Err(format!("{what} differ, first in {} and {}\n  model: {model}\n  store: {store}", a.trim(), b.trim()))
}

/// Removes the tracked commit unless a release resets the environment, because the store loads it only in that case.
pub(super) fn as_loaded(lock: Lock) -> Lock {
    let is_reset = lock.environment.configuration.on_release == ReleaseAction::DeployTracked;
    Lock { tracked: lock.tracked.filter(|_| is_reset), ..lock }
}

/// Sets `is_entitled` to a fixed value, because it is not stored with a ticket.
pub(super) fn as_recorded(ticket: Ticket) -> Ticket {
    Ticket { is_entitled: true, ..ticket }
}

pub(super) fn compare(model: &LockModel, run: &Run<'_>, beside: &mut Beside) -> Result<(), String> {
    let (expected, found) = (of_model(model), of_rows(model, run, beside)?);
    same("environments", &expected.environments, &found.environments)?;
    same("environments by name", &expected.named, &found.named)?;
    same("sessions", &expected.sessions, &found.sessions)?;
    same("histories", &expected.histories, &found.histories)?;
    same("tickets", &expected.tickets, &found.tickets)?;
    same("deployments", &expected.deployments, &found.deployments)?;
    same("events", &expected.events, &found.events)
}

fn of_model(model: &LockModel) -> Dump {
    let LockModel { world, around } = model;
    let load = |id| world.load(id).map(as_loaded);
    let told = |event: &NewEvent| Told {
        kind: event.kind.to_string(),
        actor: event.by.clone().unwrap_or_else(caller),
        subjects: event.subjects.clone(),
        data: event.data.clone(),
    };
    Dump {
        environments: world.environments.keys().filter_map(|id| Some((*id, load(*id)?))).collect(),
        named: live(around).map(|place| [(); 2].map(|()| load(around.environment(place)))).collect(),
        sessions: world.sessions.clone(),
        histories: world.environments.keys().map(|id| (*id, history(&world.sessions, *id))).collect(),
        tickets: world.tickets.iter().map(|(id, it)| (*id, as_recorded(it.clone()))).collect(),
        deployments: world.deployments.clone(),
        events: world.events.iter().map(told).collect(),
    }
}

fn history(sessions: &BTreeMap<SessionId, Session>, of: EnvironmentId) -> Vec<Session> {
    let mut history: Vec<_> = sessions.values().filter(|it| it.environment == of).cloned().collect();
    history.sort_by_key(|it| -it.number);
    history
}

fn of_rows(model: &LockModel, run: &Run<'_>, beside: &mut Beside) -> Result<Dump, String> {
    let ids = Ids {
        environments: ids(beside, run.org, "environments"),
        sessions: ids(beside, run.org, "sessions"),
        tickets: ids(beside, run.org, "tickets"),
        deployments: ids(beside, run.org, "deployments"),
    };
    let around = model.around.clone();
    run.transact(move |tx| load(tx, &ids, &around)).map_err(|error| error.to_string())
}

fn ids<T: FromStr<Err: Debug>>(beside: &mut Beside, org: OrgId, table: &str) -> Vec<T> {
    // Ignores deployments through stages. They are not in the model and only provide tracked commits.
    let only = if table == "deployments" { "AND environment_id IS NOT NULL" } else { "" };
    let text = format!("SELECT id FROM {table} WHERE org_id = $1 {only}");
    beside.texts(&text, org).iter().map(|id| id.parse().unwrap()).collect()
}

fn load(tx: &mut Tx<'_>, ids: &Ids, around: &Surroundings) -> Result<Dump, StoreError> {
    let mut named = Vec::new();
    for place in live(around) {
        let pipeline = cast::pipeline(place, around.incarnations[usize::from(place)]);
        let name = cast::name(place);
        named.push([
            environment::find(tx, slug(place).as_str(), &name)?,
            environment::find(tx, &pipeline.to_string(), &name)?,
        ]);
    }
    let events = event::list_after(tx, 0, i64::MAX, i64::MAX)?.into_iter();
    // Ignores events about pipelines and organizations, which exist only because environments need them.
    let events =
        events.filter(|it| !it.kind.starts_with("pipeline_") && !it.kind.starts_with("organization_"));
    let told = |it: berth_core::event::Event| Told {
        kind: it.kind,
        actor: it.actor,
        subjects: it.subjects,
        data: it.data,
    };
    Ok(Dump {
        events: events.map(told).collect(),
        named,
        environments: by_id(&ids.environments, |id| environment::by_id(tx, id))?,
        histories: by_id(&ids.environments, |id| paged(tx, id).map(Some))?,
        sessions: by_id(&ids.sessions, |id| session::by_id(tx, id))?,
        tickets: by_id(&ids.tickets, |id| Ok(ticket::by_id(tx, id)?.map(as_recorded)))?,
        deployments: by_id(&ids.deployments, |id| {
            Ok(deployment::by_id(tx, id)?.and_then(|it| it.into_environment().ok()))
        })?,
    })
}

/// Lists the sessions in small pages, so that most pages start in the middle of the list.
fn paged(tx: &mut Tx<'_>, of: EnvironmentId) -> Result<Vec<Session>, StoreError> {
    const PAGE: i64 = 3;
    let mut from = environment::by_id(tx, of)?.map_or(0, |it| it.environment.sessions);
    let mut history = Vec::new();
    while from > 0 {
        history.extend(session::list_before(tx, of, from, PAGE)?);
        from -= PAGE;
    }
    Ok(history)
}

fn by_id<I: Copy + Ord, T>(
    ids: &[I],
    mut find: impl FnMut(I) -> Result<Option<T>, StoreError>,
) -> Result<BTreeMap<I, T>, StoreError> {
    let mut found = BTreeMap::new();
    for id in ids {
        if let Some(record) = find(*id)? {
            found.insert(*id, record);
        }
    }
    Ok(found)
}

/// Environments whose pipeline was not deleted.
fn live(around: &Surroundings) -> impl Iterator<Item = EnvironmentIndex> {
    let deleted = around.deleted;
    (0..2).filter(move |place| !deleted[usize::from(*place)])
}

/// All rows of an organization in all tables.
pub(super) fn rows(beside: &mut Beside, org: OrgId) -> Vec<String> {
    TABLES.iter().flat_map(|table| beside.rows(table, org)).collect()
}
