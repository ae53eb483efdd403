//! HTTP layer: parses requests, calls use cases, writes responses. Contains no business rules.

mod body;
mod check;
mod dashboard;
mod docs;
mod drain;
mod edge;
mod guard;
pub mod openapi;
mod pages;
mod path;
mod query;
mod respond;
mod router;
mod routes;

pub use edge::HttpService;
pub use router::{RouteAccess, OPEN_ROUTES, RouteInfo};
