//! Policy: files that a diff must not change.

use std::fmt;

use serde::Serialize;
use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;

use super::{CHANGED_LINES_MAX, DIFF_BYTES_MAX, FILE_BYTES_MAX, FILES_MAX, PATH_BYTES_MAX};

/// Exceptions to the policy that an admin has permitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DiffPermit {
    /// Whether a diff may change pipeline definitions, which are below `.berth/`.
    pub definitions: bool,
}

/// Why a diff was rejected, and which file caused the rejection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct DiffRejection {
    pub reason: RejectionReason,
    /// The path as written in the diff, which is untrusted text.
    pub path: Option<String>,
}

/// Part of the API, serialized in snake_case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum RejectionReason {
    #[error("the diff cannot be read; write it as `git diff` does")]
    Malformed,
    #[error("the diff changes nothing")]
    Empty,
    #[error("the diff is longer than {} KiB", DIFF_BYTES_MAX / 1024)]
    TooLong,
    #[error("the diff changes more than {FILES_MAX} files")]
    TooManyFiles,
    #[error("the diff changes more than {CHANGED_LINES_MAX} lines")]
    TooManyLines,
    #[error("a file is longer than {} KiB", FILE_BYTES_MAX / 1024)]
    FileTooLong,
    #[error("a path leaves the repository, or is written in a way that hides where it leads")]
    Path,
    #[error("files of the pipeline's own definition are changed only where an admin permits it")]
    Definition,
    #[error("files that steer continuous integration are never changed")]
    Automation,
    #[error("files that say who owns what are never changed")]
    Ownership,
    #[error("lock files are never changed")]
    LockFile,
    #[error("settings of package managers are never changed")]
    PackageSettings,
    #[error("the scripts of a package.json are never changed")]
    PackageScripts,
    #[error("git hooks are never changed")]
    Hook,
    #[error("submodules are never changed")]
    Submodule,
    #[error("symbolic links are never changed nor followed")]
    Symlink,
    #[error("binary files are never changed")]
    Binary,
    #[error("files are never renamed or copied")]
    Renamed,
    #[error("the diff does not fit the commit")]
    DoesNotApply,
}

impl RejectionReason {
    pub(super) fn at(self, path: &str) -> DiffRejection {
        DiffRejection { reason: self, path: Some(path.to_owned()) }
    }
}

impl From<RejectionReason> for DiffRejection {
    fn from(reason: RejectionReason) -> Self {
        Self { reason, path: None }
    }
}

const AUTOMATION_DIRECTORIES: &[&str] = &[
    ".github",
    ".gitlab",
    ".gitea",
    ".forgejo",
    ".circleci",
    ".buildkite",
    ".teamcity",
    ".semaphore",
    ".tekton",
    ".azure-pipelines",
    ".azuredevops",
    ".woodpecker",
    ".harness",
    ".cirrus",
    ".concourse",
    ".drone",
];
/// Prefixes of file names.
const AUTOMATION_FILES: &[&str] = &[
    ".gitlab-ci",
    ".travis",
    "jenkinsfile",
    "azure-pipelines",
    "bitbucket-pipelines",
    ".drone",
    ".woodpecker",
    ".cirrus",
    "appveyor",
    ".appveyor",
    "cloudbuild.",
    "buildspec.",
    ".buildkite",
    "wercker.",
    "codefresh.",
    ".build.yml",
    ".builds",
];
const OWNERSHIP_FILES: &[&str] = &["codeowners", "owners", "owners_aliases", "maintainers"];
const LOCK_FILES: &[&str] = &[
    "package-lock.json",
    "npm-shrinkwrap.json",
    "pnpm-lock.yaml",
    "bun.lockb",
    "go.sum",
    "go.work.sum",
    ".terraform.lock.hcl",
    "gradle.lockfile",
    "packages.lock.json",
    "package.resolved",
    "chart.lock",
];
const SETTINGS_FILES: &[&str] = &[
    ".npmrc",
    ".yarnrc",
    ".yarnrc.yml",
    ".pnpmfile.cjs",
    "pnpm-workspace.yaml",
    "pip.conf",
    "pip.ini",
    ".pypirc",
    ".netrc",
    ".gemrc",
    "bunfig.toml",
    "nuget.config",
    "settings.xml",
    ".gitconfig",
];
const HOOK_DIRECTORIES: &[&str] = &[".husky", ".githooks", ".hooks", ".git-hooks", ".lefthook"];
const HOOK_FILES: &[&str] =
    &[".pre-commit-config.yaml", "lefthook.", ".lefthook.", ".huskyrc", ".lintstagedrc"];

/// Checks whether a path may be changed. Ignores case, as some file systems do.
pub(super) fn check_path(path: &str, is_new: bool, permit: DiffPermit) -> Result<(), DiffRejection> {
    let refused = |reason: RejectionReason| Err(reason.at(path));
    // An existing file keeps its name, but a new name must be valid on every platform.
    if !is_plain(path) || (is_new && path.contains(['"', '*', '?', '<', '>', '|'])) {
        return refused(RejectionReason::Path);
    }
    let lower = path.to_lowercase();
    let parts: Vec<&str> = lower.split('/').collect();
    let (directories, name) = (&parts[..parts.len() - 1], parts[parts.len() - 1]);
    let is_below = |list: &[&str]| directories.iter().any(|part| list.contains(part));
    let is_like = |list: &[&str]| list.iter().any(|known| name.starts_with(known));
    if parts[0] == ".berth" && !permit.definitions {
        return refused(RejectionReason::Definition);
    }
    if is_below(AUTOMATION_DIRECTORIES) || AUTOMATION_DIRECTORIES.contains(&name) || is_like(AUTOMATION_FILES)
    {
        return refused(RejectionReason::Automation);
    }
    if OWNERSHIP_FILES.contains(&name) {
        return refused(RejectionReason::Ownership);
    }
    if LOCK_FILES.contains(&name) || name.ends_with(".lock") || name.ends_with("-lock.json") {
        return refused(RejectionReason::LockFile);
    }
    let is_cargo_config = directories.last() == Some(&".cargo") && name.starts_with("config");
    if SETTINGS_FILES.contains(&name) || is_cargo_config {
        return refused(RejectionReason::PackageSettings);
    }
    if is_below(HOOK_DIRECTORIES) || is_like(HOOK_FILES) {
        return refused(RejectionReason::Hook);
    }
    if name == ".gitmodules" {
        return refused(RejectionReason::Submodule);
    }
    Ok(())
}

/// Whether the path is relative, normalized and free of characters that could mislead a reader.
fn is_plain(path: &str) -> bool {
    let is_part = |part: &str| {
        let trimmed = part.trim_end_matches(['.', ' ']).to_lowercase();
        !part.is_empty() && trimmed.len() == part.len() && trimmed != ".git" && !trimmed.starts_with("git~")
    };
    (1..=PATH_BYTES_MAX).contains(&path.len())
        && crate::clean(path) == path
        && !path.contains(['\\', ':', '\u{fffd}'])
        && path.split('/').all(is_part)
}

/// Rejects changes to the scripts of a package.json, because package managers run them during an install.
pub(super) fn check_scripts(
    path: &str,
    before: Option<&str>,
    after: Option<&str>,
) -> Result<(), DiffRejection> {
    let name = path.rsplit('/').next().unwrap_or_default();
    if !name.eq_ignore_ascii_case("package.json") {
        return Ok(());
    }
    let (before, after) = (steering_values(before), steering_values(after));
    match (before, after) {
        (Ok(before), Ok(after)) if before == after => Ok(()),
        _ => Err(RejectionReason::PackageScripts.at(path)),
    }
}

/// Keys of a package.json that run commands or change where packages come from.
const STEERING: &[&str] = &["scripts", "packageManager", "pnpm", "gypfile", "publishConfig"];

/// Returns the values of the [`STEERING`] keys. A duplicate key is an error, because parsers differ in which of the
/// values they use.
fn steering_values(text: Option<&str>) -> Result<Vec<(String, Value)>, serde_json::Error> {
    text.map_or(Ok(Vec::new()), |text| serde_json::from_str::<SteeringValues>(text).map(|found| found.0))
}

struct SteeringValues(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for SteeringValues {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        reader.deserialize_map(SteeringVisitor)
    }
}

struct SteeringVisitor;

impl<'de> Visitor<'de> for SteeringVisitor {
    type Value = SteeringValues;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<SteeringValues, A::Error> {
        let mut found: Vec<(String, Value)> = Vec::new();
        while let Some((name, value)) = map.next_entry::<String, Value>()? {
            if found.iter().any(|(known, _)| *known == name) {
                return Err(de::Error::custom("a name is there twice"));
            }
            if STEERING.contains(&name.as_str()) {
                found.push((name, value));
            }
        }
        Ok(SteeringValues(found))
    }
}
