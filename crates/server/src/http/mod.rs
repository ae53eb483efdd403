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
mod respond;
mod router;
mod routes;

pub use edge::HttpService;
pub use router::{OPEN_ROUTES, RouteAccess, RouteInfo};
