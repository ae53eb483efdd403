//! The tools: their list, and the dispatch of calls.

mod analysis;
mod arguments;
mod context;
mod deployments;
mod environments;
mod logs;
mod sessions;

use rmcp::handler::server::tool::schema_for_input;
use rmcp::model::{CallToolResult, ContentBlock, JsonObject, Tool, ToolAnnotations};
use rmcp::schemars::JsonSchema;
use serde_json::Value;

pub(crate) use context::ToolContext;
pub(crate) use environments::load_environments;

use crate::failure::ToolFailure;
use crate::rest::RestApi;

/// How long a tool waits at most, in seconds.
pub const WAIT_S_MAX: u64 = 600;

/// The result of a successful call.
pub(crate) struct ToolOutput {
    /// A short text for the model.
    pub(crate) text: String,
    /// The response of the API.
    pub(crate) content: Value,
}

/// What a tool does to the installation, for clients that ask people to confirm calls.
#[derive(Clone, Copy)]
enum ToolEffect {
    Reads,
    /// Changes records, and a repeated call changes nothing more.
    Adds,
    Claims,
    /// Ends or replaces something.
    Replaces,
    /// Runs the steps of a deployment, which may do anything.
    Deploys,
}

impl ToolEffect {
    fn to_annotations(self) -> ToolAnnotations {
        let hints = ToolAnnotations::new();
        match self {
            ToolEffect::Reads => hints.read_only(true).open_world(false),
            ToolEffect::Adds => hints.read_only(false).destructive(false).idempotent(true).open_world(false),
            ToolEffect::Claims => {
                hints.read_only(false).destructive(false).idempotent(false).open_world(false)
            }
            ToolEffect::Replaces => {
                hints.read_only(false).destructive(true).idempotent(true).open_world(false)
            }
            ToolEffect::Deploys => {
                hints.read_only(false).destructive(true).idempotent(false).open_world(true)
            }
        }
    }
}

/// Returns the tools, in the order in which an agent usually needs them.
pub fn list_tools() -> Vec<Tool> {
    use ToolEffect::{Adds, Claims, Deploys, Reads, Replaces};
    vec![
        define::<environments::ListEnvironments>(
            Reads,
            "list_environments",
            "List environments",
            "Lists the environments that you may see: whether each is free, or who holds it, why and until when.",
        ),
        define::<environments::ClaimEnvironment>(
            Claims,
            "claim_environment",
            "Claim an environment",
            "Claims an environment, so that only you can deploy to it. Returns a session; keep its sessionId. If the environment is held, it fails and says by whom; with queue, it returns a ticket instead.",
        ),
        define::<environments::QueueStatus>(
            Reads,
            "queue_status",
            "Show a queue",
            "Shows a ticket's position in the queue, or all tickets of an environment. With waitSeconds, waits until the ticket is granted; it then has the sessionId.",
        ),
        define::<deployments::DeployCommit>(
            Deploys,
            "deploy_commit",
            "Deploy a commit",
            "Deploys a commit to an environment that you hold. With wait, returns when the deployment has finished, and sends progress notifications until then.",
        ),
        define::<deployments::DeploymentStatus>(
            Reads,
            "deployment_status",
            "Show a deployment",
            "Shows a deployment: its status, its steps, and what it waits for. With waitSeconds, waits until it has finished.",
        ),
        define::<logs::ReadLog>(
            Reads,
            "read_log",
            "Read the log of a step",
            "Reads part of the log of a step, at most 16 KiB per call: the lines around the failure, lines that contain a text, the last lines, or the lines from a number on. Without any of these arguments, returns the lines around the failure of a failed step, else the last lines.",
        ),
        define::<analysis::AnalyzeFailure>(
            Adds,
            "analyze_failure",
            "Analyze a failure",
            "Explains why a step failed, with the log lines that show it, and advice or a suggested fix.",
        ),
        define::<sessions::ExtendSession>(
            Adds,
            "extend_session",
            "Extend a session",
            "Postpones the expiry of your session.",
        ),
        define::<sessions::ReleaseSession>(
            Replaces,
            "release_session",
            "Release a session",
            "Ends your session, so that the environment is free for the next holder. Running deployments of the session are stopped.",
        ),
        define::<environments::RequestTakeover>(
            Replaces,
            "request_takeover",
            "Request a takeover",
            "Announces that you take over an environment from its holder, who loses it after a grace period unless they release it before. Needs a special permission. Use it only if a person asked you to; otherwise join the queue.",
        ),
    ]
}

fn define<T: JsonSchema + 'static>(
    effect: ToolEffect,
    name: &'static str,
    title: &str,
    description: &'static str,
) -> Tool {
    let schema = schema_for_input::<T>().unwrap_or_default();
    Tool::new(name, description, schema).with_title(title).with_annotations(effect.to_annotations())
}

/// Calls a tool. `None` if there is no tool with this name.
pub(crate) async fn call_tool<A: RestApi>(
    context: &ToolContext<A>,
    name: &str,
    arguments: JsonObject,
) -> Option<CallToolResult> {
    let called = match name {
        "list_environments" => environments::list_environments(context, arguments.clone()).await,
        "claim_environment" => environments::claim_environment(context, arguments.clone()).await,
        "queue_status" => environments::queue_status(context, arguments.clone()).await,
        "deploy_commit" => deployments::deploy_commit(context, arguments.clone()).await,
        "deployment_status" => deployments::deployment_status(context, arguments.clone()).await,
        "read_log" => logs::read_log(context, arguments.clone()).await,
        "analyze_failure" => analysis::analyze_failure(context, arguments.clone()).await,
        "extend_session" => sessions::extend_session(context, arguments.clone()).await,
        "release_session" => sessions::release_session(context, arguments.clone()).await,
        "request_takeover" => environments::request_takeover(context, arguments.clone()).await,
        _ => return None,
    };
    Some(match called {
        Ok(ToolOutput { text, content }) => {
            let mut result = CallToolResult::structured(content);
            result.content = vec![ContentBlock::text(text)];
            result
        }
        Err(failure) => failure.into_result(name, &arguments),
    })
}

/// The outcome of a tool.
type ToolResult = Result<ToolOutput, ToolFailure>;
