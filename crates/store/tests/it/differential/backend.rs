//! The database side of the differential test: domain rules make decisions based on rows, and the decisions are written
//! as rows.
//!
//! Each run has its own organization, so that many runs can share a database and its commits.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use berth_core::access::Role;
use berth_core::decision::{DomainRecord, RecordChange, RuleDecision};
use berth_core::deployment::EnvironmentDeployment;
use berth_core::environment::fence::Fence;
use berth_core::environment::{DecisionContext, Lock, Session, Ticket};
use berth_core::event::{Actor, ActorType, EventKind, EventSubject, NewEvent};
use berth_core::id::{DeploymentId, EnvironmentId, OrgId, SessionId, TicketId};
use berth_core::memory_store::MemoryStore;
use berth_core::name::{DisplayName, Email, Slug};
use berth_core::pipeline::state::{self, CheckedDefinition, CreatePipelineCommand, DefinitionOutline};
use berth_core::step::NetworkAccess;
use berth_sim::locks::{
    EnvironmentIndex, LockAnswer, LockRecords, LockRequest, Surroundings, execute, fixtures,
};
use berth_store::tables::deployment;
use berth_store::tables::member::{self, Member};
use berth_store::tables::organization::{self, Organization};
use berth_store::tables::token::{self, Token};
use berth_store::tables::user::{self, User, UserAccount};
use berth_store::tables::{environment, pipeline, session, ticket};
use berth_store::{Store, StoreError, Tx, TxContext};

use super::super::{DatabaseLocation, create_organization};
use super::raw_connection::RawConnection;

/// One database for many runs.
pub(super) struct SharedDatabase {
    // Must be dropped before the directory of its database.
    store: Store,
    pub(super) raw_connection: Mutex<RawConnection>,
    location: DatabaseLocation,
}

/// The database side of one run.
pub(super) struct DatabaseRun<'d> {
    database: &'d SharedDatabase,
    pub(super) org: OrgId,
    ids: Arc<NumberedIds>,
}

/// Maps the numbers that commands use to ids. Filled from rows of the database, not from the model.
#[derive(Clone, Default)]
struct NumberedIds {
    sessions: BTreeMap<(EnvironmentId, i64), SessionId>,
    tickets: BTreeMap<(EnvironmentId, i64), TicketId>,
    deployments: BTreeMap<(EnvironmentId, i64), DeploymentId>,
}

/// A decision together with the state that it is based on.
#[derive(Clone)]
pub(super) struct LoadedDecision {
    pub(super) before: Option<Lock>,
    pub(super) decision: Option<RuleDecision<LockAnswer>>,
    place: EnvironmentIndex,
    request: LockRequest,
    surroundings: Surroundings,
}

/// A command, with everything else that its decision depends on: other state, the time and the random bytes.
#[derive(Clone)]
pub(super) struct PreparedRequest {
    pub(super) place: EnvironmentIndex,
    pub(super) request: LockRequest,
    pub(super) surroundings: Surroundings,
    pub(super) moment: DecisionContext,
}

impl SharedDatabase {
    pub(super) fn is_postgres(&self) -> bool {
        self.location.postgres.is_some()
    }

    pub(super) fn new() -> Self {
        let place = DatabaseLocation::new();
        let (store, raw_connection) = (place.open(), RawConnection::open(&place));
        let org = create_organization(&store, "home");
        let people = store.transact_blocking(TxContext::system(Some(org)), |tx| {
            for (index, name) in (0..).zip(fixtures::PEOPLE) {
                let account =
                    UserAccount::Person { password_hash: Some("x".into()), password_is_generated: true };
                let email = Email::parse(&format!("{name}@cast.test")).unwrap();
                let (id, name) = (fixtures::person(index).id, DisplayName::parse(name).unwrap());
                user::put(tx, &User { id, email, name, account, created_at: tx.now() })?;
            }
            tx.record(NewEvent::new(EventKind::MemberAdded, EventSubject::new("user", "cast", None)))
        });
        people.map(|()| Self { store, raw_connection: Mutex::new(raw_connection), location: place }).unwrap()
    }
}

impl<'d> DatabaseRun<'d> {
    /// Creates an organization with the users and environments of a new model.
    pub(super) fn begin(database: &'d SharedDatabase, number: u32, world: &MemoryStore) -> Self {
        let [a, b, c, d] = number.to_be_bytes();
        let org = OrgId::from_parts(fixtures::START, [0, 0, 0, 5, a, b, c, d, 0, 0]);
        let run = Self { database, org, ids: Arc::default() };
        let environments: Vec<_> = world.environments.values().cloned().map(Box::new).collect();
        run.transact(move |tx| {
            let slug = Slug::parse(&format!("run-{number}")).unwrap();
            let name = DisplayName::from(slug.clone());
            let (version, created_at, default_network) = (1, tx.now(), NetworkAccess::Host);
            let organization = Organization {
                id: org,
                slug,
                name,
                version,
                created_at,
                default_network,
                require_second_factor: false,
            };
            organization::put(tx, &organization)?;
            for person in 0..3 {
                add_member(tx, number, person)?;
            }
            pipeline::put_definition(tx, "h", "version: 1")?;
            for place in 0..2 {
                add_pipeline(tx, place, 0)?;
            }
            let changes =
                environments.into_iter().map(|it| RecordChange::Put(DomainRecord::Environment(it))).collect();
            tx.commit(RuleDecision { changes, ..RuleDecision::without_changes(()) })
        })
        .unwrap();
        run
    }

    pub(super) fn transact<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Tx<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let context =
            TxContext { org: Some(self.org), actor: caller_actor(), request_id: None, access: None };
        self.database.store.transact_blocking(context, work)
    }

    /// Loads the state and makes a decision, without writing it.
    pub(super) fn load_and_decide(&self, asked: PreparedRequest) -> Result<LoadedDecision, StoreError> {
        let ids = self.ids.clone();
        self.transact(move |tx| Ok(decide(tx, &ids, asked)))
    }

    /// Writes a decision that an earlier transaction made.
    pub(super) fn commit(&mut self, looked: LoadedDecision) -> Result<(), StoreError> {
        let noted = looked.clone();
        self.transact(move |tx| write(tx, &looked))?;
        self.record_ids(&noted);
        Ok(())
    }

    /// Decides and writes in one transaction, as a server does.
    pub(super) fn perform(&mut self, asked: PreparedRequest) -> Result<LoadedDecision, StoreError> {
        let ids = self.ids.clone();
        let looked = self.transact(move |tx| {
            let looked = decide(tx, &ids, asked);
            write(tx, &looked).map(|()| looked)
        })?;
        self.record_ids(&looked);
        Ok(looked)
    }

    fn record_ids(&mut self, looked: &LoadedDecision) {
        let ids = Arc::make_mut(&mut self.ids);
        for RecordChange::Put(record) in looked.decision.iter().flat_map(|it| &it.changes) {
            match record {
                DomainRecord::Session(it) => drop(ids.sessions.insert((it.environment, it.number), it.id)),
                DomainRecord::Ticket(it) => drop(ids.tickets.insert((it.environment, it.number), it.id)),
                DomainRecord::EnvironmentDeployment(it) => {
                    ids.deployments.insert((it.target.environment, it.number), it.id);
                }
                DomainRecord::Environment(_)
                | DomainRecord::Pipeline(_)
                | DomainRecord::StagesDeployment(_)
                | DomainRecord::Run(_)
                | DomainRecord::Approval(_)
                | DomainRecord::Stage(_)
                | DomainRecord::StageEnd(_)
                | DomainRecord::Analysis(_)
                | DomainRecord::FixPullRequest(_) => {}
            }
        }
    }

    /// Writes state that is not part of a lock, such as roles and tokens. On a real server, other requests change it.
    pub(super) fn write_surroundings(&self, surroundings: &Surroundings) {
        let (org, tracked) = (self.org.to_string(), fixtures::tracked_commit());
        let status = if surroundings.is_paused { "stopped" } else { "active" };
        let people: Vec<String> = surroundings
            .revoked_people
            .iter()
            .map(|person| fixtures::person(*person).id.to_string())
            .collect();
        let tokens: Vec<String> =
            surroundings.revoked_tokens.iter().map(|person| fixtures::token(*person).to_string()).collect();
        let stopped = [org.as_str(), status];
        let tracking = [org.as_str(), tracked.as_str()];
        let people: Vec<_> = people.iter().map(|id| [org.as_str(), id]).collect();
        let tokens: Vec<_> = tokens.iter().map(|id| [org.as_str(), id]).collect();
        let mut changes: Vec<(&str, &[&str])> = vec![
            (
                r#"UPDATE pipelines SET status = $2, stopped_at = 1, stopped_by = '{"type":"system","name":"berth"}'
                   WHERE org_id = $1"#,
                &stopped,
            ),
            ("DELETE FROM deployments WHERE org_id = $1 AND environment_id IS NULL", &stopped[..1]),
        ];
        if surroundings.is_tracked {
            changes.push((
                "INSERT INTO deployments (org_id, id, pipeline_id, number, stage, definition_hash, commit_id,
                   requested_by, status, created_at, finished_at)
                 SELECT org_id, 'stage of ' || id, id, 1, 'production', 'h', $2, '{}', 'succeeded', 1, 1
                 FROM pipelines WHERE org_id = $1",
                &tracking,
            ));
        }
        let leave = "DELETE FROM memberships WHERE org_id = $1 AND user_id = $2";
        changes.extend(people.iter().map(|params| (leave, &params[..])));
        let revoke = "UPDATE api_tokens SET revoked_at = 1 WHERE org_id = $1 AND id = $2";
        changes.extend(tokens.iter().map(|params| (revoke, &params[..])));
        self.database.raw_connection.lock().unwrap().execute_all(&changes);
    }
}

/// The actor of the transactions. It is not a user of the model, so that events with an explicit actor can be told
/// apart from events with this default.
pub(super) fn caller_actor() -> Actor {
    Actor { kind: ActorType::Service, id: None, name: "caller".into(), token: None }
}

fn decide(tx: &mut Tx<'_>, ids: &NumberedIds, asked: PreparedRequest) -> LoadedDecision {
    let PreparedRequest { place, request, surroundings, moment } = asked;
    let id = match request {
        LockRequest::Recreate => surroundings.next_environment(place),
        _ => surroundings.environment(place),
    };
    let rows = DatabaseRecords { tx: RefCell::new(tx), ids };
    let before = rows.lock(id);
    let decision = execute(&rows, &surroundings, place, &request, &moment);
    LoadedDecision { before, decision, place, request, surroundings }
}

/// Writes a decision. If it changes the definition of an environment, the pipeline is changed too, as on a server.
fn write(tx: &mut Tx<'_>, looked: &LoadedDecision) -> Result<(), StoreError> {
    let LoadedDecision { decision: Some(decision), place, request, surroundings, before } = looked else {
        return Ok(());
    };
    // A deletion may change nothing in the environment. A server deletes in the transaction that has read it.
    if let (LockRequest::Delete { .. }, Some(before)) = (request, before) {
        let now = environment::by_id(tx, before.environment.id)?;
        if now.is_none_or(|now| now.environment.version != before.environment.version) {
            return Err(StoreError::Bug("the deletion changed 0 rows".into()));
        }
    }
    let incarnation = surroundings.incarnations[usize::from(*place)];
    if *request == LockRequest::Recreate {
        add_pipeline(tx, *place, incarnation + 1)?;
    }
    let answer = tx.commit(decision.clone())?;
    let id = fixtures::pipeline(*place, incarnation);
    match request {
        LockRequest::Delete { .. } => match pipeline::by_id(tx, id)? {
            Some(found) => tx.commit(state::delete(&found, None, tx.now()).unwrap()).map(drop),
            None => Ok(()),
        },
        LockRequest::RenewLease { .. } => match answer {
            LockAnswer::Session(renewed) => session::renew_lease(tx, &renewed),
            _ => Ok(()),
        },
        LockRequest::Redeclare { .. } | LockRequest::Undeclare => {
            tx.record(NewEvent::new(EventKind::PipelineUpdated, EventSubject::new("pipeline", id, None)))
        }
        _ => Ok(()),
    }
}

fn add_member(tx: &mut Tx<'_>, run: u32, person: u8) -> Result<(), StoreError> {
    let user = fixtures::person(person).id;
    member::put(tx, &Member { user, role: Role::Deployer, version: 1, created_at: tx.now() })?;
    let token = Token {
        id: fixtures::token(person),
        user,
        name: DisplayName::parse("laptop").unwrap(),
        prefix: "brt_".into(),
        created_at: tx.now(),
        expires_at: None,
        restriction: None,
        environment: None,
        last_used_at: None,
        last_used_address: None,
        last_used_client: None,
        revoked_at: None,
    };
    token::insert(tx, &token, format!("{run} {person}").as_bytes())
}

fn add_pipeline(tx: &mut Tx<'_>, place: EnvironmentIndex, incarnation: u8) -> Result<(), StoreError> {
    let outline = DefinitionOutline {
        name: DisplayName::parse("pipeline").unwrap(),
        tracks: None,
        paths: vec![],
        stages: vec![],
        environments: vec![],
        secrets: BTreeSet::new(),
        notifications: vec![],
        custom_types: BTreeSet::new(),
    };
    let definition = CheckedDefinition { hash: "h".into(), outline, environments: BTreeMap::new() };
    let id = fixtures::pipeline(place, incarnation);
    let command = CreatePipelineCommand { id, slug: pipeline_slug(place), name: None, definition };
    tx.commit(state::create(command, None, tx.now()).unwrap()).map(drop)
}

/// The slug of the pipeline at this index. It stays the same when the pipeline is deleted and recreated.
pub(super) fn pipeline_slug(place: EnvironmentIndex) -> Slug {
    Slug::parse(&format!("pipeline-of-{}", fixtures::name(place))).unwrap()
}

struct DatabaseRecords<'a, 'c> {
    tx: RefCell<&'a mut Tx<'c>>,
    ids: &'a NumberedIds,
}

// If a row cannot be read, the transaction fails, and with it the run.
impl LockRecords for DatabaseRecords<'_, '_> {
    fn lock(&self, id: EnvironmentId) -> Option<Lock> {
        environment::by_id(*self.tx.borrow_mut(), id).unwrap()
    }

    fn session(&self, environment: EnvironmentId, number: i64) -> Option<Session> {
        let id = *self.ids.sessions.get(&(environment, number))?;
        session::by_id(*self.tx.borrow_mut(), id).unwrap()
    }

    fn ticket(&self, environment: EnvironmentId, number: i64) -> Option<Ticket> {
        let id = *self.ids.tickets.get(&(environment, number))?;
        ticket::by_id(*self.tx.borrow_mut(), id).unwrap()
    }

    fn deployment(&self, environment: EnvironmentId, number: i64) -> Option<EnvironmentDeployment> {
        let id = *self.ids.deployments.get(&(environment, number))?;
        deployment::by_id(*self.tx.borrow_mut(), id).unwrap()?.into_environment().ok()
    }

    fn last_fence(&self, place: EnvironmentIndex) -> Fence {
        environment::last_fence(*self.tx.borrow_mut(), &pipeline_slug(place), &fixtures::name(place)).unwrap()
    }
}
