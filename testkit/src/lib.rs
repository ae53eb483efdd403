//! For tests: a PostgreSQL of their own, and databases in it.
//!
//! `cargo xtask test` starts one server for all tests and tells them where it is; a test that runs alone starts its own.

pub mod outcome;
#[cfg(feature = "scratch")]
mod scratch;
mod server;
mod template;

/// The driver, for questions beside the program.
#[cfg(feature = "scratch")]
pub use postgres;
#[cfg(feature = "scratch")]
pub use scratch::Scratch;
pub use server::{Server, binaries};
pub use template::{copy_dir, template_dir};

/// Where the server for tests is: the address of a database in which others can be made.
pub const SERVER_VARIABLE: &str = "BERTH_TEST_POSTGRES";
/// The directory with `initdb` and `postgres`.
pub const BIN_VARIABLE: &str = "BERTH_TEST_POSTGRES_BIN";
/// `postgres`: tests that would run on SQLite run on PostgreSQL.
pub const DATABASE_VARIABLE: &str = "BERTH_TEST_DATABASE";
