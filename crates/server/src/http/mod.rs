//! HTTP layer: parses requests, calls use cases, writes responses. Contains no business rules.

mod access_control;
mod body;
mod dashboard;
mod docs;
mod drain;
mod edge;
mod input_checker;
pub mod openapi;
mod pages;
mod path;
mod query;
mod request_id;
mod respond;
mod route_builder;
mod router;
mod routes;

pub use edge::HttpService;
pub use route_builder::{OPEN_ROUTES, RouteAccess, RouteInfo};
pub use routes::mcp::MCP_PATH;
pub use routes::remote_locks::REMOTE_LOCK_PATH;

/// Whether a path belongs to another protocol than the API, whose OpenAPI document leaves it out.
pub fn is_foreign_protocol(path: &str) -> bool {
    path == MCP_PATH || path.starts_with(REMOTE_LOCK_PATH)
}
