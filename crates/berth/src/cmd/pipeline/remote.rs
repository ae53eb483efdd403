//! Pipelines on a server.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use berth_api::pipeline::{
    Because, DefinitionNew, DefinitionText, Pipeline, PipelineNew, PipelineStatus, Stage,
};

use super::local;
use crate::client::{Client, Failure, RECORDS_MAX, escaped};
use crate::output::time::{ago, clock};
use crate::output::{Output, bold, coloured, dim, harmless, or_dash, short_commit};

fn path(pipeline: &str) -> String {
    format!("/pipelines/{}", escaped(pipeline))
}

fn state(it: &Pipeline) -> &'static str {
    match (it.status, &it.retired_at) {
        (PipelineStatus::Stopped, _) => "paused",
        (PipelineStatus::Active, Some(_)) => "retired",
        (PipelineStatus::Active, None) => "active",
    }
}

pub(super) fn list(client: &Client, out: &Output, search: Option<&str>) -> anyhow::Result<()> {
    let filter = search.map_or_else(String::new, |text| format!("?search={}", escaped(text)));
    let found = client.list::<Pipeline>(&format!("/pipelines{filter}"), RECORDS_MAX)?;
    let row = |it: &Pipeline| {
        let stages: Vec<_> = it.stages.iter().map(stage_cell).collect();
        vec![
            it.slug.clone(),
            harmless(&it.name),
            state(it).to_owned(),
            or_dash(Some(&stages.join("  "))),
            or_dash(Some(&it.environments.join(", "))),
        ]
    };
    let rows: Vec<_> = found.data.iter().map(row).collect();
    let empty = "No pipelines. Create one with `berth pipeline apply FILE`, or add a repository with `berth repo add URL`.";
    out.table(&found.raw, &["slug", "name", "status", "stages", "environments"], &rows, empty)
}

fn stage_cell(stage: &Stage) -> String {
    let commit = stage.current.as_ref().map_or("-", |it| short_commit(&it.commit_id));
    format!("{}: {commit}", stage.name)
}

pub(super) fn show(client: &Client, out: &Output, pipeline: &str) -> anyhow::Result<()> {
    let found = client.get::<Pipeline>(&path(pipeline))?;
    out.told(&found.raw, || describe(client, &found.data))
}

fn describe(client: &Client, it: &Pipeline) -> String {
    let mut lines = vec![format!("{}  {}  {}", bold(&harmless(&it.name)), it.slug, coloured(state(it)))];
    if let Some(stopped) = &it.stopped {
        let why = stopped.reason.as_deref().map_or_else(String::new, |why| format!(": {}", harmless(why)));
        lines.push(format!("  paused by {} {}{why}", harmless(&stopped.by.name), ago(&stopped.at)));
    }
    for stage in &it.stages {
        lines.push(match &stage.current {
            None => format!("  {:<16} not deployed", stage.name),
            Some(now) => {
                let behind = now.behind_by.filter(|count| *count > 0);
                let behind = behind.map_or_else(String::new, |count| format!(", {count} behind"));
                let by = harmless(&now.by.name);
                format!(
                    "  {:<16} {} since {} by {by}{behind}",
                    stage.name,
                    short_commit(&now.commit_id),
                    clock(&now.at)
                )
            }
        });
    }
    if !it.environments.is_empty() {
        lines.push(format!("  environments     {}", it.environments.join(", ")));
    }
    if let Some(origin) = &it.repository {
        lines.push(dim(&format!("  from {} {}", origin.url, origin.path)));
    }
    for warning in &it.warnings {
        lines.push(format!("  {} {}", dim("warning:"), harmless(&warning.detail)));
    }
    lines.push(dim(&client.page(&path(&it.slug))));
    lines.join("\n")
}

pub(super) fn apply(
    client: &Client,
    out: &Output,
    file: &Path,
    slug: Option<&str>,
) -> anyhow::Result<ExitCode> {
    let (_, source) = local::read(file)?;
    // Errors are checked locally, where they can be shown with the source line.
    if !local::is_valid(&source) {
        return local::validate(file, out.json);
    }
    let slug = match slug {
        Some(slug) => slug.to_owned(),
        None => slug_of(file).context("cannot derive a slug from the file name; set one with --slug")?,
    };
    let definition = DefinitionText::Text(source);
    let known = client.get::<Pipeline>(&path(&slug));
    let applied = match known {
        Ok(_) => {
            client.put::<Pipeline>(&format!("{}/definition", path(&slug)), &DefinitionNew { definition })
        }
        Err(error) if error.downcast_ref::<Failure>().is_some_and(|it| it.code() == Some("not_found")) => {
            client.post("/pipelines", &PipelineNew { slug, name: None, definition })
        }
        Err(error) => Err(error),
    }?;
    out.told(&applied.raw, || describe(client, &applied.data))?;
    Ok(ExitCode::SUCCESS)
}

/// `.berth/shop/pipeline.yaml` is the pipeline `shop`, and so is `shop.yaml`.
fn slug_of(file: &Path) -> Option<String> {
    let parent = file.parent()?.file_name().and_then(|name| name.to_str());
    let stem = file.file_stem()?.to_str()?;
    Some(if stem == "pipeline" { parent?.to_owned() } else { stem.to_owned() })
}

pub(super) fn change(
    client: &Client,
    out: &Output,
    pipeline: &str,
    what: &str,
    reason: Option<String>,
) -> anyhow::Result<()> {
    let changed = client.post::<Pipeline>(&format!("{}/{what}", path(pipeline)), &Because { reason })?;
    out.told(&changed.raw, || describe(client, &changed.data))
}

pub(super) fn remove(client: &Client, out: &Output, pipeline: &str, force: bool) -> anyhow::Result<()> {
    let gone = client.delete::<Pipeline>(&format!("{}?force={force}", path(pipeline)))?;
    out.told(&gone.raw, || format!("Removed {}; its events are kept.", gone.data.slug))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pipeline_slug_follows_the_file_path() {
        let slug = |file: &str| slug_of(Path::new(file));
        assert_eq!(slug(".berth/shop/pipeline.yaml").as_deref(), Some("shop"));
        assert_eq!(slug("shop.yaml").as_deref(), Some("shop"));
        assert_eq!(slug("pipeline.yaml"), None);
    }
}
