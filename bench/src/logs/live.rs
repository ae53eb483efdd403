//! Latency of log streaming: the step prints the current time, and the reader compares it with its own clock.

use std::time::{Duration, SystemTime};

use anyhow::{Context as _, ensure};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use super::masked_step;
use crate::bench_server::JsonApiClient;
use crate::deploy::{BenchPipeline, log_path};
use crate::load::ServerTarget;

const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Returns the latency of each line, sorted.
pub(super) async fn measure_delays(
    api: &mut JsonApiClient,
    target: &ServerTarget,
    count: usize,
) -> anyhow::Result<Vec<Duration>> {
    // Print at uneven intervals, so that the lines do not align with a timer in the server.
    let run =
        format!("i=0; while [ $i -lt {count} ]; do date +%s%N; sleep 0.0$((i % 7 + 1)); i=$((i + 1)); done");
    let pipeline = BenchPipeline::create(api, "live", vec![masked_step("print", &run)]).await?;
    let deployed = pipeline.deploy(api).await?;
    let mut delays = follow(target, &log_path(&deployed.id, "print")).await?;
    // Reconnect, because the server closes idle connections.
    *api = JsonApiClient::open(target).await?;
    pipeline.finish(api, &deployed, POLL_INTERVAL).await?;
    ensure!(delays.len() == count, "{} of {count} lines have arrived", delays.len());
    delays.sort_unstable();
    Ok(delays)
}

/// Reads the stream to its end and returns the latency of each line.
async fn follow(target: &ServerTarget, path: &str) -> anyhow::Result<Vec<Duration>> {
    let mut stream = open_stream(target, path).await?;
    let (mut delays, mut line) = (Vec::new(), String::new());
    loop {
        line.clear();
        ensure!(stream.read_line(&mut line).await? > 0, "the stream has broken");
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
        if line.starts_with("event: end") {
            return Ok(delays);
        }
        let Some(data) = line.strip_prefix("data: ") else { continue };
        let data: Value = serde_json::from_str(data)?;
        for printed in data["text"].as_str().unwrap_or_default().lines() {
            let printed = Duration::from_nanos(printed.parse().context("a line without a time")?);
            delays.push(now.saturating_sub(printed));
        }
    }
}

/// Opens the stream once the deployment's steps exist.
async fn open_stream(target: &ServerTarget, path: &str) -> anyhow::Result<BufReader<TcpStream>> {
    const TRIES_MAX: usize = 1_000;
    for _ in 0..TRIES_MAX {
        let mut stream = TcpStream::connect(target.address).await?;
        stream.set_nodelay(true)?;
        let request = format!(
            "GET {path} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\naccept: text/event-stream\r\n\r\n",
            target.address, target.token
        );
        stream.write_all(request.as_bytes()).await?;
        let (mut stream, mut line) = (BufReader::new(stream), String::new());
        stream.read_line(&mut line).await?;
        if line.starts_with("HTTP/1.1 200") {
            return Ok(stream);
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    anyhow::bail!("nothing to follow at {path}")
}
