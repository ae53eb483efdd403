//! Resolves the environment named on the command line.

use berth_api::deployed::DeployedPipeline;
use berth_api::environment::{WireEnvironment, WireLock};
use clap_complete::ArgValueCandidates;

use crate::client::{ApiClient, ApiReply, ClientError, RECORDS_MAX, percent_encode};
use crate::complete;

#[derive(Debug, clap::Args)]
pub(crate) struct EnvironmentArgs {
    /// Environment name, or PIPELINE/NAME
    #[arg(value_name = "ENVIRONMENT", add = ArgValueCandidates::new(complete::environments))]
    name: String,
    /// Pipeline, if several have an environment with this name
    #[arg(long, short, env = "BERTH_PIPELINE", add = ArgValueCandidates::new(complete::pipelines))]
    pipeline: Option<String>,
}

/// What to claim: an environment, or any environment with a label.
#[derive(clap::Args)]
pub(super) struct ClaimTargetArgs {
    /// Environment name, or PIPELINE/NAME
    #[arg(
        value_name = "ENVIRONMENT",
        required_unless_present = "label",
        conflicts_with = "label",
        add = ArgValueCandidates::new(complete::environments)
    )]
    name: Option<String>,
    /// Claim any environment of the pipeline that has this label, the first that is free
    #[arg(long, requires = "pipeline")]
    label: Option<String>,
    /// Pipeline, if several have an environment with this name
    #[arg(long, short, env = "BERTH_PIPELINE", add = ArgValueCandidates::new(complete::pipelines))]
    pipeline: Option<String>,
}

pub(super) enum ClaimTarget {
    Named(EnvironmentRef),
    Any { pipeline: String, label: String },
}

impl ClaimTargetArgs {
    pub(super) fn resolve(&self, client: &ApiClient) -> anyhow::Result<ClaimTarget> {
        if let (Some(label), Some(pipeline)) = (&self.label, &self.pipeline) {
            return Ok(ClaimTarget::Any { pipeline: pipeline.clone(), label: label.clone() });
        }
        let name = self.name.clone().unwrap_or_default();
        let named = EnvironmentArgs { name, pipeline: self.pipeline.clone() };
        Ok(ClaimTarget::Named(named.resolve(client)?))
    }
}

impl ClaimTarget {
    pub(super) fn pipeline(&self) -> &str {
        match self {
            ClaimTarget::Named(place) => &place.pipeline,
            ClaimTarget::Any { pipeline, .. } => pipeline,
        }
    }

    /// The environment that was claimed or queued for.
    pub(super) fn environment(&self, name: &str) -> EnvironmentRef {
        EnvironmentRef { pipeline: self.pipeline().to_owned(), name: name.to_owned() }
    }
}

impl std::fmt::Display for ClaimTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ClaimTarget::Named(place) => f.write_str(&place.name),
            ClaimTarget::Any { label, .. } => write!(f, "an environment with the label {label}"),
        }
    }
}

/// An environment of a pipeline.
pub(crate) struct EnvironmentRef {
    pub(crate) pipeline: String,
    pub(crate) name: String,
}

impl EnvironmentArgs {
    /// Looks up the pipeline if the user did not name one; fails if several pipelines have an environment of this name.
    pub(crate) fn resolve(&self, client: &ApiClient) -> anyhow::Result<EnvironmentRef> {
        if let Some((pipeline, name)) = self.name.split_once('/') {
            return Ok(EnvironmentRef { pipeline: pipeline.to_owned(), name: name.to_owned() });
        }
        let name = self.name.clone();
        if let Some(pipeline) = &self.pipeline {
            return Ok(EnvironmentRef { pipeline: pipeline.clone(), name });
        }
        let all: Vec<DeployedPipeline> = client.list("/deployed", RECORDS_MAX)?.data;
        let has = |it: &&DeployedPipeline| it.environments.iter().any(|env| env.env_name == name);
        let found: Vec<&DeployedPipeline> = all.iter().filter(has).collect();
        match found.as_slice() {
            [one] => Ok(EnvironmentRef { pipeline: one.slug.clone(), name }),
            [] => Err(ClientError::NotFound(format!(
                "environment {name} not found; list environments with `berth env list`"
            ))
            .into()),
            several => {
                let names: Vec<_> = several.iter().map(|it| format!("{}/{name}", it.slug)).collect();
                Err(ClientError::Usage(format!(
                    "several pipelines have an environment {name}; specify {}",
                    names.join(" or ")
                ))
                .into())
            }
        }
    }
}

impl EnvironmentRef {
    pub(crate) fn path(&self) -> String {
        format!(
            "/pipelines/{}/ephemeral-environments/{}",
            percent_encode(&self.pipeline),
            percent_encode(&self.name)
        )
    }

    pub(crate) fn session_path(&self, id: &str) -> String {
        format!("{}/sessions/{}", self.path(), percent_encode(id))
    }

    pub(crate) fn load(&self, client: &ApiClient) -> anyhow::Result<ApiReply<WireEnvironment>> {
        client.get(&self.path())
    }

    pub(crate) fn dashboard_page(&self, client: &ApiClient) -> String {
        client.dashboard_url(&format!(
            "/environments/{}/{}",
            percent_encode(&self.pipeline),
            percent_encode(&self.name)
        ))
    }

    /// Returns the id of the active session.
    pub(crate) fn active_session_id(&self, client: &ApiClient) -> anyhow::Result<String> {
        Ok(self.active_lock(client)?.session_id)
    }

    /// Returns the holder and the active session.
    pub(crate) fn active_lock(&self, client: &ApiClient) -> anyhow::Result<WireLock> {
        match self.load(client)?.data.lock {
            Some(lock) => Ok(lock),
            None => Err(anyhow::anyhow!(
                "{} is not claimed; claim it with `berth env claim {}/{}`",
                self.name,
                self.pipeline,
                self.name
            )),
        }
    }
}
