//! `cargo xtask clients`: generates clients from openapi.json, compiles them, and runs them against a demo server.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::demo_server::DemoServer;
use crate::tool::{TaskResult, cargo, empty_dir, root, run, run_silently};
use crate::{npm, python};

/// npm packages and their versions. This is the latest openapi-ts that runs on Node 20.
const NPM_PACKAGES: &[(&str, &str)] = &[("@hey-api/openapi-ts", "0.95.0"), ("typescript", "5.9.3")];
const PYTHON_PACKAGES: &[(&str, &str)] = &[("openapi-python-client", "0.29.1"), ("mypy", "2.4.1")];
const ENVIRONMENT: &str = "qa-1";
const DEFINITION: &str = "version: 1\npipeline:\n  name: Generated clients\n  stages:\n    - name: staging\n  steps:\n    - name: Deploy\n      type: dummy\n  ephemeral_environments:\n    qa-1: {}\n";

/// The installed client generators, with the compilers of their languages.
#[derive(Default)]
pub(crate) struct ClientGenerators {
    pub(crate) npm: Option<PathBuf>,
    pub(crate) venv: Option<PathBuf>,
}

/// Runs the task from the command line.
pub(crate) fn task() -> TaskResult {
    let generators = ClientGenerators { npm: Some(install_npm()?), venv: Some(install_python()?) };
    run(&mut cargo(["build", "--quiet", "-p", "berth"]))?;
    drive_demo(&generators, &own_dir()?.with_file_name("berth"))
}

pub(crate) fn install_npm() -> Result<PathBuf, String> {
    npm::install_into(&own_dir()?.join("npm"), NPM_PACKAGES)
}

pub(crate) fn install_python() -> Result<PathBuf, String> {
    let venv = own_dir()?.join("venv");
    python::install(&venv, PYTHON_PACKAGES).map(|()| venv)
}

/// Generates and compiles the clients, and runs them against a demo server of this binary.
pub(crate) fn drive_demo(generators: &ClientGenerators, berth: &Path) -> TaskResult {
    let dir = own_dir()?;
    let mut drivers = Vec::new();
    if let Some(npm) = &generators.npm {
        drivers.push(build_typescript(npm, &empty_dir(&dir.join("typescript"))?)?);
    }
    if let Some(venv) = &generators.venv {
        drivers.push(build_python(venv, &empty_dir(&dir.join("python"))?)?);
    }
    let served = DemoServer::start(berth, &dir.join("berth.log"))?;
    let driven = create_pipeline(&served)
        .and_then(|pipeline| drivers.iter_mut().try_for_each(|driver| drive(driver, &served, &pipeline)));
    let stopped = served.stop();
    driven.and(stopped)
}

/// Returns the directory of generators and generated code, next to this program.
fn own_dir() -> Result<PathBuf, String> {
    let own = std::env::current_exe().map_err(|error| format!("cannot find my own program: {error}"))?;
    let dir = own.with_file_name("clients");
    std::fs::create_dir_all(&dir).map_err(|error| format!("cannot make {}: {error}", dir.display()))?;
    Ok(dir)
}

fn build_typescript(npm: &Path, dir: &Path) -> Result<Command, String> {
    let programs = npm.join("node_modules/.bin");
    let mut generate = Command::new(programs.join("openapi-ts"));
    generate.args(["--client", "@hey-api/client-fetch", "--silent", "--input"]);
    generate.arg(root().join("openapi.json")).arg("--output").arg(dir.join("berth"));
    run_silently(generate.current_dir(npm))?;
    for file in ["drive.ts", "tsconfig.json"] {
        let from = root().join("clients/typescript").join(file);
        let copied = std::fs::copy(&from, dir.join(file));
        copied.map_err(|error| format!("cannot copy {}: {error}", from.display()))?;
    }
    run(Command::new(programs.join("tsc")).arg("--project").arg(dir))?;
    let mut driver = Command::new("node");
    driver.arg(dir.join("js/drive.js"));
    Ok(driver)
}

fn build_python(venv: &Path, dir: &Path) -> Result<Command, String> {
    let programs = venv.join("bin");
    let (driver, package) = (root().join("clients/python/drive.py"), dir.join("berth_client"));
    let mut generate = Command::new(programs.join("openapi-python-client"));
    generate.args(["generate", "--meta", "none", "--overwrite", "--path"]).arg(root().join("openapi.json"));
    // The generator needs a formatter from its virtual environment in PATH. Its output is hidden, because it reports
    // skipped operations at length.
    let path = std::env::join_paths([programs.clone(), "/usr/bin".into(), "/bin".into()]);
    generate.env("PATH", path.map_err(|error| error.to_string())?);
    run_silently(generate.arg("--output-path").arg(&package).current_dir(dir))?;
    run(Command::new(programs.join("python")).args(["-m", "compileall", "-q"]).arg(&package))?;
    let mut check = Command::new(programs.join("mypy"));
    check.args(["--strict", "--follow-imports", "silent", "--cache-dir"]).arg(venv.join("mypy"));
    run_silently(check.arg(&driver).env("MYPYPATH", dir).current_dir(dir))?;
    let mut command = Command::new(programs.join("python"));
    command.arg(&driver).env("PYTHONPATH", dir).env("PYTHONDONTWRITEBYTECODE", "1");
    Ok(command)
}

/// Returns the id of a pipeline whose deployments do nothing.
fn create_pipeline(served: &DemoServer) -> Result<String, String> {
    let path = format!("/organizations/{}/pipelines", served.announced_text("/organizations/0/slug")?);
    let made =
        served.send_request(&path, Some(&json!({"slug": "generated-clients", "definition": DEFINITION})))?;
    let id = made.pointer("/data/id").and_then(Value::as_str).map(str::to_owned);
    id.ok_or_else(|| "a new pipeline has no id".into())
}

fn drive(driver: &mut Command, served: &DemoServer, pipeline: &str) -> TaskResult {
    let base = served.announced_text("/baseUrl")?;
    driver.env("BERTH_URL", base.strip_suffix("/api/v1").unwrap_or(base));
    driver.env("BERTH_TOKEN", served.announced_text("/organizations/0/apiToken")?);
    driver.env("BERTH_ORGANIZATION", served.announced_text("/organizations/0/slug")?);
    driver.env("BERTH_PIPELINE", pipeline);
    run(driver.env("BERTH_ENVIRONMENT", ENVIRONMENT))
}
