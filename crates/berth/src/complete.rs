//! Values for shell completion, from the server. Errors and slow responses give no values and no output.

use std::sync::mpsc::channel;
use std::time::Duration;

use berth_api::approval::WireApproval;
use berth_api::deployed::DeployedPipeline;
use berth_api::deployment::WireDeployment;
use berth_api::member::WireMember;
use berth_api::runners::WireRunner;
use berth_api::team::WireTeam;
use berth_api::webhook::WireWebhook;
use clap_complete::CompletionCandidate;

use crate::client::{ApiClient, RemoteArgs};
use crate::output::time::format_ago;
use crate::output::{short_commit, strip_control_chars, wire_word};

/// A completion must not make a person wait.
const TIMEOUT: Duration = Duration::from_millis(1_500);
const CANDIDATES_MAX: usize = 200;
const DEPLOYMENTS_MAX: usize = 30;

/// Returns the values that `load` finds within the timeout.
fn candidates<F>(load: F) -> Vec<CompletionCandidate>
where
    F: FnOnce(&ApiClient) -> anyhow::Result<Vec<(String, String)>> + Send + 'static,
{
    let (sender, receiver) = channel();
    let remote = RemoteArgs::from_words(std::env::args_os().filter_map(|word| word.into_string().ok()));
    let started = std::thread::Builder::new().spawn(move || {
        if let Ok(found) = remote.client().and_then(|client| load(&client)) {
            // The receiver may have timed out.
            sender.send(found).ok();
        }
    });
    let found = started.ok().and_then(|_| receiver.recv_timeout(TIMEOUT).ok()).unwrap_or_default();
    let candidate = |(value, help): (String, String)| {
        let help = (!help.is_empty()).then(|| strip_control_chars(&help).into());
        CompletionCandidate::new(value).help(help)
    };
    found.into_iter().map(candidate).collect()
}

fn load_pipelines(client: &ApiClient) -> anyhow::Result<Vec<DeployedPipeline>> {
    Ok(client.list("/deployed", CANDIDATES_MAX)?.data)
}

pub(crate) fn pipelines() -> Vec<CompletionCandidate> {
    candidates(|client| Ok(load_pipelines(client)?.into_iter().map(|it| (it.slug, it.name)).collect()))
}

/// Environment names, and `PIPELINE/NAME` for names that several pipelines have.
pub(crate) fn environments() -> Vec<CompletionCandidate> {
    candidates(|client| Ok(environment_names(&load_pipelines(client)?)))
}

fn environment_names(all: &[DeployedPipeline]) -> Vec<(String, String)> {
    let count = |name: &str| {
        let has = |it: &&DeployedPipeline| it.environments.iter().any(|env| env.env_name == name);
        all.iter().filter(has).count()
    };
    let of_pipeline = |it: &DeployedPipeline| {
        let value = |env: &berth_api::deployed::DeployedEnvironment| {
            let value = match count(&env.env_name) {
                1 => env.env_name.clone(),
                _ => format!("{}/{}", it.slug, env.env_name),
            };
            let holder =
                env.holder.as_ref().map_or("free".to_owned(), |holder| format!("held by {}", holder.name));
            (value, format!("{}: {holder}", it.slug))
        };
        it.environments.iter().map(value).collect::<Vec<_>>()
    };
    all.iter().flat_map(of_pipeline).collect()
}

fn load_deployments(client: &ApiClient) -> anyhow::Result<Vec<(String, String)>> {
    let slugs = load_pipelines(client)?;
    let found: Vec<WireDeployment> = client.list("/deployments", DEPLOYMENTS_MAX)?.data;
    let value = |it: WireDeployment| {
        let slug = slugs.iter().find(|pipeline| pipeline.pipeline_id == it.pipeline_id);
        let environment = it.env_name.as_ref().map_or_else(String::new, |name| format!("/{name}"));
        let reference =
            slug.map_or_else(|| it.id.clone(), |slug| format!("{}{environment}#{}", slug.slug, it.number));
        let (commit, status) = (short_commit(&it.commit_id), wire_word(it.status));
        (reference, format!("{commit} {status}, {}", format_ago(&it.created_at)))
    };
    Ok(found.into_iter().map(value).collect())
}

pub(crate) fn deployments() -> Vec<CompletionCandidate> {
    candidates(load_deployments)
}

/// Pipelines and deployments.
pub(crate) fn deployments_or_pipelines() -> Vec<CompletionCandidate> {
    candidates(|client| {
        let pipelines = load_pipelines(client)?.into_iter().map(|it| (it.slug, it.name));
        Ok(pipelines.chain(load_deployments(client)?).collect())
    })
}

/// What `berth open` opens.
pub(crate) fn pages() -> Vec<CompletionCandidate> {
    candidates(|client| {
        let all = load_pipelines(client)?;
        let environments = environment_names(&all);
        let pipelines = all.into_iter().map(|it| (it.slug, it.name));
        Ok(pipelines.chain(environments).chain(load_deployments(client)?).collect())
    })
}

pub(crate) fn approvals() -> Vec<CompletionCandidate> {
    candidates(|client| {
        let found: Vec<WireApproval> = client.list("/approvals", CANDIDATES_MAX)?.data;
        let value = |it: WireApproval| (it.id, format!("{}, {}", it.stage, format_ago(&it.requested_at)));
        Ok(found.into_iter().map(value).collect())
    })
}

pub(crate) fn members() -> Vec<CompletionCandidate> {
    candidates(|client| {
        let found: Vec<WireMember> = client.list("/members", CANDIDATES_MAX)?.data;
        Ok(found.into_iter().map(|it| (it.email, it.name)).collect())
    })
}

pub(crate) fn teams() -> Vec<CompletionCandidate> {
    candidates(|client| {
        let found: Vec<WireTeam> = client.list("/teams", CANDIDATES_MAX)?.data;
        Ok(found.into_iter().map(|it| (it.slug, it.name)).collect())
    })
}

pub(crate) fn webhooks() -> Vec<CompletionCandidate> {
    candidates(|client| {
        let found: Vec<WireWebhook> = client.list("/webhooks", CANDIDATES_MAX)?.data;
        Ok(found.into_iter().map(|it| (it.name, it.url)).collect())
    })
}

pub(crate) fn runners() -> Vec<CompletionCandidate> {
    candidates(|client| {
        let found: Vec<WireRunner> = client.list("/runners", CANDIDATES_MAX)?.data;
        let value = |it: WireRunner| (it.name.unwrap_or(it.id), wire_word(it.state));
        Ok(found.into_iter().map(value).collect())
    })
}
