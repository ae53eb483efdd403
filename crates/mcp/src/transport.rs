//! The two transports: standard input and output, and streamable HTTP.

use std::convert::Infallible;
use std::sync::Arc;

use http::{Request, Response};
use http_body_util::Full;
use http_body_util::combinators::BoxBody;
use rmcp::transport::io::stdio;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use tokio_util::bytes::Bytes;
use tokio_util::sync::CancellationToken;

use crate::handler::McpServer;
use crate::rest::RestApi;

/// Serves one client on standard input and output, until it closes them.
pub async fn serve_stdio(api: impl RestApi) -> Result<(), String> {
    let service = rmcp::serve_server(McpServer::new(api), stdio()).await;
    let service = service.map_err(|error| format!("the MCP client did not initialize: {error}"))?;
    service.waiting().await.map_err(|error| format!("the MCP server failed: {error}"))?;
    Ok(())
}

/// Responds to one HTTP request of an MCP client. There are no MCP sessions: every request stands for itself, so that
/// any server of an installation can respond, and nothing outlives the request. `shutdown` ends open streams. The
/// caller has checked `Host` and `Origin`, and has read the body within its limits.
pub async fn respond_over_http(
    api: impl RestApi,
    request: Request<Full<Bytes>>,
    shutdown: CancellationToken,
) -> Response<BoxBody<Bytes, Infallible>> {
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_sse_retry(None)
        .with_cancellation_token(shutdown)
        .disable_allowed_hosts()
        .disable_allowed_origins();
    let server = McpServer::new(api);
    let sessions = Arc::new(NeverSessionManager::default());
    StreamableHttpService::new(move || Ok(server.clone()), sessions, config).handle(request).await
}
