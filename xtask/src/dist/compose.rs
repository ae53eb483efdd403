//! Tests of the container image and of the compose file, with Podman.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use berth_testkit::outcome;

use super::{StagedFiles, image, write};
use crate::tool::{output, root};
use crate::{postgres, python};

const START_MAX: Duration = Duration::from_secs(60);
const ROOT_FILE_SYSTEM_BYTES_MAX: u64 = 60_000_000;
/// Lets Podman work on machines with hybrid cgroups and without CAP_SYS_RESOURCE.
const CONTAINERS_CONF: &str = "[containers]\ndefault_ulimits = []\noom_score_adj = 0\n\
    [engine]\ncgroup_manager = \"cgroupfs\"\nevents_logger = \"file\"\nruntime = \"runc\"\n";

/// Containers of one test, with their image. Removed on drop.
struct TestContainers {
    dir: tempfile::TempDir,
    /// Name of the compose project and of the images.
    name: String,
    compose: PathBuf,
    port: u16,
}

impl Drop for TestContainers {
    fn drop(&mut self) {
        // Removes the anonymous volumes too, which `down` keeps.
        let containers = ["berth", "postgres"].map(|service| format!("{}_{service}_1", self.name));
        let _ = self.podman(&["rm", "--force", "--volumes"]).args(&containers).output();
        let _ = self.compose(&["down", "--volumes"]).output();
        for image in [self.image(), self.postgres_image()] {
            let _ = self.podman(&["rmi", "--force", &image]).output();
        }
    }
}

impl TestContainers {
    fn new(python: &Path) -> Self {
        let dir = tempfile::tempdir().unwrap();
        write(&dir.path().join("containers.conf"), CONTAINERS_CONF).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let compose = python.with_file_name("podman-compose");
        Self { dir, name: format!("berth-test-{}", std::process::id()), compose, port }
    }

    fn image(&self) -> String {
        format!("localhost/{}:1", self.name)
    }

    fn postgres_image(&self) -> String {
        format!("localhost/{}-postgres:1", self.name)
    }

    fn with_settings(&self, mut command: Command) -> Command {
        command.env("CONTAINERS_CONF", self.dir.path().join("containers.conf"));
        command
    }

    fn podman(&self, args: &[&str]) -> Command {
        let mut command = self.with_settings(Command::new("podman"));
        command.args(args);
        command
    }

    fn compose(&self, args: &[&str]) -> Command {
        let mut command = self.with_settings(Command::new(&self.compose));
        command.args(["--project-name", &self.name, "--file"]).arg(root().join("packaging/compose.yaml"));
        command
            .args(args)
            .env("POSTGRES_PASSWORD", "a-password")
            .env("POSTGRES_IMAGE", self.postgres_image())
            .env("BERTH_IMAGE", self.image())
            .env("BERTH_LISTEN", format!("127.0.0.1:{}", self.port));
        command
    }

    /// Runs a command in the container of the server.
    fn exec(&self, args: &[&str]) -> Output {
        let container = format!("{}_berth_1", self.name);
        self.podman(&["exec", &container]).args(args).output().unwrap()
    }

    /// Builds the image with the program of this build instead of a released one.
    fn build(&self) {
        let file_system = root().join("target/image/test-rootfs.tar");
        make_file_system(&file_system);
        let size = std::fs::metadata(&file_system).unwrap().len();
        assert!(size < ROOT_FILE_SYSTEM_BYTES_MAX, "{size}");
        let notices = self.dir.path().join("notices");
        write(&notices, "of others\n").unwrap();
        let test = std::env::current_exe().unwrap();
        let staged = StagedFiles {
            binary: test.ancestors().nth(2).unwrap().join("berth"),
            completions: PathBuf::new(),
            man: PathBuf::new(),
            notices,
            packages: Vec::new(),
            version: "1".into(),
            made_at: "1000000000".into(),
        };
        let (context, _) = image::stage_context(&staged, &file_system, self.dir.path()).unwrap();
        image::build_image(&context, &self.image(), &staged.made_at).unwrap();
        let mut script = self.with_settings(Command::new("sh"));
        script.arg(root().join("xtask/src/dist/postgres_image.sh"));
        script.args([&self.image(), &self.postgres_image()]).arg(postgres::find().unwrap());
        assert_success(&script.output().unwrap());
    }
}

/// Makes the root file system, unless an earlier run has made it with the same script.
fn make_file_system(file: &Path) {
    let script = std::fs::metadata(root().join("packaging/image/rootfs.sh")).unwrap().modified().unwrap();
    let is_current =
        std::fs::metadata(file).is_ok_and(|made| made.len() > 0 && made.modified().unwrap() > script);
    if !is_current {
        super::create_dir(file.parent().unwrap()).unwrap();
        image::make_file_system(file, "1000000000").unwrap();
    }
}

fn assert_success(done: &Output) -> String {
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(done.status.success(), "{text}{}", String::from_utf8_lossy(&done.stderr));
    text
}

/// Returns the interpreter next to podman-compose, if everything that the test needs is installed.
fn find_tools() -> Option<PathBuf> {
    for (program, package) in image::PROGRAMS.into_iter().chain([("podman", "podman"), ("runc", "runc")]) {
        if output(Command::new(program).arg("--version")).is_none() {
            outcome::skip(program, &format!("apt-get install {package}"));
            return None;
        }
    }
    if postgres::find().is_none() {
        outcome::skip("PostgreSQL", "apt-get install postgresql");
        return None;
    }
    if output(Command::new("id").arg("-u")).as_deref() != Some("0") {
        outcome::report_impossible("the container image", "it can be built only by root");
        return None;
    }
    let found = std::env::var_os(python::VARIABLE).map(PathBuf::from);
    if found.is_none() {
        outcome::skip("podman-compose", "cargo xtask test");
    }
    found
}

#[test]
fn compose_file_starts_image_without_privileges_with_postgresql() {
    let Some(python) = find_tools() else { return };
    let containers = TestContainers::new(&python);
    containers.build();
    let probe = ["run", "--rm", "--read-only", &containers.image(), "--version"];
    let probe = containers.podman(&probe).output().unwrap();
    if !probe.status.success() {
        let said = String::from_utf8_lossy(&probe.stderr);
        return outcome::report_impossible("containers", said.trim());
    }
    let format = "{{.Config.User}} {{.Config.Healthcheck.Test}}";
    let settings = containers.podman(&["image", "inspect", "--format", format, &containers.image()]).output();
    assert_eq!(assert_success(&settings.unwrap()), "10001:10001 [CMD /usr/lib/berth/healthcheck]\n");

    let init = ["run", "--rm", "-T", "berth", "init", "--org", "acme", "--email", "you@acme.test"];
    let made = assert_success(&containers.compose(&init).output().unwrap());
    assert!(made.contains("API token"), "{made}");
    assert_success(&containers.compose(&["up", "-d"]).output().unwrap());
    let deadline = Instant::now() + START_MAX;
    let container = format!("{}_berth_1", containers.name);
    // The check itself waits for the server's response.
    while !containers.podman(&["healthcheck", "run", &container]).output().unwrap().status.success() {
        assert!(Instant::now() < deadline, "the server did not become healthy");
    }
    let url = format!("http://127.0.0.1:{}/readyz", containers.port);
    assert_eq!(ureq::get(&url).call().unwrap().status(), 200);

    assert_eq!(assert_success(&containers.exec(&["id", "-u"])), "10001\n");
    let status = assert_success(&containers.exec(&["grep", "-E", "^(CapEff|NoNewPrivs)", "/proc/1/status"]));
    assert_eq!(
        status.split_whitespace().collect::<Vec<_>>(),
        ["CapEff:", "0000000000000000", "NoNewPrivs:", "1"]
    );
    assert!(!containers.exec(&["touch", "/usr/bin/x"]).status.success(), "the root file system is read-only");
    assert_success(&containers.exec(&["touch", "/data/x", "/tmp/x"]));
    let clone = "cd /tmp && git init -q a && git -C a -c user.name=a -c user.email=a commit -q --allow-empty -m a \
        && git clone -q file:///tmp/a b && git ls-remote https://127.0.0.1:1 2>&1 | grep -q 'Failed to connect' \
        && bwrap --version";
    assert_success(&containers.exec(&["sh", "-ec", clone]));
    let check = assert_success(&containers.exec(&["berth", "upgrade", "--check"]));
    assert!(check.contains("This program can serve the database"), "{check}");
}

#[test]
fn image_scripts_are_executable() {
    for name in ["packaging/healthcheck.sh", "packaging/image/rootfs.sh"] {
        let mode = std::fs::metadata(root().join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o111, 0o111, "{name}");
    }
}
