//! Endless output: measures the server's memory, and the latency of other requests during the step.

use std::time::{Duration, Instant};

use anyhow::ensure;

use super::masked_step;
use crate::bench_server::{JsonApiClient, PIPELINES};
use crate::deploy::{BenchPipeline, elapsed_between, first_attempt};
use crate::load::ServerTarget;
use crate::process::{BenchServer, peak_memory, reset_peak_memory};

/// Interval between the requests that are sent during the step.
const REQUEST_INTERVAL: Duration = Duration::from_millis(2);
const POLL_INTERVAL: Duration = Duration::from_millis(100);
const LONG_LINE_BYTES: u64 = 100_000_000;
const WRITES: u64 = 1_000_000;

pub(super) struct StressResult {
    pub(super) what: &'static str,
    pub(super) bytes: u64,
    pub(super) took: Duration,
    /// The server's peak memory during the step.
    pub(super) peak: u64,
    /// Latencies of small requests during the step, sorted.
    pub(super) latencies: Vec<Duration>,
}

struct StressCase {
    slug: &'static str,
    what: &'static str,
    run: String,
    bytes: u64,
}

pub(super) async fn run_all(
    api: &mut JsonApiClient,
    target: &ServerTarget,
    server: &BenchServer,
    bytes: u64,
) -> anyhow::Result<Vec<StressResult>> {
    let long = LONG_LINE_BYTES.min(bytes);
    let cases = [
        StressCase { slug: "quiet", what: "nothing, for comparison", run: "sleep 2".into(), bytes: 0 },
        StressCase {
            slug: "much",
            what: "as many lines as fit",
            run: format!("yes 'a line of a log, as long as lines often are' | head -c {bytes}"),
            bytes,
        },
        StressCase {
            slug: "long",
            what: "one line",
            run: format!("head -c {long} /dev/zero | tr '\\0' x"),
            bytes: long,
        },
        StressCase {
            slug: "tiny",
            what: "a write for each byte",
            run: format!("head -c {WRITES} /dev/zero | tr '\\0' x | dd bs=1 status=none"),
            bytes: WRITES,
        },
    ];
    let mut stressed = Vec::new();
    for case in cases {
        eprintln!("{}: {} bytes", case.what, case.bytes);
        stressed.push(case.measure(api, target, server).await?);
    }
    Ok(stressed)
}

impl StressCase {
    async fn measure(
        self,
        api: &mut JsonApiClient,
        target: &ServerTarget,
        server: &BenchServer,
    ) -> anyhow::Result<StressResult> {
        let pipeline = BenchPipeline::create(api, self.slug, vec![masked_step("print", &self.run)]).await?;
        reset_peak_memory(server.id())?;
        let mut reader = JsonApiClient::open(target).await?;
        let path = format!("{PIPELINES}/{}", self.slug);
        let mut asked = Vec::new();
        let asking = async {
            loop {
                let began = Instant::now();
                reader.get(&path).await?;
                asked.push(began.elapsed());
                tokio::time::sleep(REQUEST_INTERVAL).await;
            }
        };
        let printing = async {
            let deployed = pipeline.deploy(api).await?;
            pipeline.finish(api, &deployed, POLL_INTERVAL).await
        };
        let found = tokio::select! {
            broken = asking => {
                let broken: anyhow::Result<()> = broken;
                return Err(broken.err().unwrap_or_else(|| anyhow::anyhow!("the reader has stopped")));
            }
            found = printing => found?,
        };
        let attempt = first_attempt(&found);
        let kept = &attempt["logBytes"];
        ensure!(*kept == self.bytes, "{}: {} bytes were printed, {kept} are kept", self.what, self.bytes);
        asked.sort_unstable();
        Ok(StressResult {
            what: self.what,
            bytes: self.bytes,
            took: elapsed_between(&attempt["startedAt"], &attempt["finishedAt"])?,
            peak: peak_memory(server.id())?,
            latencies: asked,
        })
    }
}
