//! Builds of step registries: list builds and read their logs.

use berth_api::log::LogEntry;
use berth_api::registry as wire;
use berth_core::access::permit;
use berth_core::registry::{BuildStatus, RegistryBuild};
use berth_store::pagination::PageStart;
use berth_store::tables::registry_build;

use super::registries::find;
use super::{ApiResponse, App, ResponsePage};
use crate::auth::authorize::AuthorizedCaller;
use crate::error::AppError;
use crate::limits::BUILD_LOG_LINES_MAX;

/// The part of a build log to return.
#[derive(Debug, Clone, Copy)]
pub enum BuildLogPart {
    /// A range of lines, inclusive on both ends.
    Lines {
        from: u64,
        to: u64,
    },
    Tail(u64),
}

impl App {
    pub async fn list_registry_builds(
        &self,
        who: &AuthorizedCaller<permit::RegistriesRead>,
        key: String,
        from: PageStart,
        limit: i64,
    ) -> Result<ResponsePage<wire::StepRegistryBuild>, AppError> {
        self.read(who, move |db| {
            let found = find(db, &key)?;
            let slice = registry_build::list(db, found.id, &from, limit)?;
            let last = slice.items.last().map(|build| build.number.to_string());
            let items = slice.items.iter().map(to_response).collect();
            Ok(ResponsePage { last, items, total: slice.total, has_more: slice.has_more })
        })
        .await
    }

    pub async fn view_registry_build_log(
        &self,
        who: &AuthorizedCaller<permit::RegistriesRead>,
        key: String,
        number: Option<i64>,
        part: BuildLogPart,
    ) -> Result<ApiResponse<wire::StepRegistryBuildLog>, AppError> {
        let found = self.read(who, move |db| {
            let registry = find(db, &key)?;
            let build = match number {
                Some(number) => registry_build::by_number(db, registry.id, number)?,
                None => None,
            };
            build.ok_or_else(|| AppError::not_found("build"))
        });
        let build = found.await?;
        let log = self.jobs.registries.log(who.org(), build.registry, build.number);
        let bytes = self.services.log_reads.run(who.org(), move || log.read()).await?;
        let bytes = bytes.map_err(|error| AppError::bug(format!("a build's log cannot be read: {error}")))?;
        Ok(ApiResponse::ok(log_response(&build, &bytes, part)))
    }
}

fn to_response(build: &RegistryBuild) -> wire::StepRegistryBuild {
    wire::StepRegistryBuild {
        number: build.number,
        status: match build.status {
            BuildStatus::Building => wire::StepRegistryBuildStatus::Building,
            BuildStatus::Succeeded => wire::StepRegistryBuildStatus::Succeeded,
            BuildStatus::Failed => wire::StepRegistryBuildStatus::Failed,
            BuildStatus::Interrupted => wire::StepRegistryBuildStatus::Interrupted,
        },
        commit: build.commit.clone(),
        started_at: build.started_at.to_string(),
        finished_at: build.finished_at.map(|time| time.to_string()),
        error: build.error.clone(),
    }
}

fn log_response(build: &RegistryBuild, bytes: &[u8], part: BuildLogPart) -> wire::StepRegistryBuildLog {
    let text = String::from_utf8_lossy(bytes);
    let all: Vec<&str> = text.lines().collect();
    let count = all.len() as u64;
    let (from, to) = match part {
        BuildLogPart::Lines { from, to } => (from, to),
        BuildLogPart::Tail(lines) => (count.saturating_sub(lines) + 1, count),
    };
    let numbered = (1u64..).zip(all).filter(|(number, _)| (from..=to).contains(number));
    let mut entries: Vec<LogEntry> = numbered
        .take(BUILD_LOG_LINES_MAX + 1)
        .map(|(line, text)| LogEntry { line, text: text.to_owned(), group: None, truncated: false })
        .collect();
    let more = (entries.len() > BUILD_LOG_LINES_MAX).then(|| entries.pop()).flatten();
    wire::StepRegistryBuildLog {
        number: build.number,
        complete: build.status != BuildStatus::Building,
        bytes: bytes.len() as u64,
        lines: count,
        entries,
        next_line: more.map(|entry| entry.line),
    }
}
