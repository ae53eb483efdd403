//! [`RunnerLink`] over HTTP: each call becomes one request.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use berth_api::remote::{
    AcquireRequest, AcquiredWork, GoodbyeReceipt, HeartbeatRequest, HeartbeatResult, LogReceipt,
    PinImageRequest, PinnedImage, RunnerGoodbye, RunnerWelcome,
};
use berth_api::runner::{
    AcquireParams, AttemptAssignment, AttemptInstruction, AttemptOrder, AttemptRef, LinkError, ReportReceipt,
    RunnerHeartbeat, RunnerLink, StepReport, WantedCheck,
};

use super::client::ServerClient;
use super::{archive, transfer};

/// Maximum time for the network, in addition to the time that the server itself may wait.
const NETWORK_TIME_MAX: Duration = Duration::from_secs(5);
const REPORT_MAX: Duration = Duration::from_secs(30);
const LOG_MAX: Duration = Duration::from_secs(10);

/// [`RunnerLink`] of a remote runner.
pub struct RemoteLink {
    client: Arc<ServerClient>,
    network_time: Duration,
}

impl RemoteLink {
    /// Creates the link, with the timeouts that the server sent in its welcome.
    pub fn new(client: Arc<ServerClient>, welcome: &RunnerWelcome) -> Self {
        // If the server stays silent, the runner stops its steps, and a later response is useless. So wait only for a
        // fraction of that time.
        let network_time = NETWORK_TIME_MAX.min(Duration::from_millis(welcome.self_stop_ms) / 4);
        Self { client, network_time }
    }

    /// Tells the server that this process is exiting and is not running any steps.
    pub fn goodbye(&self, boot: &str) -> Result<(), LinkError> {
        let said = RunnerGoodbye { boot: boot.to_owned() };
        let done: GoodbyeReceipt = self.client.post_json("goodbye", &said, NETWORK_TIME_MAX)?;
        let GoodbyeReceipt {} = done;
        Ok(())
    }
}

impl RunnerLink for RemoteLink {
    fn acquire(&self, asked: &AcquireParams, wait: Duration) -> Result<Vec<AttemptAssignment>, LinkError> {
        let said = AcquireRequest { asked: asked.clone(), wait_ms: millis(wait) };
        let heard: AcquiredWork = self.client.post_json("acquire", &said, wait + NETWORK_TIME_MAX)?;
        Ok(heard.assignments)
    }

    fn heartbeat(
        &self,
        beat: &RunnerHeartbeat,
        wait: Duration,
    ) -> Result<Vec<AttemptInstruction>, LinkError> {
        let said = HeartbeatRequest { beat: beat.clone(), wait_ms: millis(wait) };
        let heard: HeartbeatResult = self.client.post_json("heartbeat", &said, wait + self.network_time)?;
        Ok(heard.told)
    }

    fn append_log(&self, attempt: &AttemptRef, offset: u64, bytes: &[u8]) -> Result<AttemptOrder, LinkError> {
        let what = format!("log?attempt={}&offset={offset}", attempt.nonce);
        let heard: LogReceipt = self.client.send_bytes(&what, bytes, LOG_MAX)?;
        match heard.resend_from {
            Some(length) => Err(LinkError::LogGap { length }),
            None => Ok(heard.order),
        }
    }

    fn report(&self, report: &StepReport) -> Result<ReportReceipt, LinkError> {
        Ok(self.client.post_json("report", report, REPORT_MAX)?)
    }

    fn pin_image(&self, attempt: &AttemptRef, image: &str, digest: &str) -> Result<String, LinkError> {
        let said = PinImageRequest {
            attempt: attempt.nonce.clone(),
            image: image.to_owned(),
            digest: digest.to_owned(),
        };
        let pinned: PinnedImage = self.client.post_json("image", &said, REPORT_MAX)?;
        Ok(pinned.digest)
    }

    fn checkout(&self, attempt: &AttemptRef, into: &Path, wanted: WantedCheck<'_>) -> Result<(), LinkError> {
        let what = format!("source?attempt={}", attempt.nonce);
        archive::unpack(transfer::fetch(&self.client, what, wanted)?, into)
    }

    fn fetch_artifact(
        &self,
        attempt: &AttemptRef,
        name: &str,
        into: &Path,
        wanted: WantedCheck<'_>,
    ) -> Result<(), LinkError> {
        let what = format!("artifact?attempt={}&name={name}", attempt.nonce);
        archive::unpack(transfer::fetch(&self.client, what, wanted)?, into)
    }

    fn fetch_registry(
        &self,
        attempt: &AttemptRef,
        digest: &str,
        into: &Path,
        wanted: WantedCheck<'_>,
    ) -> Result<(), LinkError> {
        let what = format!("registry?attempt={}&digest={digest}", attempt.nonce);
        archive::unpack(transfer::fetch(&self.client, what, wanted)?, into)
    }

    fn keep_artifact(
        &self,
        attempt: &AttemptRef,
        name: &str,
        (workspace, path): (&Path, &str),
        wanted: WantedCheck<'_>,
    ) -> Result<String, LinkError> {
        let packed = archive::pack(workspace, path, wanted)?;
        let what = format!("artifact?attempt={}&name={name}", attempt.nonce);
        Ok(transfer::send(&self.client, what, packed, wanted)?.digest)
    }
}

fn millis(length: Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}
