//! What happens if the server is killed or stopped during a build, or the registry is changed.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use berth_engine::vault::{SecretVault, WhenMissing};
use berth_server::app::App;
use berth_server::config::AppConfig;
use berth_server::http::HttpService;
use berth_server::jobs::registry_builds::{BuildError, BuildOutput, BuildRequest, RegistryBuilder};
use berth_testkit::Scratch;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::super::builder::InSandbox;
use super::super::git::PATIENCE;
use super::super::world::{Account, World, open_store};
use super::*;

/// Restarts the server on the same data directory, with this builder.
async fn opened_again(world: World, builder: impl RegistryBuilder + 'static) -> World {
    let World { edge, app, ada, hank, dir, postgres } = world;
    drop((edge, app));
    let (path, url) = (dir.path().to_owned(), postgres.as_ref().map(Scratch::url));
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
    World { edge: HttpService::new(app.clone()), app, ada, hank, dir, postgres }
}

/// A builder that keeps building until the server stops.
#[derive(Default)]
struct Endless(AtomicUsize);

impl RegistryBuilder for Endless {
    fn build(&self, asked: &BuildRequest<'_>, log: &mut dyn FnMut(&[u8])) -> Result<BuildOutput, BuildError> {
        self.0.fetch_add(1, Ordering::SeqCst);
        log(b"half of it\n");
        while !(asked.is_stopping)() {
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
    let world = World::new().await;
    let builder = Arc::new(Endless::default());
    let world = opened_again(world, Shared(builder.clone())).await;
    let origin = origin(&["deploy"]);
    add(&world, "tools", &origin).await;
    let app = world.app.clone();
    let running = tokio::spawn(async move { jobs::run(app.jobs().clone()).await });
    let begun = async {
        while view(&world, "tools").await["status"] != "building" || builder.0.load(Ordering::SeqCst) == 0 {
            tokio::time::sleep(crate::world::POLL_EVERY).await;
        }
    };
    tokio::time::timeout(PATIENCE, begun).await.unwrap();
    let seen = view(&world, "tools/builds/1/logs").await;
    assert_eq!(seen["complete"], false);
    world.app.services().shutdown.cancel();
    running.await.unwrap();
    // The end of the build was not recorded, as if the server had been killed.
    assert_eq!(view(&world, "tools").await["status"], "building");

    let world = opened_again(world, InSandbox::off()).await;
    jobs::tick(world.app.jobs()).await.unwrap();
    let seen = view(&world, "tools").await;
    assert_eq!((&seen["status"], &seen["lastGood"]["build"]), (&json!("ready"), &json!(2)));
    let builds = view(&world, "tools/builds").await;
    assert_eq!(
        (&builds[0]["status"], &builds[1]["status"], &builds[1]["error"]),
        (
            &json!("succeeded"),
            &json!("interrupted"),
            &json!("the server stopped during the build; it will be built again")
        )
    );
}

struct Shared(Arc<Endless>);

impl RegistryBuilder for Shared {
    fn build(&self, asked: &BuildRequest<'_>, log: &mut dyn FnMut(&[u8])) -> Result<BuildOutput, BuildError> {
        self.0.build(asked, log)
    }

    fn clear(&self, dir: &Path) {
        self.0.clear(dir);
    }
}

/// A builder that fails every build immediately.
struct Refusing;

impl RegistryBuilder for Refusing {
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
    let world = opened_again(World::new().await, Refusing).await;
    let origin = origin(&["deploy"]);
    added(&world, "tools", &origin).await;
    let kept = berth_server::limits::BUILDS_KEPT_MAX;
    for _ in 0..=kept {
        sync(&world, "tools").await;
    }
    let builds = ask(&world, "tools/builds?limit=200").await.body;
    let last = &builds["data"][usize::try_from(kept).unwrap() - 1];
    assert_eq!((&builds["pagination"]["total"], &last["number"]), (&json!(kept), &json!(3)));
    ask(&world, "tools/builds/2/logs").await.is(404, "not_found");
    assert!(log(&world, "tools", 3).await.contains("failed: never"));
    let id = view(&world, "tools").await["id"].as_str().unwrap().to_owned();
    let org = super::super::history::org(&world).await;
    let logs = world.dir.path().join(format!("registries/logs/{org}/{id}"));
    assert_eq!(std::fs::read_dir(&logs).unwrap().count(), usize::try_from(kept).unwrap());
    let gone = call("DELETE", &format!("{REGISTRIES}/tools"));
    assert_eq!(world.send(gone.by(&world.ada)).await.status, 200);
    assert!(!logs.exists());
}

/// A builder that sends an API request during its first build and then builds normally.
struct Meanwhile {
    inner: InSandbox,
    happens: std::sync::Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl RegistryBuilder for Meanwhile {
    fn build(&self, asked: &BuildRequest<'_>, log: &mut dyn FnMut(&[u8])) -> Result<BuildOutput, BuildError> {
        if let Some(happens) = self.happens.lock().unwrap().take() {
            happens();
        }
        self.inner.build(asked, log)
    }

    fn clear(&self, dir: &Path) {
        self.inner.clear(dir);
    }
}

/// Creates a server that receives this request during its first build.
async fn with_request(request: impl Fn(&Account) -> Call + Send + 'static) -> World {
    let world = World::new().await;
    let (send, asked) = std::sync::mpsc::channel::<std::sync::mpsc::Sender<()>>();
    let happens = Box::new(move || {
        let (done, wait) = std::sync::mpsc::channel();
        send.send(done).unwrap();
        wait.recv().unwrap();
    });
    let inner = InSandbox::off();
    let world = opened_again(world, Meanwhile { inner, happens: std::sync::Mutex::new(Some(happens)) }).await;
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
    let world = with_request(|ada| patch("tools").by(ada).json(&json!({"ref": "v1"}))).await;
    let origin = origin(&["deploy"]);
    let first = origin.git(&["rev-parse", "HEAD"]);
    origin.git(&["tag", "v1"]);
    write(&origin, &["deploy", "check"]);
    let second = origin.commit("second").to_string();
    added(&world, "tools", &origin).await;
    let seen = view(&world, "tools").await;
    assert_eq!((&seen["status"], &seen["lastGood"]["commit"]), (&json!("ready"), &json!(first)));
    // The build was superseded, but it still produced a version.
    let full: &'static str = format!("tools/check@{second}").leak();
    assert_eq!(offered(&world, full).await, format!("{second} check"));
}

#[tokio::test(flavor = "multi_thread")]
async fn registry_removed_during_a_build_stays_removed() {
    let world = with_request(|ada| call("DELETE", &format!("{REGISTRIES}/tools")).by(ada)).await;
    added(&world, "tools", &origin(&["deploy"])).await;
    ask(&world, "tools").await.is(404, "not_found");
    assert_eq!(told(&world).await, ["registry_created", "registry_deleted"]);
    jobs::tick(world.app.jobs()).await.unwrap();
}
