//! A Podman service for one test, with storage of its own, and an image made from busybox.
//!
//! Nothing is pulled from the network: the machine of the tests may have none.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::mount::{UnmountFlags, unmount};

use crate::outcome;

/// The image that [`PodmanService::start`] makes. It has busybox, and a user `app` with the id 1000.
pub const IMAGE: &str = "localhost/busybox:1";

const BUSYBOX: &str = "/bin/busybox";
const INSTALL: &str = "apt-get install podman buildah runc netavark aardvark-dns iptables busybox-static";
const PROGRAMS: [&str; 6] = [
    "/usr/bin/podman",
    "/usr/bin/buildah",
    "/usr/sbin/runc",
    "/usr/lib/podman/netavark",
    "/usr/lib/podman/aardvark-dns",
    BUSYBOX,
];
const START_MAX: Duration = Duration::from_secs(120);
const START_PAUSE: Duration = Duration::from_millis(10);
/// How often a container is started before it counts as a failure that it ends without a message.
const PROBES: usize = 5;
const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh\napp:x:1000:1000::/tmp:/bin/sh\n";

/// A Podman service. On drop, it is stopped, and its containers, networks and storage are removed.
pub struct PodmanService {
    service: Option<Child>,
    dir: tempfile::TempDir,
}

impl PodmanService {
    /// Starts a service, or reports why this machine cannot run containers.
    pub fn start() -> Option<Self> {
        if let Some(missing) = PROGRAMS.iter().find(|program| !Path::new(program).exists()) {
            outcome::skip(missing, INSTALL);
            return None;
        }
        // Podman allows 50 characters for the path of its run directory, so it is not below TMPDIR.
        let dir = tempfile::Builder::new().prefix("berth-podman-").tempdir_in("/tmp").expect("directory");
        let mut podman = Self { service: None, dir };
        podman.write_config();
        podman.make_image();
        if let Err(why) = podman.probe() {
            outcome::report_impossible("containers", &why);
            return None;
        }
        podman.start_service();
        Some(podman)
    }

    /// Runs a container. Returns why the kernel or missing privileges forbid it.
    fn probe(&self) -> Result<(), String> {
        let mut status = None;
        for _ in 0..PROBES {
            let ran = self.run(&["run", "--rm", IMAGE, "true"]);
            if ran.status.success() {
                return Ok(());
            }
            let said = String::from_utf8_lossy(&ran.stderr);
            if let Some(line) = said.lines().last().filter(|line| !line.trim().is_empty()) {
                return Err(format!("{line} ({})", ran.status));
            }
            // On a busy machine, a container sometimes fails without a message.
            status = Some(ran.status);
        }
        panic!("podman fails {PROBES} times without a message: {status:?}");
    }

    pub fn socket(&self) -> PathBuf {
        self.dir.path().join("podman.sock")
    }

    /// A script that runs buildah on the same storage.
    pub fn buildah(&self) -> PathBuf {
        self.dir.path().join("buildah")
    }

    /// A directory that exists as long as the service.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Runs the command-line program on the same storage.
    pub fn run(&self, args: &[&str]) -> Output {
        self.command().args(args).stdin(Stdio::null()).output().expect("podman")
    }

    /// Runs the command-line program, which must succeed, and returns its output.
    pub fn text(&self, args: &[&str]) -> String {
        let done = self.run(args);
        assert!(done.status.success(), "podman {args:?}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8_lossy(&done.stdout).trim().to_owned()
    }

    /// Names of all containers, running or not.
    pub fn containers(&self) -> Vec<String> {
        self.text(&["ps", "--all", "--format", "{{.Names}}"]).lines().map(str::to_owned).collect()
    }

    /// Names of the networks that were created.
    pub fn networks(&self) -> Vec<String> {
        let all = self.text(&["network", "ls", "--format", "{{.Name}}"]);
        all.lines().filter(|name| *name != "podman").map(str::to_owned).collect()
    }

    /// Kills the service, but not its containers.
    pub fn kill_service(&mut self) {
        if let Some(mut service) = self.service.take() {
            service.kill().and_then(|()| service.wait()).expect("killed");
        }
        fs::remove_file(self.socket()).ok();
    }

    pub fn start_service(&mut self) {
        let socket = self.socket();
        let mut command = self.command();
        command.args(["system", "service", "--time", "0", &format!("unix://{}", socket.display())]);
        let log = fs::File::create(self.dir.path().join("service.log")).expect("log");
        let service = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn();
        self.service = Some(service.expect("podman service"));
        let until = Instant::now() + START_MAX;
        while std::os::unix::net::UnixStream::connect(&socket).is_err() {
            assert!(Instant::now() < until, "the podman service does not start");
            std::thread::sleep(START_PAUSE);
        }
    }

    /// Allows plain http for a registry on this machine.
    pub fn trust_registry(&self, address: &str) {
        let text = format!("[[registry]]\nlocation = \"{address}\"\ninsecure = true\n");
        fs::write(self.dir.path().join("registries.conf"), text).expect("registries.conf");
    }

    fn command(&self) -> Command {
        let dir = self.dir.path();
        let mut command = Command::new("podman");
        // Podman's monitor writes a file to its working directory when a container runs out of memory.
        command.current_dir(dir);
        command.env("CONTAINERS_CONF", dir.join("containers.conf"));
        command.env("CONTAINERS_REGISTRIES_CONF", dir.join("registries.conf"));
        command.arg("--root").arg(dir.join("root")).arg("--runroot").arg(dir.join("run"));
        command
    }

    /// Works without CAP_SYS_RESOURCE and with cgroups v1, and shares nothing with other services of the machine.
    fn write_config(&self) {
        let dir = self.dir.path();
        let text = format!(
            "[containers]\ndefault_ulimits = []\noom_score_adj = 0\n\
             [engine]\ncgroup_manager = \"cgroupfs\"\nevents_logger = \"file\"\nruntime = \"runc\"\n\
             lock_type = \"file\"\ntmp_dir = \"{0}/tmp\"\n\
             [network]\nnetwork_backend = \"netavark\"\nnetwork_config_dir = \"{0}/networks\"\n",
            dir.display()
        );
        fs::write(dir.join("containers.conf"), text).expect("containers.conf");
        fs::write(dir.join("registries.conf"), "").expect("registries.conf");
        let text = format!(
            "#!/bin/sh\nexport CONTAINERS_CONF={0}/containers.conf CONTAINERS_REGISTRIES_CONF={0}/registries.conf\n\
             exec buildah --root {0}/root --runroot {0}/run \"$@\"\n",
            dir.display()
        );
        fs::write(self.buildah(), text).expect("script");
        fs::set_permissions(self.buildah(), fs::Permissions::from_mode(0o755)).expect("mode");
    }

    /// Writes a root file system with busybox.
    pub fn write_root_fs(&self) -> PathBuf {
        let root = self.dir.path().join("rootfs");
        for name in ["bin", "etc", "tmp", "root", "proc", "dev", "sys"] {
            fs::create_dir_all(root.join(name)).expect("directory");
        }
        fs::set_permissions(root.join("tmp"), fs::Permissions::from_mode(0o1777)).expect("mode");
        fs::copy(BUSYBOX, root.join("bin/busybox")).expect("busybox");
        let applets = Command::new(BUSYBOX).arg("--list").output().expect("busybox").stdout;
        for applet in String::from_utf8_lossy(&applets).lines().filter(|applet| *applet != "busybox") {
            symlink("busybox", root.join("bin").join(applet)).expect("link");
        }
        fs::write(root.join("etc/passwd"), PASSWD).expect("passwd");
        fs::write(root.join("etc/group"), "root:x:0:\napp:x:1000:\n").expect("group");
        root
    }

    fn make_image(&self) {
        let root = self.write_root_fs();
        let archive = self.dir.path().join("rootfs.tar");
        let packed = Command::new("tar").arg("-C").arg(&root).arg("-cf").arg(&archive).arg(".").status();
        assert!(packed.expect("tar").success());
        self.text(&["import", "--quiet", &archive.display().to_string(), IMAGE]);
    }
}

impl Drop for PodmanService {
    fn drop(&mut self) {
        self.run(&["rm", "--all", "--force", "--time", "0"]);
        self.run(&["network", "prune", "--force"]);
        self.kill_service();
        // Podman keeps its storage mounted.
        unmount(self.dir.path().join("root/overlay"), UnmountFlags::DETACH).ok();
    }
}
