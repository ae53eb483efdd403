//! Where the database is, and how a connection to it is made.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use ::postgres::config::{Host, SslMode, TargetSessionAttrs};
use ::postgres::{Client, Config, NoTls};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::{ClientConfig, RootCertStore};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::error::{OpenError, StoreError};

const CONNECT_MAX: Duration = Duration::from_secs(5);
/// From the first packet to a connection that can be used.
const GREETING_MAX: Duration = Duration::from_secs(8);
/// Servers that accept and stay silent keep so many threads waiting; a further one is not started.
const SILENT_MAX: usize = 64;
/// A connection whose other end has vanished without a word is given up after this.
const SILENCE_MAX: Duration = Duration::from_secs(30);
const KEEPALIVE_IDLE: Duration = Duration::from_secs(10);
const KEEPALIVE_EVERY: Duration = Duration::from_secs(5);

#[derive(Clone)]
pub(super) struct Address {
    config: Config,
    /// `None`: the address says that there is none.
    tls: Option<MakeRustlsConnect>,
    /// Without user and password.
    shown: String,
    /// Connections nobody waits for any more, because the other side says nothing, of all who have this address.
    silent: Arc<AtomicUsize>,
}

/// Why there is no connection.
#[derive(Debug)]
pub(super) enum NotConnected {
    Refused(::postgres::Error),
    Silent,
    /// So many have been, that no further one is begun.
    TooSilent,
}

impl From<::postgres::Error> for NotConnected {
    fn from(error: ::postgres::Error) -> Self {
        Self::Refused(error)
    }
}

impl NotConnected {
    pub(super) fn told(&self) -> String {
        match self {
            Self::Refused(error) => told(error),
            Self::Silent => {
                format!("it accepts connections and does not answer within {} s", GREETING_MAX.as_secs())
            }
            Self::TooSilent => {
                format!(
                    "{SILENT_MAX} connections to it wait for a first answer; it has to be ended or to go on"
                )
            }
        }
    }
}

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Write,
    Read,
    /// Nudges and news.
    Listen,
}

impl Purpose {
    /// Waits are limited by the server: a program that was stopped in the middle of a transaction lets go of its lock. No
    /// limit reaches a COMMIT.
    const fn settings(self) -> &'static str {
        match self {
            Purpose::Write => {
                "SET lock_timeout = '10s'; SET idle_in_transaction_session_timeout = '30s'; SET statement_timeout = 0"
            }
            Purpose::Read => "SET statement_timeout = '5s'; SET idle_in_transaction_session_timeout = '30s'",
            Purpose::Listen => "SET statement_timeout = '5s'",
        }
    }
}

/// A commit that does not wait for the disk is no commit. Set for the session, so that no later change of the server's
/// own settings reaches it.
const SETTINGS: &str = "SET client_min_messages = warning;
    SELECT set_config('synchronous_commit',
        CASE current_setting('synchronous_commit') WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, false)";

/// Reached over a network.
fn is_remote(host: &Host) -> bool {
    match host {
        Host::Tcp(name) => {
            let address = name.trim_matches(['[', ']']).parse::<IpAddr>();
            name != "localhost" && !address.is_ok_and(|address| address.is_loopback())
        }
        Host::Unix(_) => false,
    }
}

impl Address {
    pub(super) fn parse(url: &str) -> Result<Self, OpenError> {
        if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
            let text =
                "the database must be given as postgres://user@host:5432/name, or left away for SQLite";
            return Err(OpenError::Refused(text.into()));
        }
        // The reason may repeat a part of the address, and with it a password.
        let read = url.parse::<Config>().map_err(|error| error.to_string());
        let mut config = read.map_err(|why| {
            OpenError::Refused(format!("the address of the database cannot be read: {}", without(url, &why)))
        })?;
        let has_at = |host: &Host| matches!(host, Host::Tcp(name) if name.contains('@'));
        if config.get_hosts().iter().any(has_at) {
            // The rest of a password would be shown as a host.
            let text = "the address of the database has two @: write one in a password as %40";
            return Err(OpenError::Refused(text.into()));
        }
        config
            .application_name("berth")
            .connect_timeout(CONNECT_MAX)
            .tcp_user_timeout(SILENCE_MAX)
            .keepalives_idle(KEEPALIVE_IDLE)
            .keepalives_interval(KEEPALIVE_EVERY)
            // Decisions are made where they are written.
            .target_session_attrs(TargetSessionAttrs::ReadWrite);
        // Where TLS is only preferred, an attacker on the network can strip it.
        if !url.contains("sslmode=") && config.get_hosts().iter().any(is_remote) {
            config.ssl_mode(SslMode::Require);
        }
        let tls = (config.get_ssl_mode() != SslMode::Disable).then(trusting);
        let shown = shown(&config);
        Ok(Self { config, tls, shown, silent: Arc::default() })
    }

    pub(super) fn shown(&self) -> &str {
        &self.shown
    }

    /// The flag is raised when the server warns: of a commit that warned nobody knows how safe it is.
    pub(super) fn connect(&self, purpose: Purpose) -> Result<(Client, Arc<AtomicBool>), NotConnected> {
        // The driver limits the connection alone, not what is said on it. A thread that waits for somebody silent ends
        // when the other side does.
        if self.silent.load(Ordering::SeqCst) >= SILENT_MAX {
            return Err(NotConnected::TooSilent);
        }
        // Without room in between: it is heard, or nobody is there any more.
        let (tell, heard) = mpsc::sync_channel(0);
        let address = self.clone();
        let began = std::thread::Builder::new().name("store-greeting".into()).spawn(move || {
            // Nobody hears it: it had been counted.
            if tell.send(address.greet(purpose)).is_err() {
                address.silent.fetch_sub(1, Ordering::SeqCst);
            }
        });
        match began.map(|_| heard.recv_timeout(GREETING_MAX)) {
            Ok(Ok(made)) => Ok(made?),
            Ok(Err(_)) => {
                self.silent.fetch_add(1, Ordering::SeqCst);
                Err(NotConnected::Silent)
            }
            Err(_) => Err(NotConnected::Silent),
        }
    }

    fn greet(&self, purpose: Purpose) -> Result<(Client, Arc<AtomicBool>), ::postgres::Error> {
        let warned = Arc::new(AtomicBool::new(false));
        let raise = warned.clone();
        let mut config = self.config.clone();
        config.notice_callback(move |notice| {
            tracing::warn!(message = notice.message(), "PostgreSQL warns");
            raise.store(true, Ordering::SeqCst);
        });
        let mut client = match &self.tls {
            None => config.connect(NoTls)?,
            Some(tls) => config.connect(tls.clone())?,
        };
        client.batch_execute(SETTINGS)?;
        client.batch_execute(purpose.settings())?;
        Ok((client, warned))
    }

    /// As [`Address::connect`], with the reason in our words.
    pub(super) fn connected(&self, purpose: Purpose) -> Result<(Client, Arc<AtomicBool>), StoreError> {
        self.connect(purpose).map_err(|error| {
            let why = error.told();
            StoreError::Unavailable(format!("PostgreSQL at {} cannot be reached: {why}", self.shown))
        })
    }
}

/// An error with what is behind it: the driver's own texts leave that out.
pub(crate) fn told(error: &::postgres::Error) -> String {
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

fn trusting() -> MakeRustlsConnect {
    let found = rustls_native_certs::load_native_certs();
    for error in &found.errors {
        tracing::warn!(%error, "certificates of this machine cannot be read");
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

fn shown(config: &Config) -> String {
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(name)) => name.clone(),
        Some(Host::Unix(path)) => path.display().to_string(),
        None => "localhost".into(),
    };
    let port = config.get_ports().first().copied().unwrap_or(5432);
    format!("{host}:{port}/{}", config.get_dbname().unwrap_or_default())
}

fn without(url: &str, why: &str) -> String {
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
    fn an_address_is_shown_without_who_connects() {
        let address = Address::parse("postgres://ada:hunter2@db.acme.test:5433/berth").unwrap();
        assert_eq!(address.shown(), "db.acme.test:5433/berth");
    }

    #[test]
    fn database_on_another_machine_needs_tls_unless_said_otherwise() {
        let mode = |url: &str| Address::parse(url).unwrap().config.get_ssl_mode();
        for remote in ["db.acme.test", "10.0.0.7", "[2001:db8::1]", "127.0.0.1,db.acme.test"] {
            assert_eq!(mode(&format!("postgres://ada@{remote}/berth")), SslMode::Require, "{remote}");
        }
        for here in ["localhost", "127.0.0.1", "[::1]", "%2Frun%2Fpostgresql"] {
            assert_eq!(mode(&format!("postgres://ada@{here}/berth")), SslMode::Prefer, "{here}");
        }
        assert_eq!(mode("postgres://ada@db.acme.test/berth?sslmode=disable"), SslMode::Disable);
    }

    #[test]
    fn a_password_with_an_at_is_not_taken_for_a_host() {
        let text = Address::parse("postgres://ada:hun@ter2@db/x").err().unwrap().to_string();
        assert!(text.contains("%40") && !text.contains("ter2"), "{text}");
    }

    #[test]
    fn what_is_no_address_is_refused_without_repeating_its_password() {
        for bad in
            ["sqlite:x", "mysql://x", "postgres://ada:hunter2@db:no/x", "postgres://a:hunter2@b/c?d=hunter2"]
        {
            let text = Address::parse(bad).err().unwrap().to_string();
            assert!(!text.contains("hunter2"), "{text}");
        }
    }

    #[test]
    fn a_server_that_accepts_and_stays_silent_is_given_up() {
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("postgres://ada@{}/berth?sslmode=disable", silent.local_addr().unwrap());
        let address = Address::parse(&url).unwrap();
        let why = address.connect(Purpose::Read).err().unwrap();
        assert!(matches!(why, NotConnected::Silent), "{}", why.told());
        // Those that still wait are counted, and are not too many.
        assert_eq!(address.silent.load(Ordering::SeqCst), 1);
        address.silent.store(SILENT_MAX, Ordering::SeqCst);
        assert!(matches!(address.connect(Purpose::Read), Err(NotConnected::TooSilent)));
    }
}
