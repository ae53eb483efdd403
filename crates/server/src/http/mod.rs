//! HTTP: from bytes to use cases and back. No rule about pipelines or people is made here.

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

pub use edge::Edge;
pub use router::{Access, OPEN_ROUTES, RouteInfo};
