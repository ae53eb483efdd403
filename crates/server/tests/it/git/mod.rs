//! Git with real repositories: mirrors, checkouts, and hostile repositories.

mod authors;
mod branch;
mod history;
mod hostile;
mod http_server;
mod lfs;
mod lfs_server;
mod mirror;
mod names;
mod partial;
mod pull_requests;
pub(crate) mod submodules;

pub(crate) use http_server::serve_git;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use berth_core::repository::RemoteUrl;
use berth_engine::git::{CommitHash, GitMirror, RepositoryAccess};

/// Timeout of every wait.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// A repository with a work tree, like that of a developer.
pub(crate) struct OriginRepository {
    dir: tempfile::TempDir,
}

impl OriginRepository {
    pub(crate) fn new() -> Self {
        let made = Self { dir: tempfile::tempdir().unwrap() };
        made.git(&["init", "--quiet", "--initial-branch=main"]);
        made
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn url(&self) -> RemoteUrl {
        RemoteUrl::parse(&self.path().display().to_string()).unwrap()
    }

    /// Runs git in the repository, without the configuration of the user who runs the tests.
    pub(crate) fn git(&self, args: &[&str]) -> String {
        let ran = Command::new("git")
            .args(["-c", "user.name=Ada", "-c", "user.email=ada@acme.test", "-c", "commit.gpgSign=false"])
            .args(args)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .current_dir(self.path())
            .output()
            .unwrap();
        assert!(ran.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8(ran.stdout).unwrap().trim().to_owned()
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// Commits all changes.
    pub(crate) fn commit(&self, message: &str) -> CommitHash {
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--allow-empty", "-m", message]);
        CommitHash::parse(&self.git(&["rev-parse", "HEAD"])).unwrap()
    }

    /// Creates commits until two of their hashes have the same first four characters, and returns these two.
    pub(crate) fn create_similar_commits(&self) -> [CommitHash; 2] {
        let tree = self.git(&["rev-parse", "HEAD^{tree}"]);
        let mut parent = self.git(&["rev-parse", "HEAD"]);
        let mut seen = std::collections::HashMap::new();
        for number in 0.. {
            let message = format!("commit {number}");
            parent = self.git(&["commit-tree", &tree, "-p", &parent, "-m", &message]);
            if let Some(other) = seen.insert(parent[..4].to_owned(), parent.clone()) {
                self.git(&["update-ref", "HEAD", &parent]);
                return [other, parent].map(|sha| CommitHash::parse(&sha).unwrap());
            }
        }
        unreachable!("there are only so many beginnings")
    }
}

struct MirrorFixture {
    mirror: GitMirror,
    path: PathBuf,
    dir: tempfile::TempDir,
}

fn create_mirror() -> MirrorFixture {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("git/org/rep.git");
    MirrorFixture { mirror: GitMirror::standalone(path.clone(), PATIENCE), path, dir }
}

fn unrestricted_access() -> RepositoryAccess {
    RepositoryAccess { is_local: true, roots: Vec::new(), hosts: Vec::new() }
}
