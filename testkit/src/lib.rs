//! PostgreSQL servers and databases for tests.
//!
//! `cargo xtask test` starts one server for all tests and passes its address; a test that runs alone starts its
//! own.

pub mod outcome;
#[cfg(feature = "scratch")]
mod scratch;
mod server;
mod template;

/// The PostgreSQL driver, for queries of tests.
#[cfg(feature = "scratch")]
pub use postgres;
#[cfg(feature = "scratch")]
pub use scratch::Scratch;
pub use server::{Server, binaries};
pub use template::{copy_dir, template_dir};

/// URL of a database on the shared test server, in which databases can be created.
pub const SERVER_VARIABLE: &str = "BERTH_TEST_POSTGRES";
/// The directory with `initdb` and `postgres`.
pub const BIN_VARIABLE: &str = "BERTH_TEST_POSTGRES_BIN";
/// `postgres`: tests that would run on SQLite run on PostgreSQL.
pub const DATABASE_VARIABLE: &str = "BERTH_TEST_DATABASE";
