//! `cargo xtask dist`: builds a release with the dashboard: a .tar.gz, a .deb, a container image and a Helm chart, with
//! completions, manual pages, SBOMs and checksums.

mod chart;
#[cfg(test)]
mod compose;
mod deb;
#[cfg(test)]
mod health_check;
mod image;
mod notices;
mod sbom;
#[cfg(test)]
mod systemd;

pub(crate) use deb::INSTALL_CARGO_DEB;

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::tool::{TaskResult, cargo, output, root, run};
use crate::web;
use notices::LicensedPackage;

const USAGE: &str = "usage: cargo xtask dist [--binary FILE] [--to DIR] [--without-image]
  --binary FILE   package this program instead of building one
  --to DIR        where everything goes [default: target/dist]
  --without-image build no container image, which needs root, buildah and mmdebstrap";

/// Files of `packaging` in the archive.
const ARCHIVED: [&str; 8] = [
    "alerts.yaml",
    "berth-runner.service",
    "berth.service",
    "berth.sysusers",
    "berth.toml",
    "compose.yaml",
    "kubernetes/berth.yaml",
    "no-runner.conf",
];

/// Permissions in the archive, independent of the umask.
const MODES: &str = "--mode=u=rwX,go=rX";

/// The files to package.
pub(super) struct StagedFiles {
    pub(super) binary: PathBuf,
    /// Contains `berth.bash`, `_berth` and `berth.fish`.
    pub(super) completions: PathBuf,
    pub(super) man: PathBuf,
    /// Licences of the crates and npm packages that the program contains.
    pub(super) notices: PathBuf,
    /// These crates and npm packages.
    pub(super) packages: Vec<LicensedPackage>,
    pub(super) version: String,
    /// Time of the last commit in seconds, used for all files so that archives are reproducible.
    pub(super) made_at: String,
}

pub(crate) fn task(args: &[String]) -> TaskResult {
    let (mut binary, mut to, mut with_image) = (None, root().join("target/dist"), true);
    let mut words = args.iter();
    while let Some(word) = words.next() {
        if word == "--without-image" {
            with_image = false;
            continue;
        }
        match (word.as_str(), words.next()) {
            ("--binary", Some(path)) => binary = Some(PathBuf::from(path)),
            ("--to", Some(path)) => to = PathBuf::from(path),
            _ => return Err(USAGE.into()),
        }
    }
    let binary = match binary {
        Some(binary) => binary,
        None => build_release()?,
    };
    let binary = std::path::absolute(&binary).map_err(|error| error.to_string())?;
    create_dir(&to)?;
    let staged = stage_files(&binary, &to)?;
    let mut names =
        vec![build_archive(&staged, &to)?, deb::build(&staged, &to)?, chart::build(&staged, &to)?];
    names.push(sbom::write_sbom(&to, &format!("berth-{}.cdx.json", staged.version), &staged, &[])?);
    if with_image {
        let (image, debian) = image::build(&staged, &to)?;
        names.push(image);
        let name = format!("berth-{}-image.cdx.json", staged.version);
        names.push(sbom::write_sbom(&to, &name, &staged, &debian)?);
    }
    write_checksums(&to, &names)?;
    for name in names.iter().map(String::as_str).chain(["SHA256SUMS"]) {
        println!("{}", to.join(name).display());
    }
    Ok(())
}

fn build_release() -> Result<PathBuf, String> {
    web::prepare().map_err(|why| format!("the dashboard cannot be built: {why}"))?;
    println!("building berth with optimizations; a cold build takes many minutes");
    run(&mut cargo(["build", "--release", "--locked", "-p", "berth"]))?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    Ok(target.join("release/berth"))
}

fn stage_files(binary: &Path, to: &Path) -> Result<StagedFiles, String> {
    let told =
        output(Command::new(binary).arg("--version")).ok_or("the program does not print its version")?;
    let version = told.strip_prefix("berth ").ok_or_else(|| format!("{told:?} is no version of berth"))?;
    let (completions, man) = (to.join("completions"), to.join("man"));
    for dir in [&completions, &man] {
        let _ = std::fs::remove_dir_all(dir);
        create_dir(dir)?;
    }
    for (shell, name) in [("bash", "berth.bash"), ("zsh", "_berth"), ("fish", "berth.fish")] {
        let text = output(Command::new(binary).args(["completion", shell])).ok_or("no completions")?;
        write(&completions.join(name), &(text + "\n"))?;
    }
    run(Command::new(binary).arg("man").arg(&man))?;
    let notices = to.join(notices::FILE);
    let packages = notices::list_packages()?;
    write(&notices, &notices::render_packages(&packages)?)?;
    let made_at = output(Command::new("git").args(["log", "-1", "--format=%ct"]).current_dir(root()));
    let made_at = made_at.ok_or("git cannot read the time of the last commit")?;
    let (binary, version) = (binary.to_owned(), version.to_owned());
    Ok(StagedFiles { binary, completions, man, notices, packages, version, made_at })
}

fn build_archive(staged: &StagedFiles, to: &Path) -> Result<String, String> {
    let name = format!("berth-{}-linux-{}", staged.version, std::env::consts::ARCH);
    let dir = to.join(&name);
    let _ = std::fs::remove_dir_all(&dir);
    create_dir(&dir.join("packaging/kubernetes"))?;
    copy(&staged.binary, &dir.join("berth"))?;
    for file in ["README.md", "LICENSE", "CHANGELOG.md"] {
        copy(&root().join(file), &dir.join(file))?;
    }
    copy(&staged.notices, &dir.join(notices::FILE))?;
    for file in ARCHIVED {
        copy(&root().join("packaging").join(file), &dir.join("packaging").join(file))?;
    }
    for (from, name) in [(&staged.completions, "completions"), (&staged.man, "man")] {
        copy_all(from, &dir.join(name))?;
    }
    let file = format!("{name}.tar.gz");
    pack(to, &name, &to.join(&file), &staged.made_at)?;
    Ok(file)
}

/// Packs a directory so that the same files always make the same archive.
pub(super) fn pack(parent: &Path, name: &str, to: &Path, made_at: &str) -> TaskResult {
    let packed = ["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--format=gnu", MODES];
    let mut tar = Command::new("tar");
    tar.args(packed)
        .arg(format!("--mtime=@{made_at}"))
        .arg("--use-compress-program=gzip -n")
        .arg("-C")
        .arg(parent)
        .arg("-cf")
        .arg(to);
    run(tar.arg(name))
}

fn write_checksums(to: &Path, names: &[String]) -> TaskResult {
    let told = output(Command::new("sha256sum").args(names).current_dir(to)).ok_or("sha256sum failed")?;
    write(&to.join("SHA256SUMS"), &(told + "\n"))
}

pub(super) fn create_dir(dir: &Path) -> TaskResult {
    std::fs::create_dir_all(dir).map_err(|error| format!("{}: {error}", dir.display()))
}

pub(super) fn write(path: &Path, text: &str) -> TaskResult {
    std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

pub(super) fn copy(from: &Path, to: &Path) -> TaskResult {
    std::fs::copy(from, to).map(drop).map_err(|error| format!("{}: {error}", from.display()))
}

pub(super) fn copy_all(from: &Path, to: &Path) -> TaskResult {
    create_dir(to)?;
    let entries = std::fs::read_dir(from).map_err(|error| format!("{}: {error}", from.display()))?;
    entries.flatten().try_for_each(|entry| copy(&entry.path(), &to.join(entry.file_name())))
}
