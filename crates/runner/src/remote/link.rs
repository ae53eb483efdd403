//! [`Link`] over HTTP: each call is a request.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use berth_api::remote::{
    AcquireAsked, Acquired, Farewell, Goodbye, HeartbeatHeard, HeartbeatSent, LogTaken, Welcome,
};
use berth_api::runner::{
    Acquire, Assignment, AttemptRef, Heartbeat, Link, LinkError, Order, Report, Reported, Told, Wanted,
};

use super::client::ServerClient;
use super::{archive, transfer};

/// Network time allowed on top of the server's own wait.
const NETWORK_TIME_MAX: Duration = Duration::from_secs(5);
const REPORT_MAX: Duration = Duration::from_secs(30);
const LOG_MAX: Duration = Duration::from_secs(10);

/// [`Link`] of a remote runner.
pub struct RemoteLink {
    client: Arc<ServerClient>,
    network_time: Duration,
}

impl RemoteLink {
    /// Creates the link with the timeouts of the server's welcome.
    pub fn new(client: Arc<ServerClient>, welcome: &Welcome) -> Self {
        // A response that arrives after the self-stop is useless.
        let network_time = NETWORK_TIME_MAX.min(Duration::from_millis(welcome.self_stop_ms) / 4);
        Self { client, network_time }
    }

    /// Tells the server that this process has ended and runs nothing.
    pub fn goodbye(&self, boot: &str) -> Result<(), LinkError> {
        let said = Goodbye { boot: boot.to_owned() };
        let done: Farewell = self.client.post_json("goodbye", &said, NETWORK_TIME_MAX)?;
        let Farewell {} = done;
        Ok(())
    }
}

impl Link for RemoteLink {
    fn acquire(&self, asked: &Acquire, wait: Duration) -> Result<Vec<Assignment>, LinkError> {
        let said = AcquireAsked { asked: asked.clone(), wait_ms: millis(wait) };
        let heard: Acquired = self.client.post_json("acquire", &said, wait + NETWORK_TIME_MAX)?;
        Ok(heard.assignments)
    }

    fn heartbeat(&self, beat: &Heartbeat, wait: Duration) -> Result<Vec<Told>, LinkError> {
        let said = HeartbeatSent { beat: beat.clone(), wait_ms: millis(wait) };
        let heard: HeartbeatHeard = self.client.post_json("heartbeat", &said, wait + self.network_time)?;
        Ok(heard.told)
    }

    fn append_log(&self, attempt: &AttemptRef, offset: u64, bytes: &[u8]) -> Result<Order, LinkError> {
        let what = format!("log?attempt={}&offset={offset}", attempt.nonce);
        let heard: LogTaken = self.client.send_bytes(&what, bytes, LOG_MAX)?;
        Ok(heard.order)
    }

    fn report(&self, report: &Report) -> Result<Reported, LinkError> {
        Ok(self.client.post_json("report", report, REPORT_MAX)?)
    }

    fn checkout(&self, attempt: &AttemptRef, into: &Path, wanted: Wanted<'_>) -> Result<(), LinkError> {
        let what = format!("source?attempt={}", attempt.nonce);
        archive::unpack(transfer::fetch(&self.client, what, wanted)?, into)
    }

    fn fetch_artifact(
        &self,
        attempt: &AttemptRef,
        name: &str,
        into: &Path,
        wanted: Wanted<'_>,
    ) -> Result<(), LinkError> {
        let what = format!("artifact?attempt={}&name={name}", attempt.nonce);
        archive::unpack(transfer::fetch(&self.client, what, wanted)?, into)
    }

    fn fetch_registry(
        &self,
        attempt: &AttemptRef,
        digest: &str,
        into: &Path,
        wanted: Wanted<'_>,
    ) -> Result<(), LinkError> {
        let what = format!("registry?attempt={}&digest={digest}", attempt.nonce);
        archive::unpack(transfer::fetch(&self.client, what, wanted)?, into)
    }

    fn keep_artifact(
        &self,
        attempt: &AttemptRef,
        name: &str,
        (workspace, path): (&Path, &str),
        wanted: Wanted<'_>,
    ) -> Result<String, LinkError> {
        let packed = archive::pack(workspace, path, wanted)?;
        let what = format!("artifact?attempt={}&name={name}", attempt.nonce);
        Ok(transfer::send(&self.client, what, packed, wanted)?.digest)
    }
}

fn millis(length: Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}
