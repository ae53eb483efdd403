//! `cargo xtask sdk`: builds the TypeScript and Python packages in `sdk/`, installs them into empty projects, and tests
//! them there against demo servers.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::demo_server::DemoServer;
use crate::tool::{TaskResult, cargo, empty_dir, root, run, run_silently};
use crate::{python, web};

const USAGE: &str = "usage: cargo xtask sdk [--test]";
/// Packages that build the Python package and check types.
const BUILD_PACKAGES: &[(&str, &str)] =
    &[("hatchling", "1.33.0"), ("datamodel-code-generator", "0.89.0"), ("mypy", "2.4.1")];
/// Dependencies of the Python package, in the project that it is installed into.
const PROJECT_PACKAGES: &[(&str, &str)] =
    &[("httpx", "0.28.1"), ("httpx_sse", "0.4.3"), ("typing_extensions", "4.16.0")];
const TEST_TIMEOUT_MS: &str = "--test-timeout=60000";

/// The languages whose build tools are installed.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct SdkTools {
    pub(crate) has_typescript: bool,
    pub(crate) has_python: bool,
}

/// Runs the task from the command line.
pub(crate) fn task(args: &[String]) -> TaskResult {
    let with_tests = match args {
        [] => false,
        [arg] if arg == "--test" => true,
        _ => return Err(USAGE.into()),
    };
    install_typescript()?;
    install_python()?;
    if with_tests {
        run(&mut cargo(["build", "--quiet", "-p", "berth"]))?;
        let tools = SdkTools { has_typescript: true, has_python: true };
        return test_packages(tools, &own_dir()?.with_file_name("berth"));
    }
    for package in [build_typescript()?, build_python()?] {
        println!("{}", package.display());
    }
    Ok(())
}

/// Installs the build tools of the TypeScript package.
pub(crate) fn install_typescript() -> TaskResult {
    web::find_node()?;
    web::install_packages("sdk/typescript")
}

/// Installs the build tools of the Python package, and the project that the tests install it into.
pub(crate) fn install_python() -> TaskResult {
    let dir = own_dir()?;
    python::install(&dir.join("venv"), BUILD_PACKAGES)?;
    python::install(&dir.join("project"), PROJECT_PACKAGES)
}

/// Builds the packages, and tests them against a demo server of this binary for each language.
pub(crate) fn test_packages(tools: SdkTools, berth: &Path) -> TaskResult {
    std::thread::scope(|scope| {
        let typescript = tools.has_typescript.then(|| scope.spawn(|| test_typescript(berth)));
        let python = tools.has_python.then(|| scope.spawn(|| test_python(berth)));
        let join = |thread: std::thread::ScopedJoinHandle<'_, TaskResult>| {
            thread.join().unwrap_or_else(|_| Err("the thread panicked".into()))
        };
        let failures: Vec<String> =
            [typescript, python].into_iter().flatten().filter_map(|thread| join(thread).err()).collect();
        if failures.is_empty() { Ok(()) } else { Err(failures.join("\n")) }
    })
}

/// Returns the directory of build tools and packages, next to this program.
fn own_dir() -> Result<PathBuf, String> {
    let own = std::env::current_exe().map_err(|error| format!("cannot find my own program: {error}"))?;
    let dir = own.with_file_name("sdk");
    std::fs::create_dir_all(&dir).map_err(|error| format!("cannot make {}: {error}", dir.display()))?;
    Ok(dir)
}

/// Returns the built npm package.
fn build_typescript() -> Result<PathBuf, String> {
    let (source, packages) = (root().join("sdk/typescript"), empty_dir(&own_dir()?.join("npm"))?);
    let npm = || {
        let mut command = Command::new("npm");
        command.current_dir(&source);
        command
    };
    run_silently(npm().args(["run", "--silent", "build"]))?;
    run_silently(npm().args(["pack", "--silent", "--pack-destination"]).arg(&packages))?;
    only_file(&packages)
}

/// Returns the built wheel.
fn build_python() -> Result<PathBuf, String> {
    let (dir, source) = (own_dir()?, root().join("sdk/python"));
    let packages = empty_dir(&dir.join("wheel"))?;
    let mut pip = Command::new(dir.join("venv/bin/pip"));
    pip.args(["wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir"]).arg(&packages);
    run_silently(pip.arg(&source).env("PIP_DISABLE_PIP_VERSION_CHECK", "1"))?;
    only_file(&packages)
}

fn test_typescript(berth: &Path) -> TaskResult {
    let package = build_typescript()?;
    let source = root().join("sdk/typescript");
    let project = empty_dir(&own_dir()?.join("npm-project"))?;
    write(&project.join("package.json"), "{\"private\": true, \"type\": \"module\"}\n")?;
    let mut npm = Command::new("npm");
    npm.args(["install", "--prefer-offline", "--no-audit", "--no-fund", "--silent"]).arg(&package);
    run_silently(npm.current_dir(&project))?;
    copy_files(&source.join("tests"), &project)?;
    for (number, example) in (1..).zip(read_examples(&source.join("README.md"), "ts")?) {
        write(&project.join(format!("example-{number}.ts")), &example)?;
    }
    let modules = source.join("node_modules");
    let mut tsc = Command::new(modules.join(".bin/tsc"));
    run_silently(tsc.arg("--project").arg(&project).arg("--typeRoots").arg(modules.join("@types")))?;
    let mut node = Command::new("node");
    node.args(["--test", TEST_TIMEOUT_MS, "js/"]);
    run_tests(berth, "TypeScript", node.current_dir(&project))
}

fn test_python(berth: &Path) -> TaskResult {
    let wheel = build_python()?;
    let (dir, source) = (own_dir()?, root().join("sdk/python"));
    // The dependencies are installed already; pip fails if the package needs others.
    let bin = dir.join("project/bin");
    let pip = || {
        let mut command = Command::new(bin.join("pip"));
        command.env("PIP_DISABLE_PIP_VERSION_CHECK", "1");
        command
    };
    run_silently(pip().args(["uninstall", "--quiet", "--yes", "berth-sdk"]))?;
    run_silently(pip().args(["install", "--quiet", "--no-index"]).arg(&wheel))?;
    let project = empty_dir(&dir.join("python-project"))?;
    copy_files(&source.join("tests"), &project)?;
    for (number, example) in (1..).zip(read_examples(&source.join("README.md"), "python")?) {
        write(&project.join(format!("example_{number}.py")), &example)?;
    }
    let mut mypy = Command::new(dir.join("venv/bin/mypy"));
    mypy.args(["--strict", "--python-executable"]).arg(bin.join("python"));
    mypy.arg("--cache-dir").arg(dir.join("mypy")).arg(&project);
    run_silently(mypy.current_dir(&project))?;
    let mut python = Command::new(bin.join("python"));
    python.args(["-W", "error::ResourceWarning", "-m", "unittest", "discover"]);
    run_tests(berth, "Python", python.current_dir(&project))
}

/// Runs the tests against a demo server of their own.
fn run_tests(berth: &Path, language: &str, tests: &mut Command) -> TaskResult {
    let served = DemoServer::start(berth, &own_dir()?.join(format!("berth-{language}.log")))?;
    let base = served.announced_text("/baseUrl")?;
    tests.env("BERTH_SERVER", base.strip_suffix("/api/v1").unwrap_or(base));
    tests.env("BERTH_TOKEN", served.announced_text("/organizations/0/apiToken")?);
    tests.env("BERTH_TEST_DEFINITION", root().join("sdk/tests/shop.yaml")).env_remove("BERTH_ORG");
    let done =
        run_silently(tests).map_err(|why| format!("the tests of the {language} package failed\n{why}"));
    let stopped = served.stop();
    done.and(stopped)
}

/// Returns the code blocks of a language in a README, and in docs/sdk.md.
fn read_examples(readme: &Path, language: &str) -> Result<Vec<String>, String> {
    let mut examples = Vec::new();
    for page in [readme, &root().join("docs/sdk.md")] {
        let text = std::fs::read_to_string(page);
        let text = text.map_err(|error| format!("cannot read {}: {error}", page.display()))?;
        let found = find_examples(&text, language);
        if found.is_empty() {
            return Err(format!("{} has no example in {language}", page.display()));
        }
        examples.extend(found);
    }
    Ok(examples)
}

fn find_examples(text: &str, language: &str) -> Vec<String> {
    let opening = format!("\n```{language}\n");
    let blocks = text.split(&opening).skip(1).filter_map(|rest| rest.split_once("\n```"));
    blocks.map(|(example, _)| format!("{example}\n")).collect()
}

fn copy_files(from: &Path, to: &Path) -> TaskResult {
    let entries =
        std::fs::read_dir(from).map_err(|error| format!("cannot read {}: {error}", from.display()))?;
    for path in entries.flatten().map(|entry| entry.path()).filter(|path| path.is_file()) {
        let copied = std::fs::copy(&path, to.join(path.file_name().unwrap_or_default()));
        copied.map_err(|error| format!("cannot copy {}: {error}", path.display()))?;
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> TaskResult {
    std::fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
}

fn only_file(dir: &Path) -> Result<PathBuf, String> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let found: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    match found.as_slice() {
        [file] => Ok(file.clone()),
        _ => Err(format!("{} has {} files instead of one package", dir.display(), found.len())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_json(path: &str) -> serde_json::Value {
        serde_json::from_str(&std::fs::read_to_string(root().join(path)).unwrap()).unwrap()
    }

    /// The Python package reads the version from Cargo.toml.
    #[test]
    fn sdk_versions_are_the_version_of_the_api() {
        let version = env!("CARGO_PKG_VERSION");
        assert_eq!(read_json("openapi.json")["info"]["version"], version);
        assert_eq!(read_json("sdk/typescript/package.json")["version"], version);
        assert_eq!(read_json("sdk/typescript/package-lock.json")["version"], version);
        let project = std::fs::read_to_string(root().join("sdk/python/pyproject.toml")).unwrap();
        assert!(
            project.contains("dynamic = [\"version\"]") && project.contains("path = \"../../Cargo.toml\"")
        );
        for (name, version) in &BUILD_PACKAGES[..2] {
            assert!(project.contains(&format!("\"{name}=={version}\"")), "{name}");
        }
    }

    #[test]
    fn examples_are_blocks_of_one_language() {
        let text = "A\n```ts\nlet a = 1;\n```\n\n```python\nb = 1\n```\n\n```ts\nlet c;\nlet d;\n```\n";
        assert_eq!(find_examples(text, "ts"), ["let a = 1;\n", "let c;\nlet d;\n"]);
        assert_eq!(find_examples(text, "python"), ["b = 1\n"]);
    }
}
