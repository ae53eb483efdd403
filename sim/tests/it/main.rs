//! The rules of the lock, under commands nobody thought of.

mod exploration;
mod plants;
mod scan;
mod sequences;
