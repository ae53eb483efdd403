//! Copies a registry's source as a git checkout would contain it: without ignored files and installed packages.

use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context as _;

/// Maximum number of files in a registry.
const FILES_MAX: usize = 20_000;
/// Names that are not copied from a directory outside of git, because `.gitignore` has no effect there.
const EXCLUDED: &[&str] = &[".git", "node_modules"];

/// Copies the source and returns the number of files.
pub(super) fn copy_source(from: &Path, to: &Path) -> anyhow::Result<usize> {
    let files = match list_git_files(from) {
        Some(files) => files,
        None => list_all_files(from)?,
    };
    if files.len() > FILES_MAX {
        anyhow::bail!("{} has more than {FILES_MAX} files; is it a registry?", from.display());
    }
    std::fs::create_dir_all(to).with_context(|| format!("cannot create {}", to.display()))?;
    for file in &files {
        let (source, target) = (from.join(file), to.join(file));
        let parent = target.parent().unwrap_or(to);
        std::fs::create_dir_all(parent).with_context(|| format!("cannot create {}", parent.display()))?;
        let cannot = || format!("cannot copy {}", source.display());
        match std::fs::symlink_metadata(&source) {
            // The file was deleted, but is still in the git index.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error).with_context(cannot),
            Ok(meta) if meta.is_symlink() => {
                let leads_to = std::fs::read_link(&source).with_context(cannot)?;
                std::os::unix::fs::symlink(leads_to, &target).with_context(cannot)?;
            }
            Ok(meta) if meta.is_file() => {
                std::fs::copy(&source, &target).with_context(cannot)?;
            }
            Ok(_) => {}
        }
    }
    Ok(files.len())
}

/// Returns `None` if the directory is not a git work tree.
fn list_git_files(dir: &Path) -> Option<Vec<PathBuf>> {
    let told = Command::new("git")
        .arg("-C")
        .arg(dir)
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()
        .filter(|told| told.status.success())?;
    let names = String::from_utf8(told.stdout).ok()?;
    let is_below = |path: &PathBuf| path.components().all(|part| matches!(part, Component::Normal(_)));
    Some(names.split('\0').filter(|name| !name.is_empty()).map(PathBuf::from).filter(is_below).collect())
}

fn list_all_files(dir: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut waiting = vec![PathBuf::new()];
    while let Some(below) = waiting.pop() {
        let looked_at = dir.join(&below);
        let entries =
            std::fs::read_dir(&looked_at).with_context(|| format!("cannot read {}", looked_at.display()))?;
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name();
            if EXCLUDED.iter().any(|left| name == *left) {
                continue;
            }
            match entry.file_type()?.is_dir() {
                true => waiting.push(below.join(name)),
                false => files.push(below.join(name)),
            }
            if files.len() > FILES_MAX {
                return Ok(files);
            }
        }
    }
    Ok(files)
}
