//! Removes containers and networks by their labels: those of one attempt, or all that an earlier process of the runner
//! has left.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::time::Duration;

use bollard::errors::Error;
use bollard::query_parameters::{ListContainersOptions, ListNetworksOptions, RemoveContainerOptions};

use super::engine::ContainerEngine;
use super::labels;

/// Number of rounds of removal. A second one is only needed if the engine was creating something during the first.
const ROUNDS_MAX: usize = 5;
/// Pause between two rounds.
const ROUND_INTERVAL: Duration = Duration::from_millis(50);
/// Timeout of one removal, which includes killing the processes.
const REMOVAL_TIME_MAX: Duration = Duration::from_secs(60);

/// Removes everything that runners with this work directory have left. Returns the number of containers.
pub(crate) fn remove_orphans(engine: &ContainerEngine, work_dir: &Path) -> io::Result<usize> {
    remove_matching(engine, &labels::work_dir_filter(work_dir))
}

/// Removes everything of one attempt.
pub(super) fn remove_attempt(engine: &ContainerEngine, id: &str) -> io::Result<()> {
    remove_matching(engine, &labels::filter(labels::ATTEMPT, id)).map(drop)
}

fn remove_matching(engine: &ContainerEngine, filter: &HashMap<String, Vec<String>>) -> io::Result<usize> {
    let removal = remove_until_none_is_left(engine, filter);
    let removal = async { tokio::time::timeout(REMOVAL_TIME_MAX, removal).await };
    match engine.runtime.block_on(removal) {
        Ok(removed) => removed.map_err(io::Error::other),
        Err(_) => Err(io::Error::other("the container engine takes too long to remove containers")),
    }
}

async fn remove_until_none_is_left(
    engine: &ContainerEngine,
    filter: &HashMap<String, Vec<String>>,
) -> Result<usize, Error> {
    let docker = &engine.docker;
    let mut removed = 0;
    let mut last = Ok(());
    for round in 0..ROUNDS_MAX {
        if round > 1 {
            tokio::time::sleep(ROUND_INTERVAL).await;
        }
        let options =
            ListContainersOptions { all: true, filters: Some(filter.clone()), ..Default::default() };
        let containers = docker.list_containers(Some(options)).await?;
        let networks = ListNetworksOptions { filters: Some(filter.clone()) };
        let networks = docker.list_networks(Some(networks)).await?;
        if containers.is_empty() && networks.is_empty() {
            return Ok(removed);
        }
        for id in containers.into_iter().filter_map(|it| it.id) {
            let options = RemoveContainerOptions { force: true, v: true, link: false };
            match ignore_missing(docker.remove_container(&id, Some(options)).await) {
                Ok(()) => removed += 1,
                error => last = error,
            }
        }
        for name in networks.into_iter().filter_map(|it| it.name) {
            if let error @ Err(_) = ignore_missing(docker.remove_network(&name).await) {
                last = error;
            }
        }
    }
    last?;
    Err(Error::DockerStreamError { error: "containers appear again after their removal".into() })
}

fn ignore_missing(result: Result<(), Error>) -> Result<(), Error> {
    match result {
        Err(Error::DockerResponseServerError { status_code: 404 | 409, .. }) => Ok(()),
        other => other,
    }
}
