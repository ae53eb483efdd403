//! Tests of the store's public interface on SQLite, or on PostgreSQL with `BERTH_TEST_DATABASE=postgres`.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod access;
mod chain;
mod checkpoints;
mod differential;
mod event_lists;
mod event_retention;
mod feed;
mod lists;
mod postgres;
mod registries;
mod replicas;
mod shares;
mod stored_responses;
mod transactions;
mod upgrades;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc;

use berth_core::access::Role;
use berth_core::event::{EventKind, EventSubject, NewEvent};
use berth_core::id::{OrgId, PipelineId, UserId};
use berth_core::name::{DisplayName, Email, Slug};
use berth_core::pipeline::state::{
    self, CheckedDefinition, CreatePipelineCommand, DefinitionOutline, Pipeline,
};
use berth_core::step::NetworkAccess;
use berth_core::time::Timestamp;
use berth_store::tables::member::{self, Member};
use berth_store::tables::organization::{self, Organization};
use berth_store::tables::pipeline;
use berth_store::tables::user::{self, User, UserAccount};
use berth_store::{Store, StoreError, Tx, TxContext};
use berth_testkit::ScratchDatabase;

/// A store with one organization.
struct StoreFixture {
    // Must be dropped before the directory of its database.
    store: Store,
    org: OrgId,
    location: DatabaseLocation,
}

/// Where the store's database is: a file, or a scratch database on PostgreSQL.
struct DatabaseLocation {
    dir: tempfile::TempDir,
    postgres: Option<ScratchDatabase>,
}

impl DatabaseLocation {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), postgres: ScratchDatabase::new_if_wanted() }
    }

    fn open(&self) -> Store {
        match &self.postgres {
            None => Store::open_sqlite(&self.dir.path().join("berth.db")).unwrap(),
            Some(scratch) => Store::open_postgres(&scratch.url()).unwrap(),
        }
    }
}

impl StoreFixture {
    fn new() -> Self {
        Self::open_at(DatabaseLocation::new())
    }

    /// Always uses SQLite, for tests that access the database file.
    fn on_sqlite() -> Self {
        Self::open_at(DatabaseLocation { dir: tempfile::tempdir().unwrap(), postgres: None })
    }

    fn open_at(place: DatabaseLocation) -> Self {
        let store = place.open();
        let org = create_organization(&store, "acme");
        Self { store, org, location: place }
    }

    fn reopen(self) -> Self {
        let Self { store, org, location: place } = self;
        drop(store);
        Self { store: place.open(), org, location: place }
    }

    fn transact<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Tx<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.store.transact_blocking(TxContext::system(Some(self.org)), work)
    }
}

impl StoreFixture {
    /// Runs all changes in a single commit: they are queued while another transaction is running.
    fn run_in_one_commit(&self, changes: usize, change: impl Fn(usize) + Sync) {
        let ((begin, begun), (end, ended)) = (mpsc::channel(), mpsc::channel());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                self.transact(move |_| {
                    begin.send(()).unwrap();
                    ended.recv().unwrap();
                    Ok(())
                })
            });
            begun.recv().unwrap();
            let change = &change;
            for number in 0..changes {
                scope.spawn(move || change(number));
            }
            while self.store.commit_stats().waiting < changes as u64 {
                std::thread::yield_now();
            }
            end.send(()).unwrap();
        });
    }
}

fn create_organization(store: &Store, slug: &str) -> OrgId {
    let slug = Slug::parse(slug).unwrap();
    store
        .transact_blocking(TxContext::system(None), move |tx| {
            let id = OrgId::from_parts(tx.now(), tx.entropy()?);
            let email = Email::parse(&format!("ada@{slug}.test")).unwrap();
            let name = DisplayName::from(slug.clone());
            let org = Organization {
                id,
                slug,
                name: name.clone(),
                version: 1,
                created_at: tx.now(),
                default_network: NetworkAccess::Host,
                require_second_factor: false,
            };
            organization::put(tx, &org)?;
            let account =
                UserAccount::Person { password_hash: Some("x".into()), password_is_generated: true };
            let user = UserId::from_parts(tx.now(), tx.entropy()?);
            user::put(tx, &User { id: user, email, name, account, created_at: tx.now() })?;
            tx.within_org(id, |tx| {
                member::put(tx, &Member { user, role: Role::Owner, version: 1, created_at: tx.now() })?;
                tx.record(NewEvent::new(
                    EventKind::OrganizationCreated,
                    EventSubject::new("organization", id, None),
                ))
            })?;
            Ok::<_, StoreError>(id)
        })
        .unwrap()
}

/// Creates a pipeline. Pipelines are sorted by id, and `at` is the time in the id.
fn create_pipeline(tx: &mut Tx<'_>, slug: &str, at: Timestamp) -> Result<Pipeline, StoreError> {
    create_pipeline_with_types(tx, slug, at, &[])
}

/// Creates a pipeline that uses custom steps of these types.
fn create_pipeline_with_types(
    tx: &mut Tx<'_>,
    slug: &str,
    at: Timestamp,
    types: &[&str],
) -> Result<Pipeline, StoreError> {
    let outline = DefinitionOutline {
        name: DisplayName::parse(slug).unwrap(),
        tracks: None,
        paths: vec![],
        stages: vec!["staging".into()],
        environments: vec![],
        secrets: BTreeSet::new(),
        notifications: vec![],
        custom_types: types.iter().map(ToString::to_string).collect(),
    };
    let command = CreatePipelineCommand {
        id: PipelineId::from_parts(at, tx.entropy()?),
        slug: Slug::parse(slug).unwrap(),
        name: None,
        definition: CheckedDefinition { hash: "h".into(), outline, environments: BTreeMap::new() },
    };
    pipeline::put_definition(tx, "h", "version: 1")?;
    let decision = state::create(command, None, tx.now()).unwrap();
    tx.commit(decision)
}
