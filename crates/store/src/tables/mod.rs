//! Tables: for each noun its rows, how they are loaded and written, and the queries over them.

pub mod session;
