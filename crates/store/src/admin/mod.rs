//! Operations on a whole database, for operators: backup, copy, integrity checks and read-only access.

pub mod backup;
pub mod copy;
pub mod integrity;
pub mod read_only;
