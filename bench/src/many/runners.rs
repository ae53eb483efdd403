//! Idle runners that long-poll for work.

use std::rc::Rc;

use anyhow::{Context as _, ensure};
use berth_core::runner::PROTOCOL;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::site::ask;
use crate::load::{Connection, Target};
use crate::served::{Api, ORGANIZATION};

/// Long-poll timeout, the same as that of real runners.
const WAIT_MS: u64 = 5_000;
const SLOTS: usize = 4;

/// Long polls of the simulated runners, stopped on drop.
pub(super) struct Runners(Vec<JoinHandle<()>>);

impl Drop for Runners {
    fn drop(&mut self) {
        self.0.iter().for_each(JoinHandle::abort);
    }
}

/// Registers `count` runners and starts their long polls.
pub(super) async fn come(api: &mut Api, target: &Target, count: usize) -> anyhow::Result<Runners> {
    eprintln!("registering {count} runners");
    let mut runners = Vec::new();
    for number in 0..count {
        let made =
            api.post(&format!("{ORGANIZATION}/runners"), &json!({ "name": format!("r{number}") })).await?;
        let token = text(&made, "token")?;
        let said = json!({ "protocol": PROTOCOL, "version": "bench", "name": null });
        let registered = say(target, &token, "register", &said).await?;
        let credential = Target { address: target.address, token: text(&registered, "credential")? };
        let boot = format!("boot{number}");
        let hello = json!({
            "protocol": PROTOCOL, "version": "bench", "boot": boot, "labels": ["linux", "x86_64"], "slots": SLOTS,
            "isolation": "none",
        });
        say(target, &credential.token, "hello", &hello).await?;
        runners.push(tokio::task::spawn_local(async move {
            if let Err(error) = wait(&credential, &boot).await {
                eprintln!("a runner has gone: {error:#}");
            }
        }));
    }
    Ok(Runners(runners))
}

async fn wait(credential: &Target, boot: &str) -> anyhow::Result<()> {
    let mut connection = Connection::open(credential).await?;
    let boot: Rc<str> = boot.into();
    for number in 0u64.. {
        let nonces: Vec<_> = (0..SLOTS).map(|slot| format!("n{number}x{slot}")).collect();
        let asked =
            json!({ "boot": &*boot, "nonces": nonces, "labels": ["linux", "x86_64"], "waitMs": WAIT_MS });
        let path = "/api/v1/runner/acquire";
        let got = ask(&mut connection, credential, "POST", path, &asked.to_string()).await?;
        ensure!(got["assignments"].as_array().is_some_and(Vec::is_empty), "there is work: {got}");
    }
    Ok(())
}

async fn say(target: &Target, token: &str, what: &str, said: &Value) -> anyhow::Result<Value> {
    let who = Target { address: target.address, token: token.to_owned() };
    let mut connection = Connection::open(&who).await?;
    ask(&mut connection, &who, "POST", &format!("/api/v1/runner/{what}"), &said.to_string()).await
}

fn text(value: &Value, name: &str) -> anyhow::Result<String> {
    Ok(value[name].as_str().with_context(|| format!("no {name} in {value}"))?.to_owned())
}
