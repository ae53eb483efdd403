//! Installs the programs that the tests need, and lists what is still missing.

use std::path::{Path, PathBuf};
use std::process::Command;

use berth_testkit::PostgresServer;

use crate::tool::{apt_install, cargo, cargo_has, may_install, output, run};
use crate::{clients, dist, npm, postgres, python, schemathesis, sdk, web};

/// Programs from Debian packages: path, package, and the suites that need them.
const PROGRAMS: &[(&str, &str, &str)] = &[
    ("/usr/bin/bwrap", "bubblewrap", "sandbox suites"),
    ("/usr/bin/git", "git", "repositories, definitions, custom steps"),
    ("/usr/bin/git-lfs", "git-lfs", "repositories with Git LFS"),
    ("/usr/sbin/sshd", "openssh-server", "documentation"),
    ("/usr/bin/ssh", "openssh-client", "documentation"),
    ("/usr/bin/jq", "jq", "documentation, custom steps"),
    ("/usr/bin/curl", "curl", "documentation"),
    ("/usr/bin/rsync", "rsync", "GitLab templates"),
    ("/usr/bin/openssl", "openssl", "TLS"),
    ("/usr/sbin/nginx", "nginx-light", "load balancers"),
    ("/usr/sbin/haproxy", "haproxy", "load balancers"),
    ("/usr/bin/dpkg-shlibdeps", "dpkg-dev", "the Debian package"),
    ("/usr/bin/systemd-analyze", "systemd", "systemd units"),
    ("/usr/bin/mmdebstrap", "mmdebstrap", "the container image"),
    ("/usr/bin/buildah", "buildah", "containers"),
    ("/usr/bin/podman", "podman", "containers"),
    ("/usr/sbin/runc", "runc", "containers"),
    ("/usr/sbin/iptables", "iptables", "containers"),
    ("/usr/lib/podman/netavark", "netavark", "containers"),
    ("/usr/lib/podman/aardvark-dns", "aardvark-dns", "containers"),
    ("/bin/busybox", "busybox-static", "containers"),
    ("/usr/bin/docker-registry", "docker-registry", "containers"),
    (web::CHROMIUM, "chromium", "browser tests"),
];

/// A requirement that this machine does not meet.
pub(super) struct MissingTool {
    pub(super) what: String,
    pub(super) needed_by: &'static str,
    pub(super) install: String,
}

/// The programs that the suites use, as far as they are installed.
#[derive(Default)]
pub(super) struct TestTools {
    pub(super) postgres: Option<PathBuf>,
    /// One PostgreSQL server for all tests, stopped on drop.
    pub(super) postgres_server: Option<PostgresServer>,
    pub(super) npm: Option<PathBuf>,
    /// Interpreter with the Python packages of the tests.
    pub(super) python: Option<PathBuf>,
    pub(super) schemathesis: Option<PathBuf>,
    pub(super) generators: clients::ClientGenerators,
    pub(super) sdk: sdk::SdkTools,
    pub(super) has_node: bool,
    pub(super) missing: Vec<MissingTool>,
}

/// Looks for the programs that the build and the dashboard's checks need, and installs missing ones unless `quick`.
pub(super) fn prepare(quick: bool) -> Result<TestTools, String> {
    let mut tools = TestTools::default();
    let installs = !quick && may_install();
    install_programs(installs, &mut tools);
    install_cargo_deb(installs, &mut tools);
    prepare_postgres(installs, &mut tools)?;
    if quick {
        tools.npm = npm::find();
        tools.python = python::find_for_tests();
        return Ok(tools);
    }
    match web::find_node() {
        Ok(()) => tools.has_node = true,
        Err(why) => tools.add_missing("Node", "dashboard, emulated forge", why),
    }
    if tools.has_node
        && let Err(why) = web::install()
    {
        tools.has_node = false;
        tools.add_missing("packages from npm", "dashboard", why);
    }
    Ok(tools)
}

/// Installs the packages from npm and PyPI that only the suites after the build need.
pub(super) fn install_packages(tools: &mut TestTools) {
    if tools.has_node {
        match npm::install() {
            Ok(dir) => tools.npm = Some(dir),
            Err(why) => tools.add_missing("packages from npm", "emulated forge, GitLab templates, MCP", why),
        }
        match clients::install_npm() {
            Ok(dir) => tools.generators.npm = Some(dir),
            Err(why) => tools.add_missing("the TypeScript generator", "generated clients", why),
        }
        match sdk::install_typescript() {
            Ok(()) => tools.sdk.has_typescript = true,
            Err(why) => tools.add_missing("packages from npm", "TypeScript SDK", why),
        }
    }
    match python::install_for_tests() {
        Ok(python) => tools.python = Some(python),
        Err(why) => tools.add_missing("packages from PyPI", "ID tokens, GitHub Action, packaging, MCP", why),
    }
    match clients::install_python() {
        Ok(venv) => tools.generators.venv = Some(venv),
        Err(why) => tools.add_missing("the Python generator", "generated clients", why),
    }
    match sdk::install_python() {
        Ok(()) => tools.sdk.has_python = true,
        Err(why) => tools.add_missing("packages from PyPI", "Python SDK", why),
    }
    match schemathesis::install() {
        Ok(program) => tools.schemathesis = Some(program),
        Err(why) => tools.add_missing("schemathesis", "API fuzzing", why),
    }
}

impl TestTools {
    fn add_missing(&mut self, what: &str, needed_by: &'static str, install: impl Into<String>) {
        self.missing.push(MissingTool { what: what.to_owned(), needed_by, install: install.into() });
    }
}

fn install_programs(installs: bool, tools: &mut TestTools) {
    let absent = || PROGRAMS.iter().filter(|(program, ..)| !is_present(program));
    let packages: Vec<&str> = absent().map(|(_, package, _)| *package).collect();
    let tried = match (packages.is_empty(), installs) {
        (false, true) => apt_install(&packages),
        _ => Ok(()),
    };
    for (program, package, needed_by) in absent() {
        let why = tried.as_ref().err().map(|why| format!(" ({why})")).unwrap_or_default();
        tools.add_missing(program, needed_by, format!("apt-get install {package}{why}"));
    }
}

fn install_cargo_deb(installs: bool, tools: &mut TestTools) {
    if installs && !cargo_has("deb") {
        println!("    installing cargo-deb");
        // Install a debug build, which takes half the time to compile; it only has to build one small package.
        if let Err(why) = run(&mut cargo(["install", "--locked", "--quiet", "--debug", "cargo-deb"])) {
            return tools.add_missing("cargo-deb", "the Debian package", why);
        }
    }
    if !cargo_has("deb") {
        tools.add_missing("cargo-deb", "the Debian package", dist::INSTALL_CARGO_DEB);
    }
}

/// Returns whether the program is at its usual path on Debian or anywhere in PATH.
fn is_present(program: &str) -> bool {
    let path = Path::new(program);
    let found = || output(Command::new("sh").args(["-c", "command -v \"$1\"", "sh"]).arg(file_name(path)));
    path.exists() || found().is_some()
}

fn file_name(path: &Path) -> &std::ffi::OsStr {
    path.file_name().unwrap_or_default()
}

fn prepare_postgres(installs: bool, tools: &mut TestTools) -> Result<(), String> {
    let found = match postgres::find() {
        Some(found) => Ok(found),
        None if installs => postgres::install(),
        None => Err(postgres::missing_message("not installed")),
    };
    match found {
        Err(why) => tools.add_missing("PostgreSQL", "PostgreSQL suites", why),
        Ok(bin) => {
            println!("    PostgreSQL in {}", bin.display());
            let server =
                PostgresServer::start(&bin).map_err(|why| format!("PostgreSQL does not start: {why}"))?;
            tools.postgres_server = Some(server);
            tools.postgres = Some(bin);
        }
    }
    Ok(())
}
