//! The container image, built by buildah from Debian packages and the program. `packaging/Dockerfile` builds Berth from
//! source instead, on images of a public registry.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{StagedFiles, copy, create_dir};
use crate::tool::{TaskResult, output, root, run};

/// Maximum size of the image without compression.
const BYTES_MAX: u64 = 120_000_000;
const LIST: &str = "./usr/share/berth/debian-packages";
/// Programs that build the image, and their Debian packages.
pub(super) const PROGRAMS: [(&str, &str); 2] = [("buildah", "buildah"), ("mmdebstrap", "mmdebstrap")];

/// The Debian packages of a root file system, by name and version.
pub(super) type DebianPackages = Vec<(String, String)>;

/// Builds the image as an archive for `podman load` and `docker load`. Its format is Docker's, because OCI's has no health
/// checks.
pub(super) fn build(staged: &StagedFiles, to: &Path) -> Result<(String, DebianPackages), String> {
    check_programs()?;
    let dir = root().join("target/image");
    create_dir(&dir)?;
    let file_system = dir.join("rootfs.tar");
    println!("making the root file system of the image from Debian packages");
    make_file_system(&file_system, &staged.made_at)?;
    let tag = format!("localhost/berth:{}", staged.version);
    let context = stage_context(staged, &file_system, &dir)?;
    let size: u64 = context.1;
    if size > BYTES_MAX {
        return Err(format!("the image has {size} bytes, more than {BYTES_MAX}"));
    }
    build_image(&context.0, &tag, &staged.made_at)?;
    run(Command::new("buildah").args(["tag", &tag, "localhost/berth:latest"]))?;
    let name = format!("berth-{}-image-{}.tar", staged.version, std::env::consts::ARCH);
    let archive = to.join(&name);
    // An existing archive would not be replaced.
    let _ = std::fs::remove_file(&archive);
    let target = format!("docker-archive:{}:{tag}", archive.display());
    run(Command::new("buildah").args(["push", "--quiet", &tag, &target]))?;
    println!("image {tag}: {} MB without compression", size / 1_000_000);
    Ok((name, list_debian_packages(&file_system)?))
}

fn check_programs() -> TaskResult {
    let is_missing = |program: &str| output(Command::new(program).arg("--version")).is_none();
    let missing: Vec<&str> =
        PROGRAMS.into_iter().filter(|(program, _)| is_missing(program)).map(|(_, package)| package).collect();
    if !missing.is_empty() {
        return Err(format!(
            "the image cannot be built: `apt-get install {}`, or leave it out with --without-image",
            missing.join(" ")
        ));
    }
    match output(Command::new("id").arg("-u")).as_deref() {
        Some("0") => Ok(()),
        _ => Err("the image can be built only by root; leave it out with --without-image".into()),
    }
}

pub(super) fn make_file_system(to: &Path, made_at: &str) -> TaskResult {
    let mut script = Command::new(root().join("packaging/image/rootfs.sh"));
    run(script.arg(to).env("SOURCE_DATE_EPOCH", made_at))
}

/// Makes the directory from which the image is built. Returns it and the size of its files.
pub(super) fn stage_context(
    staged: &StagedFiles,
    file_system: &Path,
    dir: &Path,
) -> Result<(PathBuf, u64), String> {
    let context = dir.join("context");
    let _ = std::fs::remove_dir_all(&context);
    create_dir(&context)?;
    let program = context.join("berth");
    copy(&staged.binary, &program)?;
    run(Command::new("strip").arg(&program))?;
    copy(file_system, &context.join("rootfs.tar"))?;
    copy(&root().join("packaging/healthcheck.sh"), &context.join("healthcheck"))?;
    copy(&root().join("LICENSE"), &context.join("LICENSE"))?;
    copy(&staged.notices, &context.join("THIRD-PARTY.txt"))?;
    let entries = std::fs::read_dir(&context).map_err(|error| error.to_string())?;
    let size = entries.flatten().filter_map(|entry| Some(entry.metadata().ok()?.len())).sum();
    Ok((context, size))
}

pub(super) fn build_image(context: &Path, tag: &str, made_at: &str) -> TaskResult {
    let mut buildah = Command::new("buildah");
    buildah.args(["build", "--quiet", "--format", "docker", "--layers=false", "--timestamp", made_at]);
    buildah.args(["--tag", tag, "--file"]).arg(root().join("packaging/image/Containerfile")).arg(context);
    run(&mut buildah)
}

fn list_debian_packages(file_system: &Path) -> Result<DebianPackages, String> {
    let mut tar = Command::new("tar");
    let list =
        output(tar.arg("-xOf").arg(file_system).arg(LIST)).ok_or("the root file system has no list")?;
    let parse =
        |line: &str| line.split_once(' ').map(|(name, version)| (name.to_owned(), version.to_owned()));
    Ok(list.lines().filter_map(parse).collect())
}
