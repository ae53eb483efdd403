//! Integration tests of the HTTP API. The server runs within the test process, and everything except sockets is real.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod analysed;
mod at_work;
mod builder;
mod canary;
mod confusion;
mod contract;
mod dashboard_host;
mod described;
mod engine;
mod environments;
mod events;
mod fairness;
mod follow;
mod forge;
mod git;
mod given;
mod history;
mod invitations;
mod logs;
mod matrix;
mod members;
mod npm;
mod once;
mod openapi;
mod pages;
mod passwords;
mod pipelines;
mod plan;
mod pollution;
mod registries;
mod repositories;
mod runners;
mod scoped_access;
mod secrets;
mod sign_in;
mod steps;
mod tokens;
mod webhooks;
mod work;
mod world;
mod yard;
