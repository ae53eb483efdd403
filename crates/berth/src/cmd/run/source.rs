//! Finds the local definition and takes a snapshot of the files around it.
//!
//! The snapshot is a separate git repository with everything a server would check out, plus uncommitted files. The
//! user's repository and files are not modified.

use std::ffi::OsStr;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context as _;

use crate::client::ClientError;

const DIR: &str = ".berth";
const FILE: &str = "pipeline.yaml";
/// Branch that contains only the definition that the server reads. The project's files are on another branch, and the
/// definition among them may be different.
const DEFINITION_BRANCH: &str = "definition";
const FILES_BRANCH: &str = "files";

pub(super) struct LocalProject {
    /// The directory that contains `.berth`.
    pub(super) root: PathBuf,
    pub(super) slug: String,
    pub(super) file: PathBuf,
}

impl LocalProject {
    /// Searches this directory and its parents.
    pub(super) fn find(from: &Path, pipeline: Option<&str>) -> anyhow::Result<Self> {
        let from = from.canonicalize().with_context(|| format!("cannot read {}", from.display()))?;
        let root = from.ancestors().find(|dir| dir.join(DIR).is_dir()).ok_or_else(|| {
            ClientError::NotFound(format!(
                "no {DIR}/NAME/{FILE} in {} or its parent directories",
                from.display()
            ))
        })?;
        let known = list_pipelines(root)?;
        let slug = match (pipeline, known.as_slice()) {
            (Some(wanted), _) if known.iter().any(|it| it == wanted) => wanted.to_owned(),
            (Some(wanted), _) => {
                let there = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                return Err(
                    ClientError::NotFound(format!("no pipeline {wanted} here; pipelines: {there}")).into()
                );
            }
            (None, [only]) => only.clone(),
            (None, []) => {
                let text = format!("no {DIR}/NAME/{FILE} in {}", root.display());
                return Err(ClientError::NotFound(text).into());
            }
            (None, several) => {
                let text =
                    format!("several pipelines found; choose one with --pipeline: {}", several.join(", "));
                return Err(ClientError::Usage(text).into());
            }
        };
        let file = root.join(DIR).join(&slug).join(FILE);
        Ok(Self { root: root.to_owned(), slug, file })
    }

    /// Returns the definition's path, relative to the current directory if possible.
    pub(super) fn display_path(&self) -> PathBuf {
        let here = std::env::current_dir().and_then(|it| it.canonicalize());
        let nearer = here.ok().and_then(|here| self.file.strip_prefix(here).ok().map(Path::to_owned));
        nearer.unwrap_or_else(|| self.file.clone())
    }
}

fn list_pipelines(root: &Path) -> anyhow::Result<Vec<String>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(root.join(DIR)).with_context(|| format!("cannot read {DIR}"))? {
        let entry = entry?;
        if entry.path().join(FILE).is_file() {
            found.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    found.sort();
    Ok(found)
}

/// A git repository with a copy of a project's files.
pub(super) struct SourceSnapshot {
    pub(super) commit: String,
    pub(super) files: usize,
}

impl SourceSnapshot {
    /// Creates the snapshot. `definition` is the one that the server will read.
    pub(super) fn create(project: &LocalProject, definition: &str, into: &Path) -> anyhow::Result<Self> {
        let git = SnapshotRepository { repository: into, root: &project.root };
        let init = ["init", "--quiet", "--bare", &format!("--initial-branch={DEFINITION_BRANCH}")];
        run_git(Command::new("git").args(init).arg(into), None)?;
        match git.list_files()? {
            Some(paths) => git.run(&["update-index", "--add", "--remove", "-z", "--stdin"], Some(&paths))?,
            None => git.run(&["add", "--all", "."], None)?,
        };
        let commit = git.commit(FILES_BRANCH, "index")?;
        let files = git.run(&["ls-files", "-z"], None)?.matches('\0').count();
        let blob = git.run(&["hash-object", "-w", "--stdin"], Some(definition.as_bytes()))?;
        let entry = format!("100644,{},{DIR}/{}/{FILE}", blob.trim(), project.slug);
        git.with_index("definition-index", &["update-index", "--add", "--cacheinfo", &entry])?;
        git.commit(DEFINITION_BRANCH, "definition-index")?;
        Ok(Self { commit, files })
    }
}

struct SnapshotRepository<'a> {
    repository: &'a Path,
    root: &'a Path,
}

impl SnapshotRepository<'_> {
    /// Lists tracked and untracked files, except ignored ones. Returns `None` outside of a git repository.
    fn list_files(&self) -> anyhow::Result<Option<Vec<u8>>> {
        let mut git = git_command();
        git.arg("-C").arg(self.root);
        git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
        let listed = git.stdin(Stdio::null()).output().context("cannot run git; is it installed?")?;
        if !listed.status.success() {
            return Ok(None);
        }
        let paths = listed.stdout.split_inclusive(|byte| *byte == 0).filter(|path| self.is_file(path));
        Ok(Some(paths.flatten().copied().collect()))
    }

    /// Returns whether a path listed by git belongs in the snapshot, which is the case for files and deleted files. It
    /// is not the case for nested repositories and for directories that replaced a tracked file. Nor is it for paths
    /// below a symlink: git also lists these files at their real location.
    fn is_file(&self, listed: &[u8]) -> bool {
        let path = Path::new(OsStr::from_bytes(listed.strip_suffix(b"\0").unwrap_or(listed)));
        let now = |path: &Path| self.root.join(path).symlink_metadata();
        let is_behind_link = path.ancestors().skip(1).any(|dir| now(dir).is_ok_and(|it| it.is_symlink()));
        !is_behind_link && !now(path).is_ok_and(|it| it.is_dir())
    }

    fn run(&self, args: &[&str], input: Option<&[u8]>) -> anyhow::Result<String> {
        run_git(self.command("index").args(args), input)
    }

    fn with_index(&self, index: &str, args: &[&str]) -> anyhow::Result<String> {
        run_git(self.command(index).args(args), None)
    }

    fn command(&self, index: &str) -> Command {
        let mut git = git_command();
        git.current_dir(self.root);
        git.env("GIT_DIR", self.repository).env("GIT_WORK_TREE", self.root);
        git.env("GIT_INDEX_FILE", self.repository.join(index));
        for role in ["AUTHOR", "COMMITTER"] {
            git.env(format!("GIT_{role}_NAME"), "berth run")
                .env(format!("GIT_{role}_EMAIL"), "run@localhost");
        }
        git
    }

    fn commit(&self, branch: &str, index: &str) -> anyhow::Result<String> {
        let tree = self.with_index(index, &["write-tree"])?;
        let commit = self.with_index(index, &["commit-tree", "-m", branch, tree.trim()])?.trim().to_owned();
        self.run(&["update-ref", &format!("refs/heads/{branch}"), &commit], None)?;
        Ok(commit)
    }
}

/// Returns a git command without the environment variables that a hook or an alias may have set for another repository.
fn git_command() -> Command {
    let mut git = Command::new("git");
    for name in
        ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_OBJECT_DIRECTORY", "GIT_NAMESPACE"]
    {
        git.env_remove(name);
    }
    git.args(["-c", "core.fsmonitor=false", "-c", "core.safecrlf=false"]);
    git
}

fn run_git(git: &mut Command, input: Option<&[u8]>) -> anyhow::Result<String> {
    git.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
    git.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = git.spawn().context("cannot run git; is it installed?")?;
    let feeding = child.stdin.take().zip(input.map(<[u8]>::to_vec)).map(|(mut pipe, input)| {
        // Write on a separate thread: git may produce output before it has read all of its input.
        std::thread::spawn(move || pipe.write_all(&input))
    });
    let done = child.wait_with_output().context("cannot run git")?;
    if let Some(feeding) = feeding {
        // Ignore a write error: if git stopped reading early, it reports its own error.
        feeding.join().ok();
    }
    anyhow::ensure!(
        done.status.success(),
        "cannot take a snapshot of the files: git: {}",
        String::from_utf8_lossy(&done.stderr).trim()
    );
    String::from_utf8(done.stdout).context("the output of git is not valid UTF-8")
}
