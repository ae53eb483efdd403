//! Tools that the cases need: programs on this machine, and packages that are installed once.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context as _;

/// Packages to install. Cases refer to them with the prefix `npm:` or `pip:`.
const NPM: &[&str] = &["typescript@5", "vitest@3", "jest@30"];
const PIP: &[&str] = &["pytest==8.4.2"];

pub(super) struct AnalysisTools {
    path: OsString,
    node_modules: PathBuf,
    is_root: bool,
    /// Why packages could not be installed, by package manager.
    failed: BTreeMap<&'static str, String>,
    variables: Vec<(&'static str, OsString)>,
}

impl AnalysisTools {
    pub(super) fn prepare(dir: Option<&Path>) -> anyhow::Result<Self> {
        let own = std::env::current_exe()?;
        let default_dir = own.parent().context("the benchmark lies nowhere")?.join("bench-analysis");
        let dir = dir.map_or(default_dir, Path::to_owned);
        std::fs::create_dir_all(&dir)?;
        let venv = dir.join("venv");
        let mut failed = BTreeMap::new();
        failed.extend(install_npm(&dir).err().map(|error| ("npm", format!("{error:#}"))));
        failed.extend(install_pip(&venv).err().map(|error| ("pip", format!("{error:#}"))));
        let node_modules = dir.join("node_modules");
        let mut places = vec![node_modules.join(".bin"), venv.join("bin")];
        places.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
        let home = PathBuf::from(std::env::var_os("HOME").unwrap_or_default());
        // A case runs with its own HOME, but these tools need files from the real one.
        let kept = [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup"), ("PYENV_ROOT", ".pyenv")];
        let kept =
            kept.map(|(name, usual)| (name, std::env::var_os(name).unwrap_or(home.join(usual).into())));
        let id = Command::new("id").arg("-u").output().context("cannot run id")?;
        Ok(Self {
            path: std::env::join_paths(places)?,
            node_modules,
            is_root: id.stdout == b"0\n",
            failed,
            variables: kept.into(),
        })
    }

    /// Returns a description of the first requirement that is not met.
    pub(super) fn missing_requirement(&self, needs: &[&str]) -> Option<String> {
        needs.iter().find_map(|need| match need.split_once(':') {
            Some((manager, package)) => {
                self.failed.get(manager).map(|why| format!("{package} cannot be installed: {why}"))
            }
            None if *need == "root" => (!self.is_root).then(|| "it needs root".to_owned()),
            None => (!self.has(need)).then(|| format!("{need} is not installed")),
        })
    }

    fn has(&self, program: &str) -> bool {
        std::env::split_paths(&self.path).any(|place| place.join(program).is_file())
    }

    pub(super) fn environment(&self, home: &Path) -> Vec<(&'static str, OsString)> {
        let mut all = self.variables.clone();
        all.extend([
            ("PATH", self.path.clone()),
            ("HOME", home.into()),
            ("LANG", "C.UTF-8".into()),
            ("CI", "true".into()),
            ("TOOLS_NODE_MODULES", self.node_modules.clone().into()),
        ]);
        all
    }
}

fn install_npm(dir: &Path) -> anyhow::Result<()> {
    let marker = dir.join(format!("npm {}", NPM.join(" ")));
    if marker.exists() {
        return Ok(());
    }
    eprintln!("installing {} with npm", NPM.join(", "));
    let mut command = Command::new("npm");
    command.args(["install", "--no-audit", "--no-fund", "--prefix"]).arg(dir).args(NPM);
    run(&mut command)?;
    Ok(std::fs::write(marker, "")?)
}

fn install_pip(venv: &Path) -> anyhow::Result<()> {
    let marker = venv.join(PIP.join(" "));
    if marker.exists() {
        return Ok(());
    }
    eprintln!("installing {} with pip", PIP.join(", "));
    run(Command::new("python3").args(["-m", "venv"]).arg(venv))?;
    run(Command::new(venv.join("bin/pip"))
        .args(["install", "--quiet", "--disable-pip-version-check"])
        .args(PIP))?;
    Ok(std::fs::write(marker, "")?)
}

fn run(command: &mut Command) -> anyhow::Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("cannot run {program}"))?;
    let text = String::from_utf8_lossy(&output.stderr);
    let last = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
    anyhow::ensure!(output.status.success(), "{program}: {last}");
    Ok(())
}
