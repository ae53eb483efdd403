//! Dumps everything that a run has written, from the model and from the database, and compares both.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::str::FromStr;

use berth_core::deployment::EnvironmentDeployment;
use berth_core::environment::{Lock, Session, Ticket};
use berth_core::event::{Actor, EventSubject, NewEvent};
use berth_core::id::{DeploymentId, EnvironmentId, OrgId, SessionId, TicketId};
use berth_core::pipeline::model::ReleaseAction;
use berth_sim::locks::{EnvironmentIndex, LockModel, Surroundings, fixtures};
use berth_store::tables::{deployment, environment, event, session, ticket};
use berth_store::{StoreError, Tx};

use super::backend::{DatabaseRun, caller_actor, pipeline_slug};
use super::raw_connection::RawConnection;

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
pub(super) struct StoreDump {
    environments: BTreeMap<EnvironmentId, Lock>,
    /// Each environment, found by the slug and by the id of its pipeline.
    by_name: Vec<[Option<Lock>; 2]>,
    sessions: BTreeMap<SessionId, Session>,
    /// Sessions of each environment, newest first.
    histories: BTreeMap<EnvironmentId, Vec<Session>>,
    tickets: BTreeMap<TicketId, Ticket>,
    deployments: BTreeMap<DeploymentId, EnvironmentDeployment>,
    events: Vec<EventRecord>,
}

#[derive(Debug, PartialEq)]
struct EventRecord {
    kind: String,
    actor: Actor,
    subjects: Vec<EventSubject>,
    data: serde_json::Value,
}

struct RecordIds {
    environments: Vec<EnvironmentId>,
    sessions: Vec<SessionId>,
    tickets: Vec<TicketId>,
    deployments: Vec<DeploymentId>,
}

pub(super) fn check_equal<T: PartialEq + Debug>(what: &str, model: &T, store: &T) -> Result<(), String> {
    if model == store {
        return Ok(());
    }
    let (model, store) = (format!("{model:#?}"), format!("{store:#?}"));
    let lines = model.lines().zip(store.lines()).find(|(model, store)| model != store);
    let (a, b) = lines.unwrap_or_default();
    Err(format!("{what} differ, first in {} and {}\n  model: {model}\n  store: {store}", a.trim(), b.trim()))
}

/// Removes the tracked commit unless a release resets the environment, because the store loads it only in that case.
pub(super) fn normalize_lock(lock: Lock) -> Lock {
    let is_reset = lock.environment.configuration.on_release == ReleaseAction::DeployTracked;
    Lock { tracked: lock.tracked.filter(|_| is_reset), ..lock }
}

/// Sets `is_entitled` to a fixed value, because it is not stored with a ticket.
pub(super) fn normalize_ticket(ticket: Ticket) -> Ticket {
    Ticket { is_entitled: true, ..ticket }
}

pub(super) fn compare_dumps(
    model: &LockModel,
    run: &DatabaseRun<'_>,
    raw_connection: &mut RawConnection,
) -> Result<(), String> {
    let (expected, found) = (dump_model(model), dump_database(model, run, raw_connection)?);
    check_equal("environments", &expected.environments, &found.environments)?;
    check_equal("environments by name", &expected.by_name, &found.by_name)?;
    check_equal("sessions", &expected.sessions, &found.sessions)?;
    check_equal("histories", &expected.histories, &found.histories)?;
    check_equal("tickets", &expected.tickets, &found.tickets)?;
    check_equal("deployments", &expected.deployments, &found.deployments)?;
    check_equal("events", &expected.events, &found.events)
}

fn dump_model(model: &LockModel) -> StoreDump {
    let LockModel { store: world, surroundings } = model;
    let load = |id| world.load(id).map(normalize_lock);
    let to_record = |event: &NewEvent| EventRecord {
        kind: event.kind.to_string(),
        actor: event.by.clone().unwrap_or_else(caller_actor),
        subjects: event.subjects.clone(),
        data: event.data.clone(),
    };
    StoreDump {
        environments: world.environments.keys().filter_map(|id| Some((*id, load(*id)?))).collect(),
        by_name: live_environments(surroundings)
            .map(|place| [(); 2].map(|()| load(surroundings.environment(place))))
            .collect(),
        sessions: world.sessions.clone(),
        histories: world.environments.keys().map(|id| (*id, session_history(&world.sessions, *id))).collect(),
        tickets: world.tickets.iter().map(|(id, it)| (*id, normalize_ticket(it.clone()))).collect(),
        deployments: world.deployments.clone(),
        events: world.events.iter().map(to_record).collect(),
    }
}

fn session_history(sessions: &BTreeMap<SessionId, Session>, of: EnvironmentId) -> Vec<Session> {
    let mut history: Vec<_> = sessions.values().filter(|it| it.environment == of).cloned().collect();
    history.sort_by_key(|it| -it.number);
    history
}

fn dump_database(
    model: &LockModel,
    run: &DatabaseRun<'_>,
    raw_connection: &mut RawConnection,
) -> Result<StoreDump, String> {
    let ids = RecordIds {
        environments: load_ids(raw_connection, run.org, "environments"),
        sessions: load_ids(raw_connection, run.org, "sessions"),
        tickets: load_ids(raw_connection, run.org, "tickets"),
        deployments: load_ids(raw_connection, run.org, "deployments"),
    };
    let surroundings = model.surroundings.clone();
    run.transact(move |tx| load_dump(tx, &ids, &surroundings)).map_err(|error| error.to_string())
}

fn load_ids<T: FromStr<Err: Debug>>(raw_connection: &mut RawConnection, org: OrgId, table: &str) -> Vec<T> {
    // Ignores deployments through stages. They are not in the model and only provide tracked commits.
    let only = if table == "deployments" { "AND environment_id IS NOT NULL" } else { "" };
    let text = format!("SELECT id FROM {table} WHERE org_id = $1 {only}");
    raw_connection.query_texts(&text, org).iter().map(|id| id.parse().unwrap()).collect()
}

fn load_dump(tx: &mut Tx<'_>, ids: &RecordIds, surroundings: &Surroundings) -> Result<StoreDump, StoreError> {
    let mut named = Vec::new();
    for place in live_environments(surroundings) {
        let pipeline = fixtures::pipeline(place, surroundings.incarnations[usize::from(place)]);
        let name = fixtures::name(place);
        named.push([
            environment::find(tx, pipeline_slug(place).as_str(), &name)?,
            environment::find(tx, &pipeline.to_string(), &name)?,
        ]);
    }
    let events = event::list_after(tx, 0, i64::MAX, i64::MAX)?.into_iter();
    // Ignores events about pipelines and organizations, which exist only because environments need them.
    let events =
        events.filter(|it| !it.kind.starts_with("pipeline_") && !it.kind.starts_with("organization_"));
    let to_record = |it: berth_core::event::Event| EventRecord {
        kind: it.kind,
        actor: it.actor,
        subjects: it.subjects,
        data: it.data,
    };
    Ok(StoreDump {
        events: events.map(to_record).collect(),
        by_name: named,
        environments: load_by_id(&ids.environments, |id| environment::by_id(tx, id))?,
        histories: load_by_id(&ids.environments, |id| load_history_in_pages(tx, id).map(Some))?,
        sessions: load_by_id(&ids.sessions, |id| session::by_id(tx, id))?,
        tickets: load_by_id(&ids.tickets, |id| Ok(ticket::by_id(tx, id)?.map(normalize_ticket)))?,
        deployments: load_by_id(&ids.deployments, |id| {
            Ok(deployment::by_id(tx, id)?.and_then(|it| it.into_environment().ok()))
        })?,
    })
}

/// Lists the sessions in small pages, so that most pages start in the middle of the list.
fn load_history_in_pages(tx: &mut Tx<'_>, of: EnvironmentId) -> Result<Vec<Session>, StoreError> {
    const PAGE: i64 = 3;
    let mut from = environment::by_id(tx, of)?.map_or(0, |it| it.environment.sessions);
    let mut history = Vec::new();
    while from > 0 {
        history.extend(session::list_before(tx, of, from, PAGE)?);
        from -= PAGE;
    }
    Ok(history)
}

fn load_by_id<I: Copy + Ord, T>(
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
fn live_environments(surroundings: &Surroundings) -> impl Iterator<Item = EnvironmentIndex> {
    let deleted = surroundings.deleted;
    (0..2).filter(move |place| !deleted[usize::from(*place)])
}

/// All rows of an organization in all tables.
pub(super) fn dump_all_tables(raw_connection: &mut RawConnection, org: OrgId) -> Vec<String> {
    TABLES.iter().flat_map(|table| raw_connection.dump_table(table, org)).collect()
}
