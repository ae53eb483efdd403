//! A database for one test.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::SystemTime;

use postgres::{Client, NoTls};

use crate::{DATABASE_VARIABLE, PostgresServer, SERVER_VARIABLE, postgres_binaries};

/// A new, empty database, dropped together with this value.
pub struct ScratchDatabase {
    name: String,
    maintenance: String,
    // The server that this test started, if there is no shared one.
    server: Option<PostgresServer>,
    is_kept: bool,
}

impl ScratchDatabase {
    /// Returns whether tests should run on PostgreSQL.
    pub fn is_wanted() -> bool {
        std::env::var(DATABASE_VARIABLE).is_ok_and(|word| word == "postgres")
    }

    /// Creates a database if tests should run on PostgreSQL.
    pub fn new_if_wanted() -> Option<Self> {
        Self::is_wanted().then(|| Self::new().unwrap_or_else(|| panic!("no PostgreSQL here")))
    }

    /// Creates a database. Returns `None` if PostgreSQL is not installed.
    pub fn new() -> Option<Self> {
        let (maintenance, server) = match std::env::var(SERVER_VARIABLE) {
            Ok(given) => (given, None),
            Err(_) => {
                let server = PostgresServer::start(&postgres_binaries()?)
                    .unwrap_or_else(|why| panic!("PostgreSQL: {why}"));
                (server.url("postgres"), Some(server))
            }
        };
        let name = create_database(&maintenance, "template0");
        Some(Self { name, maintenance, server, is_kept: false })
    }

    /// Copies a template database, which must have no open connections. Returns `None` if there is no shared server.
    pub fn copy_template(template: &str) -> Option<Self> {
        let maintenance = std::env::var(SERVER_VARIABLE).ok()?;
        Some(Self {
            name: create_database(&maintenance, template),
            maintenance,
            server: None,
            is_kept: false,
        })
    }

    /// Returns the URL of the server that all tests share, if there is one.
    pub fn shared_server() -> Option<String> {
        std::env::var(SERVER_VARIABLE).ok()
    }

    /// Keeps the database as a template for [`ScratchDatabase::copy_template`] and returns its name.
    pub fn into_template(mut self) -> String {
        self.is_kept = true;
        self.name.clone()
    }

    pub fn url(&self) -> String {
        match self.maintenance.rsplit_once('/') {
            Some((server, _)) => format!("{server}/{}", self.name),
            None => panic!("{} is no address", self.maintenance),
        }
    }

    /// Opens a connection for the test itself, in addition to those of the program under test.
    pub fn connect(&self) -> Client {
        connect(&self.url())
    }

    /// Returns the server that this test started, if there is one.
    pub fn own_server(&mut self) -> Option<&mut PostgresServer> {
        self.server.as_mut()
    }
}

impl Drop for ScratchDatabase {
    fn drop(&mut self) {
        // A server that this test started is deleted with all its databases.
        if self.server.is_none() && !self.is_kept {
            run_statements(
                &self.maintenance,
                &[format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name)],
            );
        }
    }
}

fn create_database(maintenance: &str, template: &str) -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    // The time distinguishes this process from an earlier one with the same id, whose databases may still exist.
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    let name = format!("t_{}_{}_{since}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
    run_statements(maintenance, &[format!("CREATE DATABASE {name} TEMPLATE {template} ENCODING 'UTF8'")]);
    name
}

fn connect(url: &str) -> Client {
    Client::connect(url, NoTls).unwrap_or_else(|error| panic!("PostgreSQL for tests: {error}"))
}

/// Runs statements on a separate thread, because the caller may be inside an async runtime, where the driver must not
/// block.
fn run_statements(url: &str, texts: &[String]) {
    let (url, texts) = (url.to_owned(), texts.to_vec());
    let asked = std::thread::spawn(move || {
        let mut client = connect(&url);
        for text in texts {
            client.batch_execute(&text).unwrap_or_else(|error| panic!("{text}: {error:?}"));
        }
    });
    asked.join().unwrap_or_else(|_| panic!("the server for tests did not answer"));
}
