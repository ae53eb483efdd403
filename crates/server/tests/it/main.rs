//! Integration tests of the HTTP API. The server runs within the test process, and everything except sockets is real.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod analysis_fixture;
mod api_conventions;
mod api_operations;
mod audit_export;
mod background_jobs;
mod builder;
mod canary;
mod confusion;
mod contract;
mod dashboard_host;
mod engine;
mod environments;
mod event_streams;
mod events;
mod fairness;
mod forge;
mod git;
mod idempotency;
mod identity_provider;
mod invitations;
mod jobs_fixture;
mod jobs_with_runner;
mod logs;
mod matrix;
mod members;
mod npm;
mod openapi;
mod pages;
mod passwords;
mod pipelines;
mod plan;
mod pollution;
mod registries;
mod repositories;
mod resource_target;
mod runners;
mod scoped_access;
mod secrets;
mod sign_in;
mod step_records;
mod tokens;
mod webhooks;
mod world;
