//! A server in this process that has a list of a given length.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};
use berth_core::name::{Email, Slug};
use berth_engine::vault::{SecretVault, WhenMissing};
use berth_server::app::App;
use berth_server::auth::passwords::PasswordCost;
use berth_server::config::AppConfig;
use berth_server::error::AppError;
use berth_server::serve::serve;
use berth_server::setup::create_organization;
use berth_store::Store;
use berth_store::data_dir::DataDir;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::data;
use crate::load::ServerTarget;

pub(crate) struct ListSite {
    pub(crate) rows: usize,
    pub(crate) target: ServerTarget,
    /// API path of the list.
    pub(crate) list: String,
    pub(crate) filled_in: Duration,
    pub(crate) bytes: u64,
    app: Arc<App>,
    thread: Option<JoinHandle<()>>,
    _dir: DataDir,
}

impl ListSite {
    /// Fills a new data directory inside `place` and serves it.
    pub(crate) fn open(place: &Path, rows: usize) -> anyhow::Result<Self> {
        let dir = DataDir::open(&place.join(rows.to_string()))?;
        let store = Store::open_sqlite(&dir.database())?;
        let created = create_organization(
            &store,
            Slug::parse("acme")?,
            Email::parse("ada@acme.test")?,
            PasswordCost::default(),
        )
        .map_err(to_anyhow)?;
        let start = Instant::now();
        data::create_pipelines(&store, created.org.id, rows)?;
        let filled_in = start.elapsed();
        let bytes = std::fs::metadata(dir.database())?.len();

        let vault = SecretVault::open(&store, &dir.path().join("root.key"), WhenMissing::Create)?;
        let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let config =
            AppConfig { data_dir: dir.path().to_owned(), rate_limit: false, ..AppConfig::local(listen) };
        let app = Arc::new(App::new(store, vault, config, CancellationToken::new()));
        let (thread, address) = serve_on_a_thread(app.clone())?;
        let target = ServerTarget { address, token: created.token.reveal().to_owned() };
        let list = format!("/api/v1/organizations/{}/pipelines", created.org.id);
        Ok(Self { rows, target, list, filled_in, bytes, app, thread: Some(thread), _dir: dir })
    }
}

impl Drop for ListSite {
    fn drop(&mut self) {
        self.app.services().shutdown.cancel();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Serves on a thread with its own runtime, like `berth serve`.
pub(crate) fn serve_on_a_thread(app: Arc<App>) -> anyhow::Result<(JoinHandle<()>, SocketAddr)> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let (tell, told) = mpsc::channel();
    let thread = std::thread::Builder::new().name("site".into()).spawn(move || {
        runtime.block_on(async move {
            let bound = TcpListener::bind(app.config().listen).await;
            let bound = bound.and_then(|listener| listener.local_addr().map(|address| (listener, address)));
            match bound {
                Err(error) => drop(tell.send(Err(error))),
                Ok((listener, address)) => {
                    if tell.send(Ok(address)).is_ok() {
                        serve(app, listener).await;
                    }
                }
            }
        });
    })?;
    let address = told.recv().context("the server ended at once")?.context("cannot listen on loopback")?;
    Ok((thread, address))
}

pub(crate) fn to_anyhow(error: AppError) -> anyhow::Error {
    anyhow!(error.into_problem().detail)
}
