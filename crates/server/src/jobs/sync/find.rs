//! Reads and checks the pipeline definitions in a commit.

use berth_api::problem::ProblemDetails;
use berth_core::name::Slug;
use berth_core::pipeline::limits::PIPELINE_BYTES_MAX;
use berth_core::pipeline::state::CheckedDefinition;
use berth_core::repository::SyncProblem;
use berth_engine::definitions::check_definition;
use berth_engine::git::{CommitHash, EntryKind, GitError, GitMirror};

use crate::error::AppError;
use crate::limits::PIPELINES_PER_REPOSITORY_MAX;

pub(super) const FOLDER: &str = ".berth";
const FILE: &str = "pipeline.yaml";
const FOLDERS_MAX: usize = 1_000;
/// Maximum number of diagnostics stored per file.
const DIAGNOSTICS_KEPT_MAX: usize = 20;

/// A pipeline definition without errors.
pub(super) struct ValidDefinition {
    pub(super) slug: Slug,
    pub(super) path: String,
    pub(super) source: String,
    pub(super) defined: CheckedDefinition,
}

#[derive(Default)]
pub(super) struct FoundDefinitions {
    pub(super) good: Vec<ValidDefinition>,
    pub(super) problems: Vec<SyncProblem>,
    /// The slugs of all definition directories, including those with errors. Their pipelines must not be retired.
    pub(super) slugs: Vec<Slug>,
    /// Whether there are more directories than the limit. Pipelines must not be retired then, because their directories
    /// may be among the unread ones.
    pub(super) is_cut: bool,
}

/// Reads the definitions in the head of the default branch, which is `None` in an empty repository. If there are none,
/// the problems say why.
pub(super) fn find_definitions(
    mirror: &GitMirror,
    default_branch: Option<&(String, CommitHash)>,
) -> Result<FoundDefinitions, GitError> {
    let Some((branch, head)) = default_branch else {
        let text = format!("the repository is empty; push a commit with {FOLDER}/<slug>/{FILE}");
        return Ok(FoundDefinitions {
            problems: vec![sync_problem(".", text)],
            ..FoundDefinitions::default()
        });
    };
    let mut found = read_definitions(mirror, head)?;
    if found.slugs.is_empty() && found.problems.is_empty() {
        let has_folder = mirror.entry(head, FOLDER)?.is_some_and(|it| it.kind == EntryKind::Directory);
        let missing = if has_folder { format!("{FOLDER}/<slug>/{FILE}") } else { format!("{FOLDER} folder") };
        let text = format!(
            "branch {branch} has no {missing}; push a commit with {FOLDER}/<slug>/{FILE} to {branch} \
             (docs/pipeline.md describes the file)"
        );
        found.problems.push(sync_problem(FOLDER, text));
    }
    Ok(found)
}

pub(super) fn read_definitions(mirror: &GitMirror, head: &CommitHash) -> Result<FoundDefinitions, GitError> {
    let mut found = FoundDefinitions::default();
    let entries = mirror.list(head, FOLDER)?.into_iter().filter(|entry| entry.kind == EntryKind::Directory);
    for (count, entry) in entries.enumerate() {
        if count == FOLDERS_MAX {
            let text = format!("only the first {FOLDERS_MAX} folders are read; the others are ignored");
            found.problems.push(sync_problem(FOLDER, text));
            found.is_cut = true;
            break;
        }
        let folder = entry.path.rsplit('/').next().unwrap_or_default();
        let path = format!("{FOLDER}/{folder}/{FILE}");
        let bytes = match mirror.read(head, &path, PIPELINE_BYTES_MAX as u64) {
            Ok(None) => continue,
            Ok(Some(bytes)) => Ok(bytes),
            Err(GitError::TooLarge(text)) => Err(text),
            Err(error) => return Err(error),
        };
        if found.slugs.len() == PIPELINES_PER_REPOSITORY_MAX {
            let text = format!(
                "a repository has at most {PIPELINES_PER_REPOSITORY_MAX} pipelines; this one and the following are ignored"
            );
            found.problems.push(sync_problem(&path, text));
            found.is_cut = true;
            break;
        }
        match Slug::parse(folder) {
            Err(error) => {
                found.problems.push(sync_problem(&path, format!("the folder name is the slug and {error}")));
            }
            Ok(slug) => {
                found.slugs.push(slug.clone());
                match check_file(bytes) {
                    Ok((source, defined)) => found.good.push(ValidDefinition { slug, path, source, defined }),
                    Err((message, diagnostics)) => {
                        found.problems.push(SyncProblem { path, message, diagnostics });
                    }
                }
            }
        }
    }
    Ok(found)
}

pub(super) fn sync_problem(path: &str, message: String) -> SyncProblem {
    SyncProblem { path: path.to_owned(), message, diagnostics: Vec::new() }
}

fn check_file(
    bytes: Result<Vec<u8>, String>,
) -> Result<(String, CheckedDefinition), (String, Vec<serde_json::Value>)> {
    let bytes = bytes.map_err(|text| (text, Vec::new()))?;
    let source =
        String::from_utf8(bytes).map_err(|_| ("the file is not UTF-8 text".to_owned(), Vec::new()))?;
    match check_definition(&source) {
        Ok(defined) => Ok((source, defined)),
        Err(error) => {
            let ProblemDetails { detail, more, .. } = AppError::from(error).into_problem();
            let all = more.get("diagnostics").and_then(serde_json::Value::as_array);
            let kept = all.into_iter().flatten().take(DIAGNOSTICS_KEPT_MAX).cloned().collect();
            Err((detail, kept))
        }
    }
}
