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

use super::git::OriginRepository;
use super::jobs_with_runner::JobsWithRunner;
use super::world::{DEFINITION, MemberAccount, POLL_EVERY, TestWorld, call, get, post};

/// Seconds between two syncs of a repository. The API does not allow such a short interval.
const POLL_S: u64 = 3;
/// Maximum time that the sync of a due repository may take on a busy machine, including the wait for its start.
const SYNC_MAX: Duration = Duration::from_secs(4);
const STALLING_REPOSITORIES: usize = 1_000;
/// Timeout of every other wait.
const PATIENCE: Duration = Duration::from_secs(120);

/// A server that accepts every connection and sends one byte per second.
struct TarpitServer {
    port: u16,
    connections: Arc<AtomicUsize>,
}

impl TarpitServer {
    async fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let made = Self { port: listener.local_addr().unwrap().port(), connections: Arc::default() };
        let connections = made.connections.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                connections.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(send_slowly(stream));
            }
        });
        made
    }

    fn url(&self, number: usize) -> RemoteUrl {
        RemoteUrl::parse(&format!("http://127.0.0.1:{}/{number}.git", self.port)).unwrap()
    }

    fn connection_count(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

async fn send_slowly(mut stream: TcpStream) {
    for byte in b"HTTP/1.1 200 OK\r\nX-Slow: ".iter().chain(std::iter::repeat(&b'a')) {
        if stream.write_all(&[*byte]).await.is_err() {
            return;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

async fn find_org(world: &TestWorld, slug: &str, who: &MemberAccount) -> OrgId {
    let org = world.send(get(&format!("/api/v1/organizations/{slug}")).with_account(who)).await;
    org.body["data"]["id"].as_str().unwrap().parse().unwrap()
}

/// Registers repositories that are due for a sync, and returns the id of the last one.
async fn register_due_repositories(world: &TestWorld, org: OrgId, urls: Vec<RemoteUrl>) -> RepositoryId {
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
                is_partial: false,
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
async fn wait_until(limit: Duration, what: &str, mut is_met: impl AsyncFnMut() -> bool) {
    let waited = async {
        while !is_met().await {
            tokio::time::sleep(POLL_EVERY).await;
        }
    };
    assert!(tokio::time::timeout(limit, waited).await.is_ok(), "not within {limit:?}: {what}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stalling_repositories_delay_no_sync_of_another_organization() {
    let (world, tarpit) = (TestWorld::new().await, TarpitServer::start().await);
    let globex = find_org(&world, "globex", &world.hank).await;
    register_due_repositories(
        &world,
        globex,
        (0..STALLING_REPOSITORIES).map(|number| tarpit.url(number)).collect(),
    )
    .await;
    let running_jobs = JobsWithRunner::start(&world.app);
    wait_until(PATIENCE, "the first is stuck", async || tarpit.connection_count() > 0).await;

    let origin = OriginRepository::new();
    origin.write(".berth/shop/pipeline.yaml", DEFINITION);
    let mut pushed = origin.commit("first");
    let acme = find_org(&world, "acme", &world.ada).await;
    let id = register_due_repositories(&world, acme, vec![origin.url()]).await;
    let path = format!("/api/v1/organizations/acme/repositories/{id}");
    for message in ["second", "third"] {
        // A push is seen by the next poll, which may be one interval late.
        wait_until(2 * Duration::from_secs(POLL_S) + SYNC_MAX, "the push is seen", async || {
            let seen = world.send(get(&path).with_account(&world.ada)).await;
            seen.body["data"]["head"] == json!(pushed.as_str())
        })
        .await;
        pushed = origin.commit(message);
    }
    assert_eq!(tarpit.connection_count(), 1, "an organization has one sync at a time");
    running_jobs.shut_down().await;
}

/// Number of waiting environments in each of two pipelines. Together, that is more than the server loads at once for an
/// organization.
const WAITING_ENVIRONMENTS: usize = 140;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deployments_of_a_stalling_repository_delay_no_other_organization() {
    let (world, tarpit) = (TestWorld::new().await, TarpitServer::start().await);
    let origin = OriginRepository::new();
    let environments: String =
        (0..WAITING_ENVIRONMENTS).map(|number| format!("    e-{number}: {{}}\n")).collect();
    let definition = DEFINITION.replace("    qa-1: {}\n", &environments);
    for slug in ["one", "two"] {
        origin.write(&format!(".berth/{slug}/pipeline.yaml"), &definition);
    }
    origin.commit("first");
    let theirs = "/api/v1/organizations/globex";
    let body = json!({"url": origin.url().as_str()});
    let made =
        world.send(post(&format!("{theirs}/repositories")).with_account(&world.hank).json(&body)).await;
    assert_eq!(made.status, 201, "{}", made.text);
    jobs::tick(world.app.jobs()).await.unwrap();
    let patch =
        call("PATCH", &format!("{theirs}/repositories/{}", made.body["data"]["id"].as_str().unwrap()));
    let moved =
        world.send(patch.with_account(&world.hank).json(&json!({"url": tarpit.url(0).as_str()}))).await;
    assert_eq!(moved.status, 200, "{}", moved.text);
    for slug in ["one", "two"] {
        for number in 0..WAITING_ENVIRONMENTS {
            let path = format!("{theirs}/pipelines/{slug}/ephemeral-environments/e-{number}/sessions");
            let claim = json!({"commitId": "main", "deploy": true});
            let claimed = world.send(post(&path).with_account(&world.hank).json(&claim)).await;
            assert_eq!(claimed.status, 201, "{}", claimed.text);
        }
    }

    let running_jobs = JobsWithRunner::start(&world.app);
    wait_until(PATIENCE, "the repository is stuck", async || tarpit.connection_count() > 0).await;
    world.create_pipeline("shop").await;
    let start = post("/api/v1/organizations/acme/pipelines/shop/ephemeral-environments/qa-1/sessions");
    let claimed = world
        .send(start.with_account(&world.ada).json(&json!({"commitId": "9fceb02", "deploy": true})))
        .await;
    assert_eq!(claimed.status, 201, "{}", claimed.text);
    let path = "/api/v1/organizations/acme/pipelines/shop/ephemeral-environments/qa-1";
    wait_until(PATIENCE, "the deployment has succeeded", async || {
        let seen = world.send(get(path).with_account(&world.ada)).await;
        seen.body["data"]["deployedCommitId"] == json!("9fceb02")
    })
    .await;
    running_jobs.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn definition_validation_is_shared_among_organizations() {
    let world = Arc::new(TestWorld::new().await);
    let steps: String = (0..450).map(|number| format!("    - {{name: S{number}, type: dummy}}\n")).collect();
    let large = DEFINITION.replace("    - name: Deploy\n      type: dummy\n", &steps);
    let validate = |slug: &str, who: &MemberAccount, definition: &str| {
        let path = format!("/api/v1/organizations/{slug}/pipelines/validate");
        post(&path).with_account(who).json(&json!({"definition": definition}))
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
    wait_until(PATIENCE, "their share of the queue is full", async || refused.load(Ordering::Relaxed) > 0)
        .await;
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
const RUNNER_SLOTS: usize = 4;
/// Number of long steps, which is more than there are slots.
const LONG_STEPS: usize = 8;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runner_slots_are_shared_among_organizations() {
    let world = TestWorld::new().await;
    let environments: String = (0..LONG_STEPS).map(|number| format!("    e-{number}: {{}}\n")).collect();
    let step = "    - name: Deploy\n      type: script\n      params: { run: sleep 600 }\n";
    let definition = DEFINITION
        .replace("    qa-1: {}\n", &environments)
        .replace("    - name: Deploy\n      type: dummy\n", step);
    let theirs = "/api/v1/organizations/globex";
    let body = json!({"slug": "long", "definition": definition});
    let made = world.send(post(&format!("{theirs}/pipelines")).with_account(&world.hank).json(&body)).await;
    assert_eq!(made.status, 201, "{}", made.text);
    for number in 0..LONG_STEPS {
        let path = format!("{theirs}/pipelines/long/ephemeral-environments/e-{number}/sessions");
        let claim = json!({"commitId": "9fceb02", "deploy": true});
        assert_eq!(world.send(post(&path).with_account(&world.hank).json(&claim)).await.status, 201);
    }
    let running_jobs = JobsWithRunner::start(&world.app);
    let running = async || {
        let live = world.app.store().read(None, |db| attempt::list_live(db, 100));
        live.await.unwrap().len()
    };
    let share = RUNNER_SLOTS - RUNNER_SLOTS / 4;
    wait_until(PATIENCE, "their share of the places is taken", async || running().await >= share).await;

    world.create_pipeline("shop").await;
    let path = "/api/v1/organizations/acme/pipelines/shop/ephemeral-environments/qa-1";
    let claim = json!({"commitId": "9fceb02", "deploy": true});
    let claimed = world.send(post(&format!("{path}/sessions")).with_account(&world.ada).json(&claim)).await;
    assert_eq!(claimed.status, 201, "{}", claimed.text);
    wait_until(PATIENCE, "the deployment has succeeded", async || {
        let seen = world.send(get(path).with_account(&world.ada)).await;
        seen.body["data"]["deployedCommitId"] == json!("9fceb02")
    })
    .await;
    assert_eq!(running().await, share);
    running_jobs.shut_down().await;
}
