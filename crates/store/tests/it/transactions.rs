//! Transactions are atomic, must record events, and cannot access other organizations.

use berth_core::event::{EventKind, EventSubject, NewEvent};
use berth_core::name::Slug;
use berth_core::pipeline::state;
use berth_store::pagination::PageStart;
use berth_store::tables::{event, pipeline};
use berth_store::{StoreError, Tx, TxContext};

use super::{DatabaseLocation, StoreFixture, create_organization, create_pipeline};

fn pipeline_exists(fixture: &StoreFixture, slug: &str) -> bool {
    let slug = Slug::parse(slug).unwrap();
    fixture.transact(move |tx| Ok(pipeline::by_slug(tx, &slug)?.is_some())).unwrap()
}

#[test]
fn acknowledged_write_survives_a_restart() {
    let fixture = StoreFixture::new();
    fixture.transact(|tx| create_pipeline(tx, "shop", tx.now())).unwrap();
    assert!(pipeline_exists(&fixture.reopen(), "shop"));
}

#[test]
fn failed_transaction_is_rolled_back() {
    let fixture = StoreFixture::new();
    let failed = fixture.transact(|tx| {
        create_pipeline(tx, "shop", tx.now())?;
        Err::<(), _>(StoreError::Bug("on purpose".into()))
    });
    assert!(failed.is_err());
    assert!(!pipeline_exists(&fixture, "shop"));
}

#[test]
fn write_without_an_event_is_rolled_back() {
    let fixture = StoreFixture::new();
    let failed = fixture.transact(|tx| pipeline::put_definition(tx, "h", "version: 1"));
    assert!(failed.unwrap_err().to_string().contains("without recording an event"));
    assert_eq!(fixture.transact(|tx| pipeline::load_definition(tx, "h")).unwrap(), None);
}

#[test]
fn nul_character_is_refused() {
    let fixture = StoreFixture::new();
    let asked = fixture.transact(|tx| pipeline::load_definition(tx, "a\0b"));
    assert!(matches!(asked, Err(StoreError::Nul)), "{asked:?}");
}

#[test]
fn panic_rolls_back_its_own_transaction_only() {
    let fixture = StoreFixture::new();
    let failed = fixture.transact(|tx| -> Result<(), StoreError> {
        create_pipeline(tx, "shop", tx.now())?;
        panic!("on purpose")
    });
    assert!(failed.is_err());
    assert!(!pipeline_exists(&fixture, "shop"));
    fixture.transact(|tx| create_pipeline(tx, "shop", tx.now())).unwrap();
    assert!(pipeline_exists(&fixture, "shop"));
}

#[test]
fn organization_statement_without_an_organization_is_an_error() {
    let fixture = StoreFixture::new();
    let failed: Result<_, StoreError> =
        fixture.store.transact_blocking(TxContext::system(None), |tx| pipeline::find(tx, "shop"));
    assert!(failed.unwrap_err().to_string().contains("needs an organization"));
}

#[test]
fn organizations_are_isolated() {
    let fixture = StoreFixture::new();
    let made = fixture.transact(|tx| create_pipeline(tx, "shop", tx.now())).unwrap();
    let other = TxContext::system(Some(create_organization(&fixture.store, "globex")));
    let seen = fixture.store.transact_blocking(other, move |tx| {
        Ok::<_, StoreError>((pipeline::by_id(tx, made.id)?, pipeline::by_slug(tx, &made.slug)?))
    });
    assert_eq!(seen.unwrap(), (None, None));
}

#[test]
fn failed_version_check_is_an_error() {
    let fixture = StoreFixture::new();
    let made = fixture.transact(|tx| create_pipeline(tx, "shop", tx.now())).unwrap();
    let stop = move |fixture: &StoreFixture| {
        let stale = made.clone();
        fixture.transact(move |tx| {
            let decision = state::stop(&stale, tx.actor().clone(), None, None, tx.now()).unwrap();
            tx.commit(decision)
        })
    };
    stop(&fixture).unwrap();
    assert!(stop(&fixture).unwrap_err().to_string().contains("changed 0 rows"));
}

#[test]
fn concurrent_writers_number_events_without_gaps() {
    let fixture = StoreFixture::new();
    std::thread::scope(|scope| {
        for writer in 0..8 {
            let fixture = &fixture;
            scope.spawn(move || {
                for number in 0..50 {
                    let slug = format!("p-{writer}-{number}");
                    fixture.transact(move |tx| create_pipeline(tx, &slug, tx.now())).unwrap();
                    let refused = fixture.transact(|tx| {
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
    let filter = event::EventFilter::default();
    let seen =
        fixture.transact(move |tx| event::list(tx, &filter, &PageStart::Offset(0), 1_000, true)).unwrap();
    let sequences: Vec<_> = seen.items.iter().map(|event| event.sequence).collect();
    assert_eq!(sequences, (1..=401).rev().collect::<Vec<_>>());
    assert_eq!(seen.total, Some(401));
}

/// Queues the jobs in this order while the writer is busy, so that they end up in the same commit.
fn commit_together(fixture: &StoreFixture, works: Vec<TxWork>) -> Vec<Result<(), StoreError>> {
    let (release, held) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let (begun, begins) = std::sync::mpsc::channel();
        let holder = scope.spawn(move || {
            fixture.transact(move |_| {
                begun.send(()).unwrap();
                held.recv().unwrap();
                Ok(())
            })
        });
        begins.recv().unwrap();
        let mut asked = Vec::new();
        for work in works {
            asked.push(scope.spawn(move || fixture.transact(work)));
            while fixture.store.commit_stats().waiting < asked.len() as u64 {
                std::thread::yield_now();
            }
        }
        release.send(()).unwrap();
        holder.join().unwrap().unwrap();
        asked.into_iter().map(|work| work.join().unwrap()).collect()
    })
}

type TxWork = Box<dyn FnOnce(&mut Tx<'_>) -> Result<(), StoreError> + Send>;

fn create_work(slug: &'static str) -> TxWork {
    Box::new(move |tx| create_pipeline(tx, slug, tx.now()).map(drop))
}

/// A transaction that writes and then fails.
fn failing_work(slug: &'static str) -> TxWork {
    Box::new(move |tx| {
        create_pipeline(tx, slug, tx.now())?;
        Err(StoreError::Bug("on purpose".into()))
    })
}

#[test]
fn failed_job_is_undone_without_the_rest_of_its_batch() {
    let fixture = StoreFixture::on_sqlite();
    let refuses: TxWork = Box::new(|_| Err(StoreError::Bug("on purpose".into())));
    let answers = commit_together(
        &fixture,
        vec![create_work("one"), failing_work("two"), refuses, create_work("three")],
    );
    let kept: Vec<_> = answers.iter().map(Result::is_ok).collect();
    assert_eq!(kept, [true, false, false, true]);
    assert_eq!(["one", "two", "three"].map(|slug| pipeline_exists(&fixture, slug)), [true, false, true]);
    let head = fixture.transact(|tx| event::chain_head(tx)).unwrap();
    assert_eq!(head.sequence, 3, "the organization and the two committed jobs");
}

#[test]
fn access_generation_changes_with_permissions_only() {
    let fixture = StoreFixture::on_sqlite();
    let mark = |fixture: &StoreFixture| fixture.store.access_generation().unwrap().0;
    let before = mark(&fixture);
    fixture.transact(|tx| create_pipeline(tx, "shop", tx.now())).unwrap();
    assert_eq!(mark(&fixture), before);
    create_organization(&fixture.store, "globex");
    assert_ne!(mark(&fixture), before);
}

#[test]
fn concurrent_starts_migrate_once() {
    let place = DatabaseLocation::new();
    std::thread::scope(|scope| {
        for start in 0..4 {
            let place = &place;
            scope.spawn(move || {
                let store = place.open();
                create_organization(&store, &format!("org-{start}"));
            });
        }
    });
}

#[test]
fn reader_sees_acknowledged_writes() {
    let fixture = StoreFixture::new();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        for number in 0..50 {
            let slug = Slug::parse(&format!("p-{number}")).unwrap();
            let name = slug.to_string();
            let context = TxContext::system(Some(fixture.org));
            let made = fixture
                .store
                .transact(context, move |tx| create_pipeline(tx, &name, tx.now()))
                .await
                .unwrap();
            let read = fixture.store.read(Some(fixture.org), move |db| pipeline::by_slug(db, &slug));
            assert_eq!(read.await.unwrap().map(|found: state::Pipeline| found.id), Some(made.id));
        }
    });
}
