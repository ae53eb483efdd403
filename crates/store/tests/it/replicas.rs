//! Several stores that share a PostgreSQL database.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use berth_core::environment::fence::{EpochEvidence, EvidenceVerdict, Fence};
use berth_core::event::{EventKind, EventSubject, NewEvent};
use berth_core::name::Slug;
use berth_store::audit::StoredCheck;
use berth_store::feed::FeedItem;
use berth_store::tables::{event, instance, lease, pipeline};
use berth_store::{OpenError, Store, StoreError, TxContext, idempotency};
use berth_testkit::{PostgresServer, ScratchDatabase, outcome, postgres_binaries};

use super::{create_organization, create_pipeline};

/// Creates a scratch database. Returns `None` if PostgreSQL is not installed; the test is then skipped.
fn create_scratch() -> Option<ScratchDatabase> {
    let found = ScratchDatabase::new();
    if found.is_none() {
        outcome::skip("PostgreSQL", "apt-get install postgresql");
    }
    found
}

#[test]
fn replicas_number_events_without_gaps_in_commit_order() {
    let Some(scratch) = create_scratch() else { return };
    let stores = [(); 2].map(|()| Store::open_postgres(&scratch.url()).unwrap());
    let org = create_organization(&stores[0], "acme");
    std::thread::scope(|scope| {
        for writer in 0..8 {
            let store = &stores[writer % 2];
            scope.spawn(move || {
                for number in 0..25 {
                    let slug = format!("p-{writer}-{number}");
                    let context = || TxContext::system(Some(org));
                    store
                        .transact_blocking(context(), move |tx| create_pipeline(tx, &slug, tx.now()))
                        .unwrap();
                    let refused = store.transact_blocking(context(), |tx| {
                        tx.record(NewEvent::new(
                            EventKind::AccessDenied,
                            EventSubject::new("user", "x", None),
                        ))?;
                        Err::<(), _>(StoreError::Bug("on purpose".into()))
                    });
                    refused.unwrap_err();
                }
            });
        }
    });
    let checked = stores[1].read_blocking(Some(org), |db| {
        let all = event::list_after(db, 0, i64::MAX, i64::MAX)?;
        let times: Vec<_> = all.iter().map(|event| event.occurred_at).collect();
        let mut check = StoredCheck::begin(db, None)?;
        while check.verify_page(db)? {}
        Ok::<_, StoreError>((all.len(), times.is_sorted(), check.finish().problem))
    });
    assert_eq!(checked.unwrap(), (201, true, None));
}

#[test]
fn replicas_serialize_writes_to_the_same_row() {
    let Some(scratch) = create_scratch() else { return };
    let stores = [(); 2].map(|()| Store::open_postgres(&scratch.url()).unwrap());
    let org = create_organization(&stores[0], "acme");
    // Each transaction checks that the name is free and then inserts it. Without the lock, several would succeed.
    let taken: Vec<bool> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..8)
            .map(|number| {
                let store = &stores[number % 2];
                scope.spawn(move || {
                    store.transact_blocking(TxContext::system(Some(org)), |tx| {
                        let slug = Slug::parse("shop").unwrap();
                        if pipeline::by_slug(tx, &slug)?.is_some() {
                            return Ok::<_, StoreError>(false);
                        }
                        create_pipeline(tx, "shop", tx.now()).map(|_| true)
                    })
                })
            })
            .collect();
        all.into_iter().map(|it| it.join().unwrap().unwrap()).collect()
    });
    assert_eq!(taken.iter().filter(|it| **it).count(), 1);
}

#[tokio::test]
async fn follower_receives_events_of_another_replica() {
    let Some(scratch) = create_scratch() else { return };
    let url = scratch.url();
    let opened = tokio::task::spawn_blocking(move || {
        let stores = [(); 2].map(|()| Store::open_postgres(&url).unwrap());
        let org = create_organization(&stores[0], "acme");
        (stores, org)
    });
    let ([here, there], org) = opened.await.unwrap();
    let mut follower = here.follow(org);
    let mut nudged = here.watch_remote_commits().unwrap();
    for number in 0..20 {
        let slug = format!("p-{number}");
        there
            .transact(TxContext::system(Some(org)), move |tx| create_pipeline(tx, &slug, tx.now()))
            .await
            .unwrap();
    }
    nudged.changed().await.unwrap();
    let mut last = 0;
    while last < 21 {
        match follower.next().await {
            FeedItem::Event(told) => {
                assert!(told.event.sequence == last + 1 || last == 0, "in order");
                last = told.event.sequence;
            }
            other => panic!("{other:?}"),
        }
    }
    tokio::task::spawn_blocking(move || drop((here, there))).await.unwrap();
}

#[test]
fn lease_has_one_holder_until_it_expires_or_is_released() {
    let Some(scratch) = create_scratch() else { return };
    let store = Store::open_postgres(&scratch.url()).unwrap();
    let take = |holder: &'static str, seconds| {
        store
            .transact_blocking(TxContext::system(None), move |tx| lease::acquire(tx, "work", holder, seconds))
            .unwrap()
    };
    assert!(take("a", 3_600) && take("a", 3_600));
    assert!(!take("b", 3_600), "a has it");
    store.transact_blocking(TxContext::system(None), |tx| lease::release(tx, "work", "a")).unwrap();
    assert!(take("b", 0), "a has released it");
    assert!(take("a", 3_600), "the lease of b has expired");
}

#[test]
fn unsuitable_postgresql_is_refused_unchanged() {
    let Some(foreign) = create_scratch() else { return };
    foreign.connect().batch_execute("CREATE TABLE customers (id BIGINT)").unwrap();
    let refused = |url: &str| match Store::open_postgres(url) {
        Err(OpenError::Refused(text)) => text,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it was opened"),
    };
    assert!(refused(&foreign.url()).contains("tables of another program"));
    let Some(newer) = create_scratch() else { return };
    drop(Store::open_postgres(&newer.url()).unwrap());
    let row = "INSERT INTO schema_migrations VALUES (999, 'later', 'x', 1);
        UPDATE instance SET schema_min_version = 999";
    newer.connect().batch_execute(row).unwrap();
    assert!(refused(&newer.url()).contains("newer than this program"));
    let Some(older) = create_scratch() else { return };
    let rows = "CREATE TABLE schema_migrations (number BIGINT NOT NULL PRIMARY KEY, name TEXT NOT NULL,
          checksum TEXT NOT NULL, applied_at BIGINT NOT NULL);
        INSERT INTO schema_migrations VALUES (1, 'ground', 'x', 1), (2, 'secrets', 'y', 2);
        CREATE TABLE users (id TEXT NOT NULL PRIMARY KEY)";
    older.connect().batch_execute(rows).unwrap();
    let why = refused(&older.url());
    assert!(why.contains("nothing was changed") && why.contains("an empty PostgreSQL database"), "{why}");
    let tables = "SELECT string_agg(table_name, ' ' ORDER BY table_name) FROM information_schema.tables
        WHERE table_schema = current_schema()";
    let left: String = older.connect().query_one(tables, &[]).unwrap().get(0);
    assert_eq!(left, "schema_migrations users");
    let Some(fixed) = create_scratch() else { return };
    let name = fixed.url().rsplit('/').next().unwrap().to_owned();
    let text = format!("ALTER DATABASE {name} SET default_transaction_read_only = on");
    fixed.connect().batch_execute(&text).unwrap();
    let why = refused(&fixed.url());
    assert!(why.contains("is read-only") && why.contains("the primary"), "{why}");
    let missing_database = newer.url().replace("/t_", "/no_");
    assert!(refused(&missing_database).contains("does not exist"), "{}", refused(&missing_database));
}

/// What the proxy does with the next COMMIT: passes it on, drops the response, or drops the request.
const PASSES: u8 = 0;
const ANSWER_LOST: u8 = 1;
const REQUEST_LOST: u8 = 2;

/// A proxy in front of PostgreSQL that can drop a COMMIT or the response to it.
fn start_lossy_proxy(scratch: &ScratchDatabase) -> (String, Arc<AtomicU8>) {
    let url = scratch.url();
    let (_, rest) = url.split_once('@').unwrap();
    let (socket, name) = rest.split_once('/').unwrap();
    let socket = format!("{}/.s.PGSQL.5432", socket.replace("%2F", "/"));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let fate = Arc::new(AtomicU8::new(PASSES));
    let shared_fate = fate.clone();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let (Ok(client), fate) = (client, shared_fate.clone()) else { return };
            let server = UnixStream::connect(&socket).unwrap();
            let (mut back, mut to_client) = (server.try_clone().unwrap(), client.try_clone().unwrap());
            std::thread::spawn(move || std::io::copy(&mut back, &mut to_client));
            std::thread::spawn(move || forward_to_server(client, server, &fate));
        }
    });
    (format!("postgres://berth@{address}/{name}?sslmode=disable"), fate)
}

fn forward_to_server(mut client: TcpStream, mut server: UnixStream, fate: &AtomicU8) {
    let mut bytes = [0; 64 * 1024];
    while let Ok(count @ 1..) = client.read(&mut bytes) {
        let is_commit = bytes[..count].windows(7).any(|part| part == b"COMMIT\0");
        let now = if is_commit { fate.swap(PASSES, Ordering::SeqCst) } else { PASSES };
        if now == ANSWER_LOST {
            client.shutdown(std::net::Shutdown::Both).unwrap();
        }
        if now == REQUEST_LOST || server.write_all(&bytes[..count]).is_err() {
            let _ = client.shutdown(std::net::Shutdown::Both);
            let _ = server.shutdown(std::net::Shutdown::Both);
            return;
        }
    }
    // PostgreSQL still executes the COMMIT before it notices that the connection was closed.
    let _ = server.shutdown(std::net::Shutdown::Write);
}

#[test]
fn lost_commit_response_is_an_unknown_outcome() {
    let Some(scratch) = create_scratch() else { return };
    let direct = Store::open_postgres(&scratch.url()).unwrap();
    let org = create_organization(&direct, "acme");
    let (url, fate) = start_lossy_proxy(&scratch);
    let store = Store::open_postgres(&url).unwrap();
    let made = |slug: &'static str| {
        store.transact_blocking(TxContext::system(Some(org)), move |tx| create_pipeline(tx, slug, tx.now()))
    };
    let exists = |slug: &str| {
        let slug = Slug::parse(slug).unwrap();
        let look =
            move |tx: &mut berth_store::Tx<'_>| Ok::<_, StoreError>(pipeline::by_slug(tx, &slug)?.is_some());
        // Reads in a write transaction. It has to wait for the lock, and therefore for the commit that is still in
        // progress.
        direct.transact_blocking(TxContext::system(Some(org)), look).unwrap()
    };
    made("calm").unwrap();
    fate.store(ANSWER_LOST, Ordering::SeqCst);
    assert!(matches!(made("done"), Err(StoreError::Unknown(_))));
    assert!(exists("done"), "the commit succeeded");
    fate.store(REQUEST_LOST, Ordering::SeqCst);
    assert!(matches!(made("undone"), Err(StoreError::Unknown(_))));
    assert!(!exists("undone"), "it was not");
    made("after").unwrap();
    assert!(exists("after"));
}

#[test]
fn postgresql_restart_is_reported_and_recovered() {
    let Some(bin) = postgres_binaries() else {
        outcome::skip("PostgreSQL", "apt-get install postgresql");
        return;
    };
    let mut server = PostgresServer::start(&bin).unwrap();
    let store = Store::open_postgres(&server.url("postgres")).unwrap();
    let org = create_organization(&store, "acme");
    let make = |slug: &'static str| {
        store.transact_blocking(TxContext::system(Some(org)), move |tx| create_pipeline(tx, slug, tx.now()))
    };
    make("before").unwrap();
    server.kill();
    assert!(matches!(make("during"), Err(StoreError::Unavailable(_))));
    let read = store.read_blocking(Some(org), |db| event::chain_head(db));
    let why = read.unwrap_err().to_string();
    assert!(why.contains("cannot be reached"), "{why}");
    server.restart().unwrap();
    make("after").unwrap();
    let read = store.read_blocking(Some(org), |db| event::chain_head(db));
    assert_eq!(read.unwrap().sequence, 3, "refused writes left nothing");
}

/// The epoch that a new fence would get.
fn current_epoch(store: &Store) -> i64 {
    store.transact_blocking(TxContext::system(None), |tx| Ok::<_, StoreError>(tx.moment()?.epoch)).unwrap()
}

#[test]
fn epoch_rises_after_a_failover() {
    let Some(bin) = postgres_binaries() else {
        outcome::skip("PostgreSQL", "apt-get install postgresql");
        return;
    };
    let mut server = PostgresServer::start(&bin).unwrap();
    let stores = [(); 2].map(|()| Store::open_postgres(&server.url("postgres")).unwrap());
    assert_eq!([&stores[0], &stores[1]].map(current_epoch), [0, 0]);
    server.kill();
    server.restart().unwrap();
    // A lost connection is noticed only when it is used. The next transaction then opens a new one.
    let epoch_after_reconnect = |store: &Store| {
        let asked =
            || store.transact_blocking(TxContext::system(None), |tx| Ok::<_, StoreError>(tx.moment()?.epoch));
        asked().or_else(|_| asked()).unwrap()
    };
    assert_eq!([&stores[0], &stores[1]].map(epoch_after_reconnect), [0, 0], "a restart is no failover");
    server.fail_over().unwrap();
    assert_eq!(
        [&stores[0], &stores[1]].map(epoch_after_reconnect),
        [2, 2],
        "raised once, by the first transaction: the number of its timeline"
    );
    drop(stores);
    assert_eq!(current_epoch(&Store::open_postgres(&server.url("postgres")).unwrap()), 2);
}

#[test]
fn epoch_seen_by_a_runner_is_raised_on_every_server() {
    let Some(scratch) = create_scratch() else { return };
    let stores = [(); 2].map(|()| Store::open_postgres(&scratch.url()).unwrap());
    let org = create_organization(&stores[0], "acme");
    let next_fence_epoch = |store: &Store| {
        let given = store.transact_blocking(TxContext::system(Some(org)), |tx| {
            let fence = Fence::default().next(tx.moment()?.epoch);
            Ok::<_, StoreError>(fence.epoch())
        });
        given.unwrap()
    };
    // Opens a write connection in each store.
    assert_eq!([&stores[0], &stores[1]].map(next_fence_epoch), [0, 0]);
    let report_epoch = |store: &Store, epoch: i64| {
        store.transact_blocking(TxContext::system(None), move |tx| {
            instance::process_witness(tx, EpochEvidence::Epoch(epoch))
        })
    };
    assert_eq!(report_epoch(&stores[0], 7).unwrap(), EvidenceVerdict::Above(8));
    assert_eq!([&stores[0], &stores[1]].map(next_fence_epoch), [8, 8]);
    assert_eq!(report_epoch(&stores[1], 8).unwrap(), EvidenceVerdict::Known);
    assert!(matches!(report_epoch(&stores[1], 8_000).unwrap(), EvidenceVerdict::Absurd { .. }));
    assert_eq!([&stores[0], &stores[1]].map(next_fence_epoch), [8, 8]);
}

#[tokio::test]
async fn lease_is_granted_during_an_exclusive_installation_lock() {
    let Some(scratch) = create_scratch() else { return };
    let (url, database) = (scratch.url(), scratch);
    let store = tokio::task::spawn_blocking(move || Store::open_postgres(&url).unwrap()).await.unwrap();
    let (release, held) = std::sync::mpsc::channel::<()>();
    let (tell, begun) = tokio::sync::oneshot::channel();
    let holder = std::thread::spawn(move || {
        let mut client = database.connect();
        client.batch_execute("BEGIN; SELECT pg_advisory_xact_lock(1650815604, 0)").unwrap();
        tell.send(()).unwrap();
        let _ = held.recv();
        drop(client);
        database
    });
    begun.await.unwrap();
    let taken = store.transact_lease(|tx| lease::acquire(tx, "work", "a", 60)).await;
    assert!(taken.unwrap());
    let waits = store.transact(TxContext::system(None), |_| Ok::<_, StoreError>(())).await;
    assert!(matches!(waits, Err(StoreError::Unavailable(_))), "other writers wait until the lock timeout");
    drop(release);
    tokio::task::spawn_blocking(move || drop((store, holder.join().unwrap()))).await.unwrap();
}

#[test]
fn replayed_response_is_as_durable_as_its_commit() {
    let Some(scratch) = create_scratch() else { return };
    let store = Store::open_postgres(&scratch.url()).unwrap();
    let org = create_organization(&store, "acme");
    let mut client = scratch.connect();
    let mut written =
        || -> String { client.query_one("SELECT pg_current_wal_insert_lsn()::text", &[]).unwrap().get(0) };
    let change = |vouches: bool| {
        store
            .transact_blocking(TxContext::system(Some(org)), move |tx| {
                if vouches { idempotency::ensure_durable(tx) } else { Ok::<_, StoreError>(()) }
            })
            .unwrap();
    };
    let mut writes = |vouches: bool| {
        let before = written();
        change(vouches);
        written() != before
    };
    // Tries many times, because PostgreSQL also writes WAL in the background and for databases of other tests.
    assert!((0..500).any(|_| !writes(false)), "a read-only transaction writes no WAL");
    assert!((0..5).all(|_| writes(true)));
}
