//! `berth agents`: accounts of programs that act on their own, and the switch that stops all of them.

use std::process::ExitCode;

use berth_api::agent::{AgentLimitsPatch, WireAgentsStatus, WireTakeoverScope};
use berth_api::member::{MemberNew, UserKind, WireMember};
use berth_api::pipeline::ReasonBody;
use serde_json::{Value, json};

use super::member::find_member;
use crate::client::{ApiClient, RECORDS_MAX, RemoteArgs};
use crate::output::time::{format_ago, format_duration, parse_seconds};
use crate::output::{CommandOutput, RawJson, strip_control_chars, wire_word};

#[derive(clap::Args)]
pub(crate) struct AgentsArgs {
    #[command(flatten)]
    remote: RemoteArgs,
    #[command(subcommand)]
    command: AgentsCommand,
}

#[derive(clap::Subcommand)]
enum AgentsCommand {
    /// Create an agent
    Create(CreateAgentArgs),
    /// List agents with their limits
    List,
    /// Stop all agents: end their sessions, and refuse claims and deployments until they are resumed
    Stop {
        /// Reason, shown to the agents
        #[arg(long, short = 'm')]
        reason: Option<String>,
    },
    /// Let agents claim and deploy again
    Resume,
    /// Show whether agents are stopped
    Status,
}

#[derive(clap::Args)]
struct CreateAgentArgs {
    /// Name of the agent
    name: String,
    /// E-mail address, name or id of the person responsible for it [default: you]
    #[arg(long)]
    owner: Option<String>,
    /// Role [default: tester]
    #[arg(long)]
    role: Option<String>,
    /// Sessions that it may hold and wait for at the same time [default: 1]
    #[arg(long)]
    sessions: Option<i64>,
    /// Maximum length of a session, for example 2h [default: 1h]
    #[arg(long, value_name = "TIME", value_parser = parse_seconds)]
    session_time: Option<i64>,
    /// Deployments that it may start per hour [default: 30]
    #[arg(long, value_name = "COUNT")]
    deployments_per_hour: Option<i64>,
    /// Whose sessions it may take over, if its role allows takeovers [default: never]
    #[arg(long, value_enum)]
    take_over: Option<TakeOverScope>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum TakeOverScope {
    Never,
    /// Sessions of other agents
    Agents,
    Anyone,
}

pub(crate) fn run(args: &AgentsArgs) -> anyhow::Result<ExitCode> {
    let client = args.remote.client()?;
    let out = args.remote.output();
    match &args.command {
        AgentsCommand::Create(args) => create(&client, &out, args),
        AgentsCommand::List => list(&client, &out),
        AgentsCommand::Stop { reason } => {
            let stopped =
                client.post::<WireAgentsStatus>("/agents/stop", &ReasonBody { reason: reason.clone() })?;
            out.print_reply(&stopped.raw, || match (stopped.data.sessions_ended, stopped.data.tickets_cancelled) {
                (Some(sessions), Some(tickets)) => {
                    format!("Stopped all agents: {sessions} sessions ended, {tickets} queue tickets cancelled.")
                }
                _ => describe(&stopped.data),
            })?;
            Ok(ExitCode::SUCCESS)
        }
        AgentsCommand::Resume => {
            let resumed = client.post::<WireAgentsStatus>("/agents/resume", &json!({}))?;
            out.print_reply(&resumed.raw, || describe(&resumed.data))?;
            Ok(ExitCode::SUCCESS)
        }
        AgentsCommand::Status => {
            let status = client.get::<WireAgentsStatus>("/agents")?;
            out.print_reply(&status.raw, || describe(&status.data))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn create(client: &ApiClient, out: &CommandOutput, args: &CreateAgentArgs) -> anyhow::Result<ExitCode> {
    let owner = args.owner.as_deref().map(|owner| find_member(client, owner)).transpose()?;
    let body = MemberNew {
        email: None,
        role: args.role.clone(),
        name: Some(args.name.clone()),
        kind: Some("agent".to_owned()),
        owner_id: owner.map(|owner| owner.id),
        limits: Some(AgentLimitsPatch {
            sessions: args.sessions,
            session_seconds: args.session_time,
            deployments_per_hour: args.deployments_per_hour,
            force_claim: args.take_over.map(|scope| match scope {
                TakeOverScope::Never => WireTakeoverScope::Never,
                TakeOverScope::Agents => WireTakeoverScope::Agents,
                TakeOverScope::Anyone => WireTakeoverScope::Anyone,
            }),
        }),
    };
    let made = client.post::<WireMember>("/members", &body)?;
    out.print_reply(&made.raw, || {
        let (name, id) = (strip_control_chars(&made.data.name), &made.data.id);
        format!("Created the agent {name}. Create its token with: berth token create NAME --owner {id}")
    })?;
    Ok(ExitCode::SUCCESS)
}

fn list(client: &ApiClient, out: &CommandOutput) -> anyhow::Result<ExitCode> {
    let all = client.list::<WireMember>("/members", RECORDS_MAX)?;
    let owner_name = |id: Option<&str>| {
        let owner = all.data.iter().find(|member| Some(member.id.as_str()) == id);
        owner.map_or_else(|| "-".to_owned(), |owner| strip_control_chars(&owner.name))
    };
    let agents = all.data.iter().filter(|member| member.kind == UserKind::Agent);
    let rows: Vec<_> = agents
        .filter_map(|agent| {
            let limits = agent.limits.as_ref()?;
            Some(vec![
                strip_control_chars(&agent.name),
                owner_name(agent.owner_id.as_deref()),
                limits.sessions.to_string(),
                format_duration(limits.session_seconds),
                limits.deployments_per_hour.to_string(),
                wire_word(limits.force_claim),
                agent.id.clone(),
            ])
        })
        .collect();
    let raws = all.raw["data"].as_array().into_iter().flatten();
    let raws: Vec<&Value> = raws.filter(|member| member["kind"] == "agent").collect();
    let heading = ["name", "owner", "sessions", "session time", "deployments/h", "takeovers", "id"];
    let raw = RawJson { value: json!({ "data": raws }), fields: all.raw.fields.clone() };
    out.print_table(&raw, &heading, &rows, "No agents.")?;
    Ok(ExitCode::SUCCESS)
}

fn describe(status: &WireAgentsStatus) -> String {
    if !status.stopped {
        return "Agents may claim and deploy.".to_owned();
    }
    let by = status.stopped_by.as_ref().map(|by| format!(" by {}", strip_control_chars(&by.name)));
    let when = status.stopped_at.as_deref().map(|at| format!(" {}", format_ago(at)));
    let why = status.reason.as_deref().map(|why| format!(": {}", strip_control_chars(why)));
    let part = Option::unwrap_or_default;
    format!("All agents were stopped{}{}{}.", part(by), part(when), part(why))
}
