//! What a step sees of the file system: system directories and paths that the operator exposes.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

/// Programs, libraries and configuration.
const SYSTEM: &[&str] = &[
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    SETTINGS,
    "/opt",
    "/nix/store",
    "/gnu/store",
];
const SETTINGS: &str = "/etc";
/// Configures name resolution; on many machines a symlink into `/run`.
const RESOLVER: &str = "/etc/resolv.conf";
/// Limit for entries scanned in `/etc`.
const SETTINGS_MAX: usize = 50_000;
const READ_BY_ALL: u32 = 0o004;
const ENTERED_BY_ALL: u32 = 0o005;

/// Paths are absolute and, except for links, canonical.
#[derive(Debug, Clone, Default)]
pub(super) struct VisiblePaths {
    /// System directories, read-only.
    pub(super) dirs: Vec<PathBuf>,
    /// Symbolic links of the system, such as `/bin`, with their targets.
    pub(super) links: Vec<(PathBuf, PathBuf)>,
    /// Files, sockets or directories, read-only.
    pub(super) exposed: Vec<PathBuf>,
    /// The exposed paths that the operator configured.
    pub(super) chosen: Vec<PathBuf>,
    /// Paths that must not be visible.
    pub(super) hidden: Vec<PathBuf>,
}

/// Why a path cannot be hidden or exposed.
#[derive(Debug, thiserror::Error)]
pub enum HiddenPathError {
    #[error("{path} must be hidden from steps, but cannot be found: {source}")]
    Missing { path: PathBuf, source: io::Error },
    #[error("{path} cannot be exposed to steps: {source}")]
    Unexposed { path: PathBuf, source: io::Error },
    #[error(
        "{path} must be hidden from steps, but {dir} cannot be hidden: move it into a directory of its own"
    )]
    Needed { path: PathBuf, dir: PathBuf },
    #[error("{SETTINGS} cannot be searched for files that only their owner may read: {0}")]
    Settings(io::Error),
}

impl VisiblePaths {
    /// Hides a file together with its directory: a mount over a single file would disappear when the file is
    /// replaced by rename.
    pub(super) fn find(hidden: &[PathBuf], exposed: &[PathBuf]) -> Result<Self, HiddenPathError> {
        let (mut dirs, mut links) = (Vec::new(), Vec::new());
        for path in SYSTEM.iter().map(PathBuf::from) {
            match std::fs::read_link(&path) {
                Ok(target) => links.push((path, target)),
                Err(_) if path.is_dir() => dirs.push(path),
                Err(_) => {}
            }
        }
        let canonical = |path: &PathBuf| {
            path.canonicalize().map_err(|source| HiddenPathError::Unexposed { path: path.clone(), source })
        };
        let chosen: Vec<PathBuf> = exposed.iter().map(canonical).collect::<Result<_, _>>()?;
        let exposed = chosen.iter().cloned().chain(Path::new(RESOLVER).canonicalize()).collect();
        let mut visible = Self { dirs, links, exposed, chosen, hidden: Vec::new() };
        visible.hidden = private_settings().map_err(HiddenPathError::Settings)?;
        for path in hidden {
            visible.hide(path)?;
        }
        Ok(visible)
    }

    /// Hides one more directory, or the directory of a file.
    pub(super) fn hide(&mut self, path: &Path) -> Result<(), HiddenPathError> {
        let missing = |source| HiddenPathError::Missing { path: path.to_owned(), source };
        let mut dir = path.canonicalize().map_err(missing)?;
        if !dir.is_dir() {
            dir.pop();
        }
        // Hiding it would hide part of the system.
        if self.dirs.iter().any(|system| system.starts_with(&dir)) {
            return Err(HiddenPathError::Needed { path: path.to_owned(), dir });
        }
        self.hidden.push(dir);
        Ok(())
    }

    /// Hidden paths inside visible directories, which have to be covered.
    pub(super) fn covered_paths(&self) -> impl Iterator<Item = &Path> {
        let seen = |path: &&PathBuf| self.dirs.iter().chain(&self.exposed).any(|dir| path.starts_with(dir));
        self.hidden.iter().filter(seen).map(PathBuf::as_path)
    }
}

/// Finds files in `/etc` that this process can read and other users cannot, because a step runs as the same user.
fn private_settings() -> io::Result<Vec<PathBuf>> {
    let mut found = BTreeSet::new();
    let mut left = SETTINGS_MAX;
    collect_private(Path::new(SETTINGS), &mut found, &mut left)?;
    Ok(found.into_iter().collect())
}

fn collect_private(dir: &Path, found: &mut BTreeSet<PathBuf>, left: &mut usize) -> io::Result<()> {
    for entry in std::fs::read_dir(dir)? {
        *left = left.checked_sub(1).ok_or_else(|| io::Error::other("there are too many files"))?;
        let path = entry?.path();
        // It may have been removed since readdir.
        let Ok(about) = path.symlink_metadata() else { continue };
        if about.is_symlink() || access(&path, Access::READ_OK).is_err() {
            continue;
        }
        let for_all = if about.is_dir() { ENTERED_BY_ALL } else { READ_BY_ALL };
        match (about.mode() & for_all == for_all, about.is_dir()) {
            (true, true) => collect_private(&path, found, left)?,
            (true, false) => {}
            (false, is_dir) if is_dir || dir == Path::new(SETTINGS) => drop(found.insert(path)),
            (false, _) => drop(found.insert(dir.to_owned())),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_is_hidden_with_its_directory_unless_needed_by_system() {
        let dir = tempfile::tempdir().expect("directory");
        let key = dir.path().join("root.key");
        std::fs::write(&key, "key").expect("file");
        let visible = VisiblePaths::find(std::slice::from_ref(&key), &[]).expect("hidden");
        assert!(visible.hidden.contains(&dir.path().canonicalize().expect("canonical")));
        for needed in ["/etc/passwd", "/etc", "/"] {
            let refused = VisiblePaths::find(&[needed.into()], &[]);
            assert!(matches!(refused, Err(HiddenPathError::Needed { .. })), "{needed}: {refused:?}");
        }
        let missing = VisiblePaths::find(&[dir.path().join("not there")], &[]);
        assert!(matches!(missing, Err(HiddenPathError::Missing { .. })), "{missing:?}");
    }
}
