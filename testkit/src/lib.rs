//! PostgreSQL servers and databases, and Podman services for tests.
//!
//! `cargo xtask test` starts one server for all tests and passes its address in [`SERVER_VARIABLE`]. A test that is run
//! on its own starts its own server.

pub mod outcome;
#[cfg(feature = "podman")]
pub mod podman;
mod s3;
#[cfg(feature = "scratch")]
mod scratch;
mod server;
mod smtp;
mod template;

/// The PostgreSQL driver, for tests that run queries.
#[cfg(feature = "scratch")]
pub use postgres;
pub use s3::{S3Server, StorageFault};
#[cfg(feature = "scratch")]
pub use scratch::ScratchDatabase;
pub use server::{PostgresServer, postgres_binaries};
pub use smtp::{ReceivedMail, SmtpSink};
pub use template::{copy_dir, template_dir};

/// Environment variable with the URL of a database on the shared test server. Its user may create databases.
pub const SERVER_VARIABLE: &str = "BERTH_TEST_POSTGRES";
/// Environment variable with the directory that contains `initdb` and `postgres`.
pub const BIN_VARIABLE: &str = "BERTH_TEST_POSTGRES_BIN";
/// Environment variable: if it is `postgres`, tests run on PostgreSQL instead of SQLite.
pub const DATABASE_VARIABLE: &str = "BERTH_TEST_DATABASE";
