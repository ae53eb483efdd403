//! Parses the address of a PostgreSQL database and connects to it.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use ::postgres::{Client, NoTls};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::{ClientConfig, RootCertStore};
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::pipeline::PipelineClient;
use crate::error::{OpenError, StoreError};

const CONNECT_MAX: Duration = Duration::from_secs(5);
/// Time limit for connecting, authenticating and configuring the connection.
const GREETING_MAX: Duration = Duration::from_secs(8);
/// Maximum number of threads that may be waiting for a database server that accepts connections but does not respond.
const SILENT_MAX: usize = 64;
/// TCP user timeout: closes the connection if the peer stops acknowledging packets.
const SILENCE_MAX: Duration = Duration::from_secs(30);
const KEEPALIVE_IDLE: Duration = Duration::from_secs(10);
const KEEPALIVE_EVERY: Duration = Duration::from_secs(5);

#[derive(Clone)]
pub(super) struct PostgresAddress {
    config: Config,
    /// `None` if the URL contains `sslmode=disable`.
    tls: Option<MakeRustlsConnect>,
    /// The address without user and password, for use in messages.
    shown: String,
    /// Number of threads that are still waiting for a response although their callers have given up.
    silent: Arc<AtomicUsize>,
    /// Number of times that a thread has waited for a result, on all connections of writers and readers.
    round_trips: Arc<AtomicU64>,
}

/// Why connecting failed.
#[derive(Debug)]
pub(super) enum ConnectError {
    Refused(::postgres::Error),
    NoRuntime(std::io::Error),
    Silent,
    /// [`SILENT_MAX`] threads are already waiting for a response.
    TooSilent,
}

impl From<::postgres::Error> for ConnectError {
    fn from(error: ::postgres::Error) -> Self {
        Self::Refused(error)
    }
}

impl ConnectError {
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Refused(error) => error_chain(error),
            Self::NoRuntime(error) => format!("no event loop can be created: {error}"),
            Self::Silent => {
                format!("it accepts connections but does not respond within {} s", GREETING_MAX.as_secs())
            }
            Self::TooSilent => {
                format!("{SILENT_MAX} connections to it are waiting for a response; restart it or resume it")
            }
        }
    }
}

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConnectionPurpose {
    Write,
    Read,
    /// For LISTEN and NOTIFY.
    Listen,
}

impl ConnectionPurpose {
    /// Timeouts that PostgreSQL enforces. Because of them, a process that is suspended inside a transaction loses its
    /// locks. A COMMIT has no timeout.
    const fn settings(self) -> &'static str {
        match self {
            ConnectionPurpose::Write => {
                "SET lock_timeout = '10s'; SET idle_in_transaction_session_timeout = '30s'; SET statement_timeout = 0"
            }
            ConnectionPurpose::Read => {
                "SET statement_timeout = '5s'; SET idle_in_transaction_session_timeout = '30s'"
            }
            ConnectionPurpose::Listen => "SET statement_timeout = '5s'",
        }
    }
}

/// Makes commits durable. This is set in every session, so that later changes to the server's configuration have no
/// effect.
const SETTINGS: &str = "SET client_min_messages = warning;
    SELECT set_config('synchronous_commit',
        CASE current_setting('synchronous_commit') WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, false)";

/// Whether connections to the host leave this machine.
fn is_remote(host: &Host) -> bool {
    match host {
        Host::Tcp(name) => {
            let address = name.trim_matches(['[', ']']).parse::<IpAddr>();
            name != "localhost" && !address.is_ok_and(|address| address.is_loopback())
        }
        Host::Unix(_) => false,
    }
}

impl PostgresAddress {
    pub(super) fn parse(url: &str) -> Result<Self, OpenError> {
        if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
            let text =
                "the database must be a URL like postgres://user@host:5432/name; leave it out for SQLite";
            return Err(OpenError::Refused(text.into()));
        }
        // The error message may quote part of the URL, including the password.
        let read = url.parse::<Config>().map_err(|error| error.to_string());
        let mut config = read.map_err(|why| {
            OpenError::Refused(format!("the database URL is invalid: {}", redact_password(url, &why)))
        })?;
        let has_at = |host: &Host| matches!(host, Host::Tcp(name) if name.contains('@'));
        if config.get_hosts().iter().any(has_at) {
            // Otherwise the part of the password after the first `@` would be parsed and shown as the host.
            let text = "the database URL has two @: write an @ in a password as %40";
            return Err(OpenError::Refused(text.into()));
        }
        config
            .application_name("berth")
            .connect_timeout(CONNECT_MAX)
            .tcp_user_timeout(SILENCE_MAX)
            .keepalives_idle(KEEPALIVE_IDLE)
            .keepalives_interval(KEEPALIVE_EVERY)
            // Connects to the primary only, because reads must see every acknowledged write.
            .target_session_attrs(TargetSessionAttrs::ReadWrite);
        // The default, `sslmode=prefer`, would allow an attacker on the network to disable TLS.
        if !url.contains("sslmode=") && config.get_hosts().iter().any(is_remote) {
            config.ssl_mode(SslMode::Require);
        }
        let tls = (config.get_ssl_mode() != SslMode::Disable).then(system_tls);
        let shown = format_address(&config);
        Ok(Self { config, tls, shown, silent: Arc::default(), round_trips: Arc::default() })
    }

    pub(super) fn display_address(&self) -> &str {
        &self.shown
    }

    pub(super) fn round_trips(&self) -> Arc<AtomicU64> {
        self.round_trips.clone()
    }

    pub(super) fn connect(&self, purpose: ConnectionPurpose) -> Result<Client, ConnectError> {
        self.greet(move |address| {
            let config = ::postgres::Config::from(address.config.clone());
            let mut client = match &address.tls {
                None => config.connect(NoTls)?,
                Some(tls) => config.connect(tls.clone())?,
            };
            client.batch_execute(SETTINGS)?;
            client.batch_execute(purpose.settings())?;
            Ok(client)
        })
    }

    /// Runs `connect` on a separate thread, because the client library's timeout covers only the TCP connection. If the
    /// caller gives up, the thread keeps waiting until PostgreSQL responds or closes the connection.
    fn greet<T: Send + 'static>(
        &self,
        connect: impl FnOnce(&Self) -> Result<T, ConnectError> + Send + 'static,
    ) -> Result<T, ConnectError> {
        if self.silent.load(Ordering::SeqCst) >= SILENT_MAX {
            return Err(ConnectError::TooSilent);
        }
        // Rendezvous channel: sending fails if the caller has given up in the meantime.
        let (tell, heard) = mpsc::sync_channel(0);
        let address = self.clone();
        let began = std::thread::Builder::new().name("store-greeting".into()).spawn(move || {
            // The caller has given up, and has counted this thread as one that is still waiting.
            if tell.send(connect(&address)).is_err() {
                address.silent.fetch_sub(1, Ordering::SeqCst);
            }
        });
        match began.map(|_| heard.recv_timeout(GREETING_MAX)) {
            Ok(Ok(made)) => made,
            Ok(Err(_)) => {
                self.silent.fetch_add(1, Ordering::SeqCst);
                Err(ConnectError::Silent)
            }
            Err(_) => Err(ConnectError::Silent),
        }
    }

    /// Like [`PostgresAddress::connect`], but returns a [`StoreError`].
    pub(super) fn open_connection(&self, purpose: ConnectionPurpose) -> Result<Client, StoreError> {
        self.connect(purpose).map_err(|error| self.connect_error(&error))
    }

    /// Opens a connection that can send several statements at once.
    pub(super) fn open_pipeline(&self, purpose: ConnectionPurpose) -> Result<PipelineClient, StoreError> {
        let connected = self.greet(move |address| {
            let round_trips = address.round_trips.clone();
            let mut client = PipelineClient::connect(&address.config, address.tls.as_ref(), round_trips)?;
            client.batch_execute(SETTINGS)?;
            client.batch_execute(purpose.settings())?;
            Ok(client)
        });
        connected.map_err(|error| self.connect_error(&error))
    }

    fn connect_error(&self, error: &ConnectError) -> StoreError {
        let why = error.describe();
        StoreError::Unavailable(format!("PostgreSQL at {} cannot be reached: {why}", self.shown))
    }
}

/// The text of an error including its causes, which `Display` omits.
pub(crate) fn error_chain(error: &::postgres::Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        let inside = inner.to_string();
        if !text.contains(&inside) {
            text = format!("{text}: {inside}");
        }
        cause = inner.source();
    }
    text
}

fn system_tls() -> MakeRustlsConnect {
    let found = rustls_native_certs::load_native_certs();
    for error in &found.errors {
        tracing::warn!(%error, "system certificates cannot be read");
    }
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap_or_else(|_| unreachable!("the provider has the versions it was built with"))
        .with_root_certificates(roots)
        .with_no_client_auth();
    MakeRustlsConnect::new(config)
}

fn format_address(config: &Config) -> String {
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(name)) => name.clone(),
        Some(Host::Unix(path)) => path.display().to_string(),
        None => "localhost".into(),
    };
    let port = config.get_ports().first().copied().unwrap_or(5432);
    format!("{host}:{port}/{}", config.get_dbname().unwrap_or_default())
}

fn redact_password(url: &str, why: &str) -> String {
    let secret = url.split_once("://").and_then(|(_, rest)| rest.rsplit_once('@')).map(|(login, _)| login);
    let password = secret.and_then(|login| login.split_once(':')).map(|(_, password)| password);
    match password.filter(|it| !it.is_empty()) {
        Some(password) => why.replace(password, "…"),
        None => why.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_is_displayed_without_credentials() {
        let address = PostgresAddress::parse("postgres://ada:hunter2@db.acme.test:5433/berth").unwrap();
        assert_eq!(address.display_address(), "db.acme.test:5433/berth");
    }

    #[test]
    fn address_of_a_remote_host_requires_tls_by_default() {
        let mode = |url: &str| PostgresAddress::parse(url).unwrap().config.get_ssl_mode();
        for remote in ["db.acme.test", "10.0.0.7", "[2001:db8::1]", "127.0.0.1,db.acme.test"] {
            assert_eq!(mode(&format!("postgres://ada@{remote}/berth")), SslMode::Require, "{remote}");
        }
        for here in ["localhost", "127.0.0.1", "[::1]", "%2Frun%2Fpostgresql"] {
            assert_eq!(mode(&format!("postgres://ada@{here}/berth")), SslMode::Prefer, "{here}");
        }
        assert_eq!(mode("postgres://ada@db.acme.test/berth?sslmode=disable"), SslMode::Disable);
    }

    #[test]
    fn address_with_an_at_in_the_password_is_refused() {
        let text = PostgresAddress::parse("postgres://ada:hun@ter2@db/x").err().unwrap().to_string();
        assert!(text.contains("%40") && !text.contains("ter2"), "{text}");
    }

    #[test]
    fn invalid_address_is_refused_without_repeating_the_password() {
        for bad in
            ["sqlite:x", "mysql://x", "postgres://ada:hunter2@db:no/x", "postgres://a:hunter2@b/c?d=hunter2"]
        {
            let text = PostgresAddress::parse(bad).err().unwrap().to_string();
            assert!(!text.contains("hunter2"), "{text}");
        }
    }

    #[test]
    fn connect_to_an_unresponsive_server_times_out() {
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("postgres://ada@{}/berth?sslmode=disable", silent.local_addr().unwrap());
        let address = PostgresAddress::parse(&url).unwrap();
        let why = address.connect(ConnectionPurpose::Read).err().unwrap();
        assert!(matches!(why, ConnectError::Silent), "{}", why.describe());
        // One thread is still waiting for a response.
        assert_eq!(address.silent.load(Ordering::SeqCst), 1);
        address.silent.store(SILENT_MAX, Ordering::SeqCst);
        assert!(matches!(address.connect(ConnectionPurpose::Read), Err(ConnectError::TooSilent)));
    }
}
