//! Tools and resources for coding agents, over the Model Context Protocol (MCP).
//!
//! Everything here is written against [`RestApi`]: the CLI implements it with HTTP requests, the server with requests
//! to its own router. So a tool can do what the caller's token may do through the public API, and nothing else.

mod failure;
mod handler;
mod log_text;
mod resources;
mod rest;
mod text;
mod tools;
mod transport;

pub use rest::{RestApi, RestRequest, RestResponse};
pub use tools::{WAIT_S_MAX, list_tools};
pub use transport::{respond_over_http, serve_stdio};
