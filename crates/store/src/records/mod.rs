//! Records: for each noun its row, how it is loaded and how it is written.

pub mod key;
pub mod member;
pub mod organization;
pub mod pipeline;
pub mod secret;
pub mod sign_in;
pub mod token;
pub mod user;
