//! The parts of the file system that a step can see: system directories, and paths that the operator exposes.

use std::collections::BTreeSet;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

/// Directories with programs and libraries.
const SYSTEM: &[&str] =
    &["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store", "/gnu/store"];
const SETTINGS: &str = "/etc";
/// The server's configuration, which may contain credentials.
const OWN_SETTINGS: &str = "/etc/berth";
/// Entries of `/etc` that programs need and steps may see; `*` stands for any suffix. Each visible entry is a mount,
/// which takes about 0.1 ms per step.
const SHOWN_SETTINGS: &[&str] = &[
    "ImageMagick*",
    "R",
    "alpine-release",
    "alternatives",
    "ant",
    "chromium.d",
    "containers",
    "crypto-policies",
    "debian_version",
    "dotnet",
    "fonts",
    "gemrc",
    "gitattributes",
    "gitconfig",
    "gnutls",
    "gradle",
    "group",
    "hostname",
    "hosts",
    "java*",
    "krb5.conf*",
    "ld-musl*",
    "ld.so.cache",
    "ld.so.preload",
    "locale.conf",
    "localtime",
    "lsb-release",
    "maven",
    "mime.types",
    "mtab",
    "nix",
    "node*",
    "npmrc",
    "nsswitch.conf",
    "os-release",
    "passwd",
    "php*",
    "pip.conf",
    "pki",
    "profile*",
    "protocols",
    "redhat-release",
    "resolv.conf",
    "ruby*",
    "services",
    "ssh",
    "ssl",
    "static",
    "system-release",
    "texmf",
    "timezone",
    "wgetrc",
    "xml",
];
/// Configuration of name resolution. On many machines it is a symlink into `/run`.
const RESOLVER: &str = "/etc/resolv.conf";
/// Maximum number of entries that are scanned in `/etc`.
const SETTINGS_MAX: usize = 50_000;
const READ_BY_ALL: u32 = 0o004;
const ENTERED_BY_ALL: u32 = 0o005;

/// The paths that steps can see. All paths are absolute and, except for symlinks, canonical.
#[derive(Debug, Clone, Default)]
pub(super) struct VisiblePaths {
    /// System directories, visible read-only.
    pub(super) dirs: Vec<PathBuf>,
    /// Symlinks of the system, such as `/bin`, with their targets.
    pub(super) links: Vec<(PathBuf, PathBuf)>,
    /// Exposed files, sockets and directories, visible read-only.
    pub(super) exposed: Vec<PathBuf>,
    /// The subset of `exposed` that the operator has configured.
    pub(super) chosen: Vec<PathBuf>,
    /// Paths that steps must not see.
    pub(super) hidden: Vec<PathBuf>,
}

/// The entries of `/etc` that steps can see.
#[derive(Debug, Default)]
pub(super) struct VisibleSettings {
    /// Files and directories.
    pub(super) paths: Vec<PathBuf>,
    /// Symlinks with their targets.
    pub(super) links: Vec<(PathBuf, PathBuf)>,
}

impl VisibleSettings {
    /// Lists the entries of `/etc` that are on the allow list and that all users can currently read. `/etc` as a whole
    /// is not made visible: a mount that covers a private file in it would disappear as soon as another file is renamed
    /// over that file.
    pub(super) fn find() -> Self {
        Self::find_in(Path::new(SETTINGS))
    }

    fn find_in(dir: &Path) -> Self {
        let mut found = Self::default();
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            let path = entry.path();
            if !is_shown(&path, dir) {
                continue;
            }
            let Ok(about) = path.symlink_metadata() else { continue };
            if about.is_symlink() {
                found.links.extend(std::fs::read_link(&path).ok().map(|target| (path, target)));
            } else if is_public(&about) {
                found.paths.push(path);
            }
        }
        found
    }
}

/// Whether `path` is on the allow list for `settings` (the `/etc` directory), or inside an entry of that list.
fn is_shown(path: &Path, settings: &Path) -> bool {
    let inner = path.strip_prefix(settings).ok();
    let name = inner.and_then(|inner| inner.iter().next()?.to_str());
    name.is_some_and(|name| {
        SHOWN_SETTINGS.iter().any(|shown| match shown.strip_suffix('*') {
            Some(prefix) => name.starts_with(prefix),
            None => name == *shown,
        })
    })
}

fn is_public(about: &Metadata) -> bool {
    let for_all = if about.is_dir() { ENTERED_BY_ALL } else { READ_BY_ALL };
    about.mode() & for_all == for_all
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
    /// Determines the visible paths. A hidden file is hidden together with its directory: a mount over a single file
    /// would disappear as soon as another file is renamed over that file.
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
        let own_settings = PathBuf::from(OWN_SETTINGS);
        for path in hidden.iter().chain(own_settings.is_dir().then_some(&own_settings)) {
            visible.hide(path)?;
        }
        Ok(visible)
    }

    /// Hides another directory. For a file, hides the directory that contains it.
    pub(super) fn hide(&mut self, path: &Path) -> Result<(), HiddenPathError> {
        let missing = |source| HiddenPathError::Missing { path: path.to_owned(), source };
        let mut dir = path.canonicalize().map_err(missing)?;
        if !dir.is_dir() {
            dir.pop();
        }
        // Refuse to hide a directory that contains a part of the system.
        let settings = PathBuf::from(SETTINGS);
        if self.dirs.iter().chain([&settings]).any(|system| system.starts_with(&dir)) {
            return Err(HiddenPathError::Needed { path: path.to_owned(), dir });
        }
        self.hidden.push(dir);
        Ok(())
    }

    /// Returns the hidden paths that are inside visible directories. The sandbox has to cover these.
    pub(super) fn covered_paths(&self) -> impl Iterator<Item = &Path> {
        let seen = |path: &&PathBuf| {
            is_shown(path, Path::new(SETTINGS))
                || self.dirs.iter().chain(&self.exposed).any(|dir| path.starts_with(dir))
        };
        self.hidden.iter().filter(seen).map(PathBuf::as_path)
    }
}

/// Finds the files in `/etc` that this process can read but other users cannot. They have to be hidden, because steps
/// run as the same user as this process.
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
        // The entry may have been removed since it was listed.
        let Ok(about) = path.symlink_metadata() else { continue };
        if about.is_symlink() || access(&path, Access::READ_OK).is_err() {
            continue;
        }
        match (is_public(&about), about.is_dir()) {
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
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

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

    #[test]
    fn settings_are_visible_if_allowed_and_readable_by_all() {
        let etc = tempfile::tempdir().expect("directory");
        for (name, mode) in [("passwd", 0o644), ("shadow", 0o644), ("wgetrc", 0o600), ("berth", 0o644)] {
            let path = etc.path().join(name);
            std::fs::write(&path, name).expect("file");
            std::fs::set_permissions(&path, Permissions::from_mode(mode)).expect("mode");
        }
        for (name, mode) in [("ssl", 0o755), ("java-17-openjdk", 0o755), ("pki", 0o750), ("cron.d", 0o755)] {
            std::fs::create_dir(etc.path().join(name)).expect("directory");
            std::fs::set_permissions(etc.path().join(name), Permissions::from_mode(mode)).expect("mode");
        }
        symlink("/usr/share/zoneinfo/UTC", etc.path().join("localtime")).expect("link");
        let found = VisibleSettings::find_in(etc.path());
        let mut names: Vec<_> = found.paths.iter().filter_map(|path| path.file_name()?.to_str()).collect();
        names.sort_unstable();
        assert_eq!(names, ["java-17-openjdk", "passwd", "ssl"]);
        assert_eq!(found.links, [(etc.path().join("localtime"), "/usr/share/zoneinfo/UTC".into())]);
        assert!(is_shown(&etc.path().join("ssl/private"), etc.path()));
        assert!(!is_shown(etc.path(), etc.path()) && !is_shown(Path::new("/opt/ssl"), etc.path()));
    }
}
