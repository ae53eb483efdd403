//! `berth mcp`: serves tools for coding agents on standard input and output.

use std::process::ExitCode;

use anyhow::Context as _;
use berth_mcp::{RestApi, RestRequest, RestResponse};

use crate::client::{ApiClient, RemoteArgs};

/// Lists and claims environments, deploys and reads logs through the Model Context Protocol (MCP). A coding agent starts
/// this command. It can do what the token may do.
#[derive(clap::Args)]
pub(crate) struct McpArgs {
    #[command(flatten)]
    remote: RemoteArgs,
}

pub(crate) fn run(args: &McpArgs) -> anyhow::Result<ExitCode> {
    let client = args.remote.client()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.context("cannot start the runtime")?;
    let served = runtime.block_on(berth_mcp::serve_stdio(CliApi { client }));
    // A request that is still waiting for its response must not delay the exit.
    runtime.shutdown_background();
    served.map_err(anyhow::Error::msg)?;
    Ok(ExitCode::SUCCESS)
}

/// The public API over HTTP, with the saved login.
#[derive(Clone)]
struct CliApi {
    client: ApiClient,
}

impl RestApi for CliApi {
    async fn send(&self, request: RestRequest) -> Result<RestResponse, String> {
        let client = self.client.clone();
        let sent = tokio::task::spawn_blocking(move || {
            let RestRequest { method, path, body, if_none_match } = request;
            client.request_any(&method, &path, body.as_ref(), if_none_match.as_deref())
        });
        let sent = sent.await.map_err(|error| format!("the request failed: {error}"))?;
        let reply = sent.map_err(|error| format!("{error:#}"))?;
        Ok(RestResponse { status: reply.status, etag: reply.etag, body: reply.body })
    }
}
