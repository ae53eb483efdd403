//! The integrations for CI systems, run by real implementations of those systems against a real server.

mod github_action;
mod gitlab;
mod page;

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::CliFixture;
use crate::harness::program;

/// Text that would create the file `pwned` if a shell executed it.
const HOSTILE: &str = "$(touch pwned) `touch pwned`\"; touch pwned; '";

/// A git repository with CI files, and a home directory for the CI system.
struct CiRepository {
    dir: TempDir,
    home: TempDir,
}

impl CiRepository {
    fn new() -> Self {
        let repository = Self {
            dir: tempfile::tempdir().expect("a directory"),
            home: tempfile::tempdir().expect("a home"),
        };
        repository.git(&["init", "--quiet", "--initial-branch", "main"]);
        repository.git(&["remote", "add", "origin", "https://github.com/acme/shop.git"]);
        std::fs::create_dir(repository.bin()).expect("a directory");
        std::os::unix::fs::symlink(program(), repository.bin().join("berth")).expect("a link");
        repository
    }

    /// A directory with the program `berth`, for PATH.
    fn bin(&self) -> PathBuf {
        self.home.path().join("bin")
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.dir.path().join(path);
        std::fs::create_dir_all(path.parent().expect("a directory")).expect("it is made");
        std::fs::write(path, text).expect("a file");
    }

    /// Copies a file of `integrations/` into the repository.
    fn copy_integration(&self, from: &str, to: &str) {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../integrations");
        self.write(to, &std::fs::read_to_string(root.join(from)).expect("the integration"));
    }

    fn git(&self, args: &[&str]) -> String {
        let mut command = Command::new("git");
        command.args(["-c", "user.name=Grace", "-c", "user.email=grace@acme.test"]).args(args);
        let ran = command.current_dir(self.dir.path()).output().expect("git");
        assert!(ran.status.success(), "{args:?}: {}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8(ran.stdout).expect("text").trim().to_owned()
    }

    /// Commits all files and returns the commit.
    fn commit(&self) -> String {
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--allow-empty", "--message", "CI"]);
        self.git(&["rev-parse", "HEAD"])
    }

    /// A command in the repository that does not inherit the settings of the user who runs the tests.
    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        let path = std::env::var("PATH").unwrap_or_default();
        command.env_clear().current_dir(self.dir.path());
        command.env("HOME", self.home.path()).env("PATH", format!("{}:{path}", self.bin().display()));
        command
    }

    fn is_unharmed(&self) -> bool {
        let mut find = Command::new("find");
        find.args([self.dir.path(), self.home.path()]).args(["-name", "pwned"]);
        find.output().expect("find").stdout.is_empty()
    }
}

impl CliFixture {
    fn url(&self) -> String {
        format!("http://{}", self.server.address)
    }
}

/// A file that is served over HTTP.
struct ServedFile {
    address: String,
    sha256: String,
}

impl ServedFile {
    fn serve(body: Vec<u8>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address").to_string();
        let sha256 = sha256sum(&body);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.expect("a connection");
                let mut request = [0; 4_096];
                let _ = stream.read(&mut request);
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
                let _ = stream.write_all(&[head.as_bytes(), &body].concat());
            }
        });
        Self { address, sha256 }
    }

    /// A script that runs the program under test, because the program itself is large.
    fn serve_program() -> Self {
        Self::serve(launcher())
    }

    /// The same script in an archive like those of `cargo xtask dist`.
    fn serve_archive() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let inner = dir.path().join("berth-0.1.0-linux-x86_64");
        std::fs::create_dir(&inner).expect("a directory");
        std::fs::write(inner.join("berth"), launcher()).expect("a file");
        std::fs::write(inner.join("README.md"), "").expect("a file");
        let mut tar = Command::new("tar");
        tar.args(["-czf", "-", "-C"]).arg(dir.path()).arg("berth-0.1.0-linux-x86_64");
        Self::serve(tar.output().expect("tar").stdout)
    }

    fn url(&self, name: &str) -> String {
        format!("http://{}/{name}", self.address)
    }
}

fn sha256sum(body: &[u8]) -> String {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(body).expect("it is written");
    let ran = Command::new("sha256sum").arg(file.path()).output().expect("sha256sum");
    String::from_utf8(ran.stdout).expect("text")[..64].to_owned()
}

fn launcher() -> Vec<u8> {
    format!("#!/bin/sh\nexec {} \"$@\"\n", program().display()).into_bytes()
}
