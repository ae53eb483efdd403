//! Fairness: a busy organization does not delay other organizations.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use berth_core::event::{EventKind, EventSubject, NewEvent};
use berth_core::id::{OrgId, RepositoryId};
use berth_core::repository::{RemoteUrl, Repository, RepositorySyncState};
use berth_engine::limits::DEFINITIONS_AT_ONCE;
use berth_server::jobs;
use berth_store::tables::{attempt, repository};
use berth_store::{StoreError, TxContext};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};

use super::at_work::AtWork;
use super::git::Origin;
use super::world::{Account, DEFINITION, POLL_EVERY, World, call, get, post};

/// Seconds between two syncs of a repository. The API does not allow such a short interval.
const POLL_S: u64 = 3;
/// Maximum time that the sync of a due repository may take on a busy machine, including the wait for its start.
const SYNC_MAX: Duration = Duration::from_secs(4);
const STALLING: usize = 1_000;
/// Timeout of every other wait.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server that accepts every connection and sends one byte per second.
struct Tarpit {
    port: u16,
    caught: Arc<AtomicUsize>,
}

impl Tarpit {
    async fn open() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let made = Self { port: listener.local_addr().unwrap().port(), caught: Arc::default() };
        let caught = made.caught.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                caught.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(drip(stream));
            }
        });
        made
    }

    fn url(&self, number: usize) -> RemoteUrl {
        RemoteUrl::parse(&format!("http://127.0.0.1:{}/{number}.git", self.port)).unwrap()
    }

    fn caught(&self) -> usize {
        self.caught.load(Ordering::Relaxed)
    }
}

async fn drip(mut stream: TcpStream) {
    for byte in b"HTTP/1.1 200 OK\r\nX-Slow: ".iter().chain(std::iter::repeat(&b'a')) {
        if stream.write_all(&[*byte]).await.is_err() {
            return;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

async fn org_of(world: &World, slug: &str, who: &Account) -> OrgId {
    let org = world.send(get(&format!("/api/v1/organizations/{slug}")).by(who)).await;
    org.body["data"]["id"].as_str().unwrap().parse().unwrap()
}

/// Registers repositories that are due for a sync, and returns the id of the last one.
async fn add_due(world: &World, org: OrgId, urls: Vec<RemoteUrl>) -> RepositoryId {
    let added = world.app.store().transact(TxContext::system(Some(org)), move |tx| {
        let mut last = None;
        for url in urls {
            let id = RepositoryId::from_parts(tx.now(), tx.entropy()?);
            let now = tx.now();
            let made = Repository {
                id,
                url,
                credential: None,
                poll_seconds: POLL_S.cast_signed(),
                seen: RepositorySyncState { due_at: Some(now), ..RepositorySyncState::default() },
                version: 1,
                created_at: now,
                updated_at: now,
                deleted_at: None,
            };
            repository::put(tx, &made)?;
            tx.record(NewEvent::new(
                EventKind::RepositoryCreated,
                EventSubject::new("repository", id, None),
            ))?;
            last = Some(id);
        }
        Ok::<_, StoreError>(last.unwrap())
    });
    added.await.unwrap()
}

/// Waits until `is_so` holds; panics after `limit`.
async fn within(limit: Duration, what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let waited = async {
        while !is_so().await {
            tokio::time::sleep(POLL_EVERY).await;
        }
    };
    assert!(tokio::time::timeout(limit, waited).await.is_ok(), "not within {limit:?}: {what}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stalling_repositories_delay_no_sync_of_another_organization() {
    let (world, tarpit) = (World::new().await, Tarpit::open().await);
    let globex = org_of(&world, "globex", &world.hank).await;
    add_due(&world, globex, (0..STALLING).map(|number| tarpit.url(number)).collect()).await;
    let at_work = AtWork::begin(&world.app);
    within(PATIENCE, "the first is stuck", async || tarpit.caught() > 0).await;

    let origin = Origin::new();
    origin.write(".berth/shop/pipeline.yaml", DEFINITION);
    let mut pushed = origin.commit("first");
    let acme = org_of(&world, "acme", &world.ada).await;
    let id = add_due(&world, acme, vec![origin.url()]).await;
    let path = format!("/api/v1/organizations/acme/repositories/{id}");
    for message in ["second", "third"] {
        // A push is seen by the next poll, which may be one interval late.
        within(2 * Duration::from_secs(POLL_S) + SYNC_MAX, "the push is seen", async || {
            let seen = world.send(get(&path).by(&world.ada)).await;
            seen.body["data"]["head"] == json!(pushed.as_str())
        })
        .await;
        pushed = origin.commit(message);
    }
    assert_eq!(tarpit.caught(), 1, "an organization has one sync at a time");
    at_work.end().await;
}

/// Number of waiting environments in each of two pipelines. Together, that is more than the server loads at once for an
/// organization.
const WAITING_ENVIRONMENTS: usize = 140;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deployments_of_a_stalling_repository_delay_no_other_organization() {
    let (world, tarpit) = (World::new().await, Tarpit::open().await);
    let origin = Origin::new();
    let environments: String =
        (0..WAITING_ENVIRONMENTS).map(|number| format!("    e-{number}: {{}}\n")).collect();
    let definition = DEFINITION.replace("    qa-1: {}\n", &environments);
    for slug in ["one", "two"] {
        origin.write(&format!(".berth/{slug}/pipeline.yaml"), &definition);
    }
    origin.commit("first");
    let theirs = "/api/v1/organizations/globex";
    let body = json!({"url": origin.url().as_str()});
    let made = world.send(post(&format!("{theirs}/repositories")).by(&world.hank).json(&body)).await;
    assert_eq!(made.status, 201, "{}", made.text);
    jobs::tick(world.app.jobs()).await.unwrap();
    let patch =
        call("PATCH", &format!("{theirs}/repositories/{}", made.body["data"]["id"].as_str().unwrap()));
    let moved = world.send(patch.by(&world.hank).json(&json!({"url": tarpit.url(0).as_str()}))).await;
    assert_eq!(moved.status, 200, "{}", moved.text);
    for slug in ["one", "two"] {
        for number in 0..WAITING_ENVIRONMENTS {
            let path = format!("{theirs}/pipelines/{slug}/ephemeral-environments/e-{number}/sessions");
            let claim = json!({"commitId": "main", "deploy": true});
            let claimed = world.send(post(&path).by(&world.hank).json(&claim)).await;
            assert_eq!(claimed.status, 201, "{}", claimed.text);
        }
    }

    let at_work = AtWork::begin(&world.app);
    within(PATIENCE, "the repository is stuck", async || tarpit.caught() > 0).await;
    world.pipeline("shop").await;
    let start = post("/api/v1/organizations/acme/pipelines/shop/ephemeral-environments/qa-1/sessions");
    let claimed =
        world.send(start.by(&world.ada).json(&json!({"commitId": "9fceb02", "deploy": true}))).await;
    assert_eq!(claimed.status, 201, "{}", claimed.text);
    let path = "/api/v1/organizations/acme/pipelines/shop/ephemeral-environments/qa-1";
    within(PATIENCE, "the deployment has succeeded", async || {
        let seen = world.send(get(path).by(&world.ada)).await;
        seen.body["data"]["deployedCommitId"] == json!("9fceb02")
    })
    .await;
    at_work.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn definition_validation_is_shared_among_organizations() {
    let world = Arc::new(World::new().await);
    let steps: String = (0..450).map(|number| format!("    - {{name: S{number}, type: dummy}}\n")).collect();
    let large = DEFINITION.replace("    - name: Deploy\n      type: dummy\n", &steps);
    let validate = |slug: &str, who: &Account, definition: &str| {
        let path = format!("/api/v1/organizations/{slug}/pipelines/validate");
        post(&path).by(who).json(&json!({"definition": definition}))
    };
    let refused = Arc::new(AtomicUsize::new(0));
    let flood: Vec<_> = (0..400)
        .map(|_| {
            let (world, refused) = (world.clone(), refused.clone());
            let sent = validate("globex", &world.hank, &large);
            tokio::spawn(async move {
                let status = world.send(sent).await.status;
                refused.fetch_add(usize::from(status == 503), Ordering::Relaxed);
                status
            })
        })
        .collect();
    within(PATIENCE, "their share of the queue is full", async || refused.load(Ordering::Relaxed) > 0).await;
    for _ in 0..5 {
        let reply = world.send(validate("acme", &world.ada, DEFINITION)).await;
        assert_eq!((reply.status.as_u16(), &reply.body["data"]["valid"]), (200, &Value::Bool(true)));
    }
    let mut done = 0;
    for one in flood {
        done += usize::from(one.await.unwrap() == 200);
    }
    assert!(done >= DEFINITIONS_AT_ONCE.share, "the share is used");
}

/// Number of slots of the runner.
const PLACES: usize = 4;
/// Number of long steps, which is more than there are slots.
const LONG_STEPS: usize = 8;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runner_slots_are_shared_among_organizations() {
    let world = World::new().await;
    let environments: String = (0..LONG_STEPS).map(|number| format!("    e-{number}: {{}}\n")).collect();
    let step = "    - name: Deploy\n      type: script\n      params: { run: sleep 600 }\n";
    let definition = DEFINITION
        .replace("    qa-1: {}\n", &environments)
        .replace("    - name: Deploy\n      type: dummy\n", step);
    let theirs = "/api/v1/organizations/globex";
    let body = json!({"slug": "long", "definition": definition});
    let made = world.send(post(&format!("{theirs}/pipelines")).by(&world.hank).json(&body)).await;
    assert_eq!(made.status, 201, "{}", made.text);
    for number in 0..LONG_STEPS {
        let path = format!("{theirs}/pipelines/long/ephemeral-environments/e-{number}/sessions");
        let claim = json!({"commitId": "9fceb02", "deploy": true});
        assert_eq!(world.send(post(&path).by(&world.hank).json(&claim)).await.status, 201);
    }
    let at_work = AtWork::begin(&world.app);
    let running = async || {
        let live = world.app.store().read(None, |db| attempt::list_live(db, 100));
        live.await.unwrap().len()
    };
    let share = PLACES - PLACES / 4;
    within(PATIENCE, "their share of the places is taken", async || running().await >= share).await;

    world.pipeline("shop").await;
    let path = "/api/v1/organizations/acme/pipelines/shop/ephemeral-environments/qa-1";
    let claim = json!({"commitId": "9fceb02", "deploy": true});
    let claimed = world.send(post(&format!("{path}/sessions")).by(&world.ada).json(&claim)).await;
    assert_eq!(claimed.status, 201, "{}", claimed.text);
    within(PATIENCE, "the deployment has succeeded", async || {
        let seen = world.send(get(path).by(&world.ada)).await;
        seen.body["data"]["deployedCommitId"] == json!("9fceb02")
    })
    .await;
    assert_eq!(running().await, share);
    at_work.end().await;
}
