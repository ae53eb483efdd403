//! Idle runners that long-poll for work.

use std::rc::Rc;

use anyhow::{Context as _, ensure};
use berth_core::runner::PROTOCOL;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::site::send_request;
use crate::bench_server::{JsonApiClient, ORGANIZATION};
use crate::load::{LoadConnection, ServerTarget};

/// Long-poll timeout, the same as that of real runners.
const WAIT_MS: u64 = 5_000;
const SLOTS: usize = 4;

/// Long polls of the simulated runners, stopped on drop.
pub(super) struct SimulatedRunners(Vec<JoinHandle<()>>);

impl Drop for SimulatedRunners {
    fn drop(&mut self) {
        self.0.iter().for_each(JoinHandle::abort);
    }
}

/// Registers `count` runners and starts their long polls.
pub(super) async fn start_runners(
    api: &mut JsonApiClient,
    target: &ServerTarget,
    count: usize,
) -> anyhow::Result<SimulatedRunners> {
    eprintln!("registering {count} runners");
    let mut runners = Vec::new();
    for number in 0..count {
        let made =
            api.post(&format!("{ORGANIZATION}/runners"), &json!({ "name": format!("r{number}") })).await?;
        let token = text_member(&made, "token")?;
        let said = json!({ "protocol": PROTOCOL, "version": "bench", "name": null });
        let registered = post_as_runner(target, &token, "register", &said).await?;
        let credential =
            ServerTarget { address: target.address, token: text_member(&registered, "credential")? };
        let boot = format!("boot{number}");
        let hello = json!({
            "protocol": PROTOCOL, "version": "bench", "boot": boot, "labels": ["linux", "x86_64"], "slots": SLOTS,
            "isolation": "none",
        });
        post_as_runner(target, &credential.token, "hello", &hello).await?;
        runners.push(tokio::task::spawn_local(async move {
            if let Err(error) = poll_for_work(&credential, &boot).await {
                eprintln!("a runner has gone: {error:#}");
            }
        }));
    }
    Ok(SimulatedRunners(runners))
}

async fn poll_for_work(credential: &ServerTarget, boot: &str) -> anyhow::Result<()> {
    let mut connection = LoadConnection::open(credential).await?;
    let boot: Rc<str> = boot.into();
    for number in 0u64.. {
        let nonces: Vec<_> = (0..SLOTS).map(|slot| format!("n{number}x{slot}")).collect();
        let asked =
            json!({ "boot": &*boot, "nonces": nonces, "labels": ["linux", "x86_64"], "waitMs": WAIT_MS });
        let path = "/api/v1/runner/acquire";
        let got = send_request(&mut connection, credential, "POST", path, &asked.to_string()).await?;
        ensure!(got["assignments"].as_array().is_some_and(Vec::is_empty), "there is work: {got}");
    }
    Ok(())
}

async fn post_as_runner(
    target: &ServerTarget,
    token: &str,
    what: &str,
    said: &Value,
) -> anyhow::Result<Value> {
    let who = ServerTarget { address: target.address, token: token.to_owned() };
    let mut connection = LoadConnection::open(&who).await?;
    send_request(&mut connection, &who, "POST", &format!("/api/v1/runner/{what}"), &said.to_string()).await
}

fn text_member(value: &Value, name: &str) -> anyhow::Result<String> {
    Ok(value[name].as_str().with_context(|| format!("no {name} in {value}"))?.to_owned())
}
