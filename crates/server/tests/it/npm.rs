//! npm packages that tests use. `cargo xtask test` installs them. If one is missing, tests that need it report that.

use std::fs::File;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use berth_testkit::outcome;

/// Environment variable that names the directory in whose `node_modules` the packages are installed.
const VARIABLE: &str = "BERTH_TEST_NPM";
const START_MAX: Duration = Duration::from_secs(240);

/// Returns the path of a file in an installed package. If the package is missing, reports that and returns `None`.
pub(crate) fn package_file(path: &str) -> Option<PathBuf> {
    let dir = std::env::var_os(VARIABLE).map(PathBuf::from);
    let found = dir.map(|dir| dir.join("node_modules").join(path)).filter(|path| path.exists());
    if found.is_none() {
        outcome::skip(path, &format!("`cargo xtask test` installs it and names it in {VARIABLE}"));
    }
    found
}

/// A Node.js program that serves HTTP. It is killed on drop.
pub(crate) struct NodeServer {
    pub(crate) url: String,
    child: Child,
    _dir: tempfile::TempDir,
}

impl NodeServer {
    /// Runs `node <program> <args>`, with `PORT` in the arguments replaced by a free port, and waits until the program
    /// responds.
    pub(crate) fn start(program: &std::path::Path, args: &[&str]) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        let said = File::create(&log).unwrap();
        let args = args.iter().map(|arg| arg.replace("PORT", &port.to_string()));
        let mut command = Command::new("node");
        command.arg(program).args(args).current_dir(dir.path());
        command.stdin(Stdio::null()).stdout(said.try_clone().unwrap()).stderr(said);
        let mut served =
            Self { url: format!("http://127.0.0.1:{port}"), child: command.spawn().unwrap(), _dir: dir };
        let deadline = Instant::now() + START_MAX;
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            let said = || std::fs::read_to_string(&log).unwrap_or_default();
            assert!(served.child.try_wait().unwrap().is_none(), "it ended: {}", said());
            assert!(Instant::now() < deadline, "it does not listen: {}", said());
            std::thread::park_timeout(Duration::from_millis(50));
        }
        served
    }
}

impl Drop for NodeServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
