//! Endless output: measures the server's memory, and the latency of other requests during the step.

use std::time::{Duration, Instant};

use anyhow::ensure;

use super::masked;
use crate::deploy::{Pipeline, between, first_attempt};
use crate::load::Target;
use crate::process::{Server, forget_peak_memory, peak_memory};
use crate::served::{Api, PIPELINES};

/// Interval between the requests that are sent during the step.
const ASK_EVERY: Duration = Duration::from_millis(2);
const LOOK_EVERY: Duration = Duration::from_millis(100);
const LONG_LINE_BYTES: u64 = 100_000_000;
const WRITES: u64 = 1_000_000;

pub(super) struct Stressed {
    pub(super) what: &'static str,
    pub(super) bytes: u64,
    pub(super) took: Duration,
    /// The server's peak memory during the step.
    pub(super) peak: u64,
    /// Latencies of small requests during the step, sorted.
    pub(super) asked: Vec<Duration>,
}

struct Case {
    slug: &'static str,
    what: &'static str,
    run: String,
    bytes: u64,
}

pub(super) async fn all(
    api: &mut Api,
    target: &Target,
    server: &Server,
    bytes: u64,
) -> anyhow::Result<Vec<Stressed>> {
    let long = LONG_LINE_BYTES.min(bytes);
    let cases = [
        Case { slug: "quiet", what: "nothing, for comparison", run: "sleep 2".into(), bytes: 0 },
        Case {
            slug: "much",
            what: "as many lines as fit",
            run: format!("yes 'a line of a log, as long as lines often are' | head -c {bytes}"),
            bytes,
        },
        Case {
            slug: "long",
            what: "one line",
            run: format!("head -c {long} /dev/zero | tr '\\0' x"),
            bytes: long,
        },
        Case {
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

impl Case {
    async fn measure(self, api: &mut Api, target: &Target, server: &Server) -> anyhow::Result<Stressed> {
        let pipeline = Pipeline::create(api, self.slug, vec![masked("print", &self.run)]).await?;
        forget_peak_memory(server.id())?;
        let mut reader = Api::open(target).await?;
        let path = format!("{PIPELINES}/{}", self.slug);
        let mut asked = Vec::new();
        let asking = async {
            loop {
                let began = Instant::now();
                reader.get(&path).await?;
                asked.push(began.elapsed());
                tokio::time::sleep(ASK_EVERY).await;
            }
        };
        let printing = async {
            let deployed = pipeline.deploy(api).await?;
            pipeline.finish(api, &deployed, LOOK_EVERY).await
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
        Ok(Stressed {
            what: self.what,
            bytes: self.bytes,
            took: between(&attempt["startedAt"], &attempt["finishedAt"])?,
            peak: peak_memory(server.id())?,
            asked,
        })
    }
}
