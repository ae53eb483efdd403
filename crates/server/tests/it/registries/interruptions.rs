//! What happens if the server is killed or stopped during a build, or the registry is changed.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use berth_engine::vault::{SecretVault, WhenMissing};
use berth_server::app::App;
use berth_server::config::AppConfig;
use berth_server::http::HttpService;
use berth_server::jobs::registry_builds::{BuildError, BuildOutput, BuildRequest, RegistryBuilder};
use berth_testkit::ScratchDatabase;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::super::builder::RunnerRegistryBuilder;
use super::super::git::PATIENCE;
use super::super::world::{MemberAccount, TestWorld, open_store};
use super::*;

/// Restarts the server on the same data directory, with this builder.
async fn restart_server(world: TestWorld, builder: impl RegistryBuilder + 'static) -> TestWorld {
    let TestWorld { edge, app, ada, hank, dir, postgres } = world;
    drop((edge, app));
    let (path, url) = (dir.path().to_owned(), postgres.as_ref().map(ScratchDatabase::url));
    let opened = tokio::task::spawn_blocking(move || {
        let store = open_store(&path, url.as_deref());
        let vault = SecretVault::open(&store, &path.join("root.key"), WhenMissing::Create).unwrap();
        let config = AppConfig::local(([127, 0, 0, 1], 8080).into());
        App::new(
            store,
            vault,
            AppConfig { own_dir: path.clone(), data_dir: path, ..config },
            CancellationToken::new(),
        )
    });
    let app = Arc::new(opened.await.unwrap().with_builder(Arc::new(builder)));
    TestWorld { edge: HttpService::new(app.clone()), app, ada, hank, dir, postgres }
}

/// A builder that keeps building until the server stops.
#[derive(Default)]
struct EndlessBuilder(AtomicUsize);

impl RegistryBuilder for EndlessBuilder {
    fn build(
        &self,
        request: &BuildRequest<'_>,
        log: &mut dyn FnMut(&[u8]),
    ) -> Result<BuildOutput, BuildError> {
        self.0.fetch_add(1, Ordering::SeqCst);
        log(b"half of it\n");
        while !(request.is_stopping)() {
            std::thread::park_timeout(crate::world::POLL_EVERY);
        }
        Err(BuildError::Stopped)
    }

    fn clear(&self, dir: &Path) {
        berth_runner::remove_tree(dir);
    }
}

#[tokio::test]
async fn registry_build_interrupted_by_shutdown_is_repeated() {
    let world = TestWorld::new().await;
    let builder = Arc::new(EndlessBuilder::default());
    let world = restart_server(world, SharedBuilder(builder.clone())).await;
    let origin = create_origin(&["deploy"]);
    add_registry(&world, "tools", &origin).await;
    let app = world.app.clone();
    let running = tokio::spawn(async move { Box::pin(jobs::run(app.jobs().clone())).await });
    let begun = async {
        while read_registry(&world, "tools").await["status"] != "building"
            || builder.0.load(Ordering::SeqCst) == 0
        {
            tokio::time::sleep(crate::world::POLL_EVERY).await;
        }
    };
    tokio::time::timeout(PATIENCE, begun).await.unwrap();
    let seen = read_registry(&world, "tools/builds/1/logs").await;
    assert_eq!(seen["complete"], false);
    world.app.services().shutdown.cancel();
    running.await.unwrap();
    // The end of the build was not recorded, as if the server had been killed.
    assert_eq!(read_registry(&world, "tools").await["status"], "building");

    let world = restart_server(world, RunnerRegistryBuilder::without_sandbox()).await;
    jobs::tick(world.app.jobs()).await.unwrap();
    let seen = read_registry(&world, "tools").await;
    assert_eq!((&seen["status"], &seen["lastGood"]["build"]), (&json!("ready"), &json!(2)));
    let builds = read_registry(&world, "tools/builds").await;
    assert_eq!(
        (&builds[0]["status"], &builds[1]["status"], &builds[1]["error"]),
        (
            &json!("succeeded"),
            &json!("interrupted"),
            &json!("the server stopped during the build; it will be built again")
        )
    );
}

struct SharedBuilder(Arc<EndlessBuilder>);

impl RegistryBuilder for SharedBuilder {
    fn build(
        &self,
        request: &BuildRequest<'_>,
        log: &mut dyn FnMut(&[u8]),
    ) -> Result<BuildOutput, BuildError> {
        self.0.build(request, log)
    }

    fn clear(&self, dir: &Path) {
        self.0.clear(dir);
    }
}

/// A builder that fails every build immediately.
struct FailingBuilder;

impl RegistryBuilder for FailingBuilder {
    fn build(&self, _: &BuildRequest<'_>, log: &mut dyn FnMut(&[u8])) -> Result<BuildOutput, BuildError> {
        log(b"no\n");
        Err(BuildError::Failed("never".into()))
    }

    fn clear(&self, dir: &Path) {
        berth_runner::remove_tree(dir);
    }
}

#[tokio::test]
async fn registry_build_retention_keeps_the_newest() {
    let world = restart_server(TestWorld::new().await, FailingBuilder).await;
    let origin = create_origin(&["deploy"]);
    add_and_build(&world, "tools", &origin).await;
    let kept = berth_server::limits::BUILDS_KEPT_MAX;
    for _ in 0..=kept {
        sync_registry(&world, "tools").await;
    }
    let builds = get_registry(&world, "tools/builds?limit=200").await.body;
    let last = &builds["data"][usize::try_from(kept).unwrap() - 1];
    assert_eq!((&builds["pagination"]["total"], &last["number"]), (&json!(kept), &json!(3)));
    get_registry(&world, "tools/builds/2/logs").await.assert_problem(404, "not_found");
    assert!(read_build_log(&world, "tools", 3).await.contains("failed: never"));
    let id = read_registry(&world, "tools").await["id"].as_str().unwrap().to_owned();
    let org = super::super::audit_export::acme_org_id(&world).await;
    let logs = world.dir.path().join(format!("registries/logs/{org}/{id}"));
    assert_eq!(std::fs::read_dir(&logs).unwrap().count(), usize::try_from(kept).unwrap());
    let gone = call("DELETE", &format!("{REGISTRIES}/tools"));
    assert_eq!(world.send(gone.with_account(&world.ada)).await.status, 200);
    assert!(!logs.exists());
}

/// A builder that sends an API request during its first build and then builds normally.
struct RequestingBuilder {
    inner: RunnerRegistryBuilder,
    on_first_build: std::sync::Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl RegistryBuilder for RequestingBuilder {
    fn build(
        &self,
        request: &BuildRequest<'_>,
        log: &mut dyn FnMut(&[u8]),
    ) -> Result<BuildOutput, BuildError> {
        if let Some(happens) = self.on_first_build.lock().unwrap().take() {
            happens();
        }
        self.inner.build(request, log)
    }

    fn clear(&self, dir: &Path) {
        self.inner.clear(dir);
    }
}

/// Creates a server that receives this request during its first build.
async fn with_request(request: impl Fn(&MemberAccount) -> TestRequest + Send + 'static) -> TestWorld {
    let world = TestWorld::new().await;
    let (send, asked) = std::sync::mpsc::channel::<std::sync::mpsc::Sender<()>>();
    let happens = Box::new(move || {
        let (done, wait) = std::sync::mpsc::channel();
        send.send(done).unwrap();
        wait.recv().unwrap();
    });
    let inner = RunnerRegistryBuilder::without_sandbox();
    let world = restart_server(
        world,
        RequestingBuilder { inner, on_first_build: std::sync::Mutex::new(Some(happens)) },
    )
    .await;
    let (app, ada) = (world.app.clone(), world.ada.clone());
    let runtime = tokio::runtime::Handle::current();
    std::thread::spawn(move || {
        let Ok(done) = asked.recv() else { return };
        let edge = HttpService::new(app);
        let reply = runtime.block_on(edge.handle_request(request(&ada).0, [127, 0, 0, 1].into()));
        assert!(reply.status().is_success(), "{}", reply.status());
        done.send(()).unwrap();
    });
    world
}

#[tokio::test(flavor = "multi_thread")]
async fn registry_ref_changed_during_a_build_is_built_next() {
    let world = with_request(|ada| patch("tools").with_account(ada).json(&json!({"ref": "v1"}))).await;
    let origin = create_origin(&["deploy"]);
    let first = origin.git(&["rev-parse", "HEAD"]);
    origin.git(&["tag", "v1"]);
    write_registry(&origin, &["deploy", "check"]);
    let second = origin.commit("second").to_string();
    add_and_build(&world, "tools", &origin).await;
    let seen = read_registry(&world, "tools").await;
    assert_eq!((&seen["status"], &seen["lastGood"]["commit"]), (&json!("ready"), &json!(first)));
    // The build was superseded, but it still produced a version.
    let full: &'static str = format!("tools/check@{second}").leak();
    assert_eq!(resolve_step_type(&world, full).await, format!("{second} check"));
}

#[tokio::test(flavor = "multi_thread")]
async fn registry_removed_during_a_build_stays_removed() {
    let world = with_request(|ada| call("DELETE", &format!("{REGISTRIES}/tools")).with_account(ada)).await;
    add_and_build(&world, "tools", &create_origin(&["deploy"])).await;
    get_registry(&world, "tools").await.assert_problem(404, "not_found");
    assert_eq!(registry_event_kinds(&world).await, ["registry_created", "registry_deleted"]);
    jobs::tick(world.app.jobs()).await.unwrap();
}
