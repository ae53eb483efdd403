//! Pipelines on a server.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use berth_api::pipeline::{
    DefinitionNew, DefinitionText, PipelineNew, PipelineStage, PipelineStatus, ReasonBody, WirePipeline,
};

use super::local;
use crate::client::{ApiClient, ApiReply, ClientError, RECORDS_MAX, percent_encode};
use crate::output::time::{format_ago, format_clock};
use crate::output::{
    CommandOutput, bold, colour_word, commit_title, dim, or_dash, short_commit, strip_control_chars,
};

fn pipeline_path(pipeline: &str) -> String {
    format!("/pipelines/{}", percent_encode(pipeline))
}

fn status_word(it: &WirePipeline) -> &'static str {
    match (it.status, &it.retired_at) {
        (PipelineStatus::Stopped, _) => "paused",
        (PipelineStatus::Active, Some(_)) => "retired",
        (PipelineStatus::Active, None) => "active",
    }
}

pub(super) fn list_pipelines(
    client: &ApiClient,
    out: &CommandOutput,
    search: Option<&str>,
) -> anyhow::Result<()> {
    let filter = search.map_or_else(String::new, |text| format!("?search={}", percent_encode(text)));
    let found = client.list::<WirePipeline>(&format!("/pipelines{filter}"), RECORDS_MAX)?;
    let row = |it: &WirePipeline| {
        let stages: Vec<_> = it.stages.iter().map(stage_cell).collect();
        vec![
            it.slug.clone(),
            strip_control_chars(&it.name),
            status_word(it).to_owned(),
            or_dash(Some(&stages.join("  "))),
            or_dash(Some(&it.environments.join(", "))),
        ]
    };
    let rows: Vec<_> = found.data.iter().map(row).collect();
    let empty = "No pipelines. Create one with `berth pipeline apply FILE`, or add a repository with `berth repo add URL`.";
    out.print_table(&found.raw, &["slug", "name", "status", "stages", "environments"], &rows, empty)
}

fn stage_cell(stage: &PipelineStage) -> String {
    let commit = stage.current.as_ref().map_or("-", |it| short_commit(&it.commit_id));
    format!("{}: {commit}", stage.name)
}

pub(super) fn print_pipeline(client: &ApiClient, out: &CommandOutput, pipeline: &str) -> anyhow::Result<()> {
    let found = client.get::<WirePipeline>(&pipeline_path(pipeline))?;
    out.print_reply(&found.raw, || describe(client, &found))
}

fn describe(client: &ApiClient, found: &ApiReply<WirePipeline>) -> String {
    let it = &found.data;
    let mut lines = vec![format!(
        "{}  {}  {}",
        bold(&strip_control_chars(&it.name)),
        it.slug,
        colour_word(status_word(it))
    )];
    if let Some(stopped) = &it.stopped {
        let why = stopped
            .reason
            .as_deref()
            .map_or_else(String::new, |why| format!(": {}", strip_control_chars(why)));
        lines.push(format!(
            "  paused by {} {}{why}",
            strip_control_chars(&stopped.by.name),
            format_ago(&stopped.at)
        ));
    }
    for (at, stage) in it.stages.iter().enumerate() {
        let raw = &found.raw["stages"][at]["current"];
        lines.push(match &stage.current {
            None => format!("  {:<16} not deployed", stage.name),
            Some(now) => {
                let behind = now.behind_by.filter(|count| *count > 0);
                let behind = behind.map_or_else(String::new, |count| format!(", {count} behind"));
                let by = strip_control_chars(&now.by.name);
                format!(
                    "  {:<16} {} since {} by {by}{behind}",
                    stage.name,
                    commit_title(raw, &now.commit_id),
                    format_clock(&now.at)
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
        lines.push(format!("  {} {}", dim("warning:"), strip_control_chars(&warning.detail)));
    }
    lines.push(dim(&client.dashboard_url(&pipeline_path(&it.slug))));
    lines.join("\n")
}

pub(super) fn apply_definition(
    client: &ApiClient,
    out: &CommandOutput,
    file: &Path,
    slug: Option<&str>,
) -> anyhow::Result<ExitCode> {
    let (_, source) = local::read_definition(file)?;
    // Validate locally first, to show errors together with the source line.
    if !local::is_valid(&source) {
        return local::validate(file, out);
    }
    let slug = match slug {
        Some(slug) => slug.to_owned(),
        None => {
            slug_from_path(file).context("cannot derive a slug from the file name; set one with --slug")?
        }
    };
    let definition = DefinitionText::Text(source);
    let known = client.get::<WirePipeline>(&pipeline_path(&slug));
    let applied = match known {
        Ok(_) => client.put::<WirePipeline>(
            &format!("{}/definition", pipeline_path(&slug)),
            &DefinitionNew { definition },
        ),
        Err(error)
            if error.downcast_ref::<ClientError>().is_some_and(|it| it.code() == Some("not_found")) =>
        {
            client.post("/pipelines", &PipelineNew { slug, name: None, definition })
        }
        Err(error) => Err(error),
    }?;
    out.print_reply(&applied.raw, || describe(client, &applied))?;
    Ok(ExitCode::SUCCESS)
}

/// Derives the pipeline's slug from the file name: both `.berth/shop/pipeline.yaml` and `shop.yaml` are `shop`.
fn slug_from_path(file: &Path) -> Option<String> {
    let parent = file.parent()?.file_name().and_then(|name| name.to_str());
    let stem = file.file_stem()?.to_str()?;
    Some(if stem == "pipeline" { parent?.to_owned() } else { stem.to_owned() })
}

pub(super) fn post_change(
    client: &ApiClient,
    out: &CommandOutput,
    pipeline: &str,
    what: &str,
    reason: Option<String>,
) -> anyhow::Result<()> {
    let changed = client
        .post::<WirePipeline>(&format!("{}/{what}", pipeline_path(pipeline)), &ReasonBody { reason })?;
    out.print_reply(&changed.raw, || describe(client, &changed))
}

pub(super) fn remove_pipeline(
    client: &ApiClient,
    out: &CommandOutput,
    pipeline: &str,
    force: bool,
) -> anyhow::Result<()> {
    let gone = client.delete::<WirePipeline>(&format!("{}?force={force}", pipeline_path(pipeline)))?;
    out.print_reply(&gone.raw, || format!("Removed {}; its events are kept.", gone.data.slug))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pipeline_slug_follows_the_file_path() {
        let slug = |file: &str| slug_from_path(Path::new(file));
        assert_eq!(slug(".berth/shop/pipeline.yaml").as_deref(), Some("shop"));
        assert_eq!(slug("shop.yaml").as_deref(), Some("shop"));
        assert_eq!(slug("pipeline.yaml"), None);
    }
}
