//! Resolves the environment named on the command line.

use berth_api::deployed::Deployed;
use berth_api::environment::Environment;

use crate::client::{Client, Failure, RECORDS_MAX, Reply, escaped};

#[derive(Debug, clap::Args)]
pub(crate) struct Named {
    /// Environment name, or PIPELINE/NAME
    #[arg(value_name = "ENVIRONMENT")]
    name: String,
    /// Pipeline, if several have an environment with this name
    #[arg(long, short, env = "BERTH_PIPELINE")]
    pipeline: Option<String>,
}

/// One environment of one pipeline.
pub(crate) struct Place {
    pub(crate) pipeline: String,
    pub(crate) name: String,
}

impl Named {
    /// Resolves the pipeline if it was not given; fails if several have such an environment.
    pub(crate) fn find(&self, client: &Client) -> anyhow::Result<Place> {
        if let Some((pipeline, name)) = self.name.split_once('/') {
            return Ok(Place { pipeline: pipeline.to_owned(), name: name.to_owned() });
        }
        let name = self.name.clone();
        if let Some(pipeline) = &self.pipeline {
            return Ok(Place { pipeline: pipeline.clone(), name });
        }
        let all: Vec<Deployed> = client.list("/deployed", RECORDS_MAX)?.data;
        let has = |it: &&Deployed| it.environments.iter().any(|env| env.env_name == name);
        let found: Vec<&Deployed> = all.iter().filter(has).collect();
        match found.as_slice() {
            [one] => Ok(Place { pipeline: one.slug.clone(), name }),
            [] => Err(Failure::NotFound(format!(
                "environment {name} not found; list environments with `berth env list`"
            ))
            .into()),
            several => {
                let names: Vec<_> = several.iter().map(|it| format!("{}/{name}", it.slug)).collect();
                Err(Failure::Unclear(format!(
                    "several pipelines have an environment {name}; specify {}",
                    names.join(" or ")
                ))
                .into())
            }
        }
    }
}

impl Place {
    pub(crate) fn path(&self) -> String {
        format!("/pipelines/{}/ephemeral-environments/{}", escaped(&self.pipeline), escaped(&self.name))
    }

    pub(crate) fn session(&self, id: &str) -> String {
        format!("{}/sessions/{}", self.path(), escaped(id))
    }

    pub(crate) fn view(&self, client: &Client) -> anyhow::Result<Reply<Environment>> {
        client.get(&self.path())
    }

    pub(crate) fn page(&self, client: &Client) -> String {
        client.page(&format!("/environments/{}/{}", escaped(&self.pipeline), escaped(&self.name)))
    }

    /// Returns the id of the active session.
    pub(crate) fn held(&self, client: &Client) -> anyhow::Result<String> {
        match self.view(client)?.data.lock {
            Some(lock) => Ok(lock.session_id),
            None => Err(anyhow::anyhow!(
                "{} is not claimed; claim it with `berth env claim {}/{}`",
                self.name,
                self.pipeline,
                self.name
            )),
        }
    }
}
