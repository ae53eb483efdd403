//! The Debian package, built by cargo-deb. Its contents are declared in `[package.metadata.deb]` of
//! crates/berth/Cargo.toml.

use std::path::Path;
use std::process::Command;

use super::{StagedFiles, copy, copy_all, create_dir, write};
use crate::tool::{cargo, cargo_has, output, root, run};

pub(crate) const INSTALL_CARGO_DEB: &str = "cargo install --locked cargo-deb";

/// Default maintainer, in a reserved domain (RFC 2606). Packagers set Debian's variables DEBFULLNAME and DEBEMAIL.
const MAINTAINER: (&str, &str) = ("Berth maintainers", "maintainers@berth.invalid");

pub(super) fn build(staged: &StagedFiles, to: &Path) -> Result<String, String> {
    if !cargo_has("deb") {
        return Err(format!("cargo-deb is not installed: `{INSTALL_CARGO_DEB}`"));
    }
    // The directory is fixed, because the manifest lists the package's files with fixed paths.
    let (version, dir) = (&staged.version, root().join("target/deb"));
    let _ = std::fs::remove_dir_all(&dir);
    create_dir(&dir)?;
    let program = dir.join("berth");
    copy(&staged.binary, &program)?;
    run(Command::new("strip").args(["--remove-section=.comment", "--remove-section=.note"]).arg(&program))?;
    copy_all(&staged.completions, &dir.join("completions"))?;
    copy_all(&staged.man, &dir.join("man"))?;
    copy(&staged.notices, &dir.join("THIRD-PARTY.txt"))?;
    copy(&root().join("CHANGELOG.md"), &dir.join("CHANGELOG.md"))?;
    run(Command::new("gzip").arg("-9n").args(["THIRD-PARTY.txt", "CHANGELOG.md"]).current_dir(&dir))?;
    let maintainer = maintainer();
    write(&dir.join("changelog"), &changelog(version, &staged.made_at, &maintainer)?)?;
    let mut pack =
        cargo(["deb", "--quiet", "--package", "berth", "--no-build", "--no-strip", "--deb-version", version]);
    pack.args(["--maintainer", &maintainer]).arg("--output").arg(to).current_dir(root());
    run(pack.env("SOURCE_DATE_EPOCH", &staged.made_at))?;
    let architecture = output(Command::new("dpkg").arg("--print-architecture")).ok_or("dpkg failed")?;
    let file = format!("berth_{version}_{architecture}.deb");
    let mut field = Command::new("dpkg-deb");
    let depends = output(field.arg("--field").arg(to.join(&file)).arg("Depends")).unwrap_or_default();
    // If dpkg-shlibdeps is missing, cargo-deb only warns, so check that the dependencies were found.
    if !depends.contains("libc6 (>= ") {
        return Err(format!("the package does not depend on glibc ({depends}): install dpkg-dev"));
    }
    Ok(file)
}

fn maintainer() -> String {
    let env_value = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let name = env_value("DEBFULLNAME").unwrap_or_else(|| MAINTAINER.0.to_owned());
    format!("{name} <{}>", env_value("DEBEMAIL").unwrap_or_else(|| MAINTAINER.1.to_owned()))
}

/// Returns a changelog in Debian's format, which refers to CHANGELOG.md.
fn changelog(version: &str, made_at: &str, maintainer: &str) -> Result<String, String> {
    let date =
        output(Command::new("date").args(["-u", "-R", "-d", &format!("@{made_at}")]).env("LC_ALL", "C"));
    let date = date.ok_or("date failed")?;
    Ok(format!(
        "berth ({version}) unstable; urgency=medium\n\n  * The changes are in CHANGELOG.md.gz.\n\n -- {maintainer}  {date}\n"
    ))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::PathBuf;

    use berth_testkit::outcome;

    use super::*;

    const SETTINGS: &str = "etc/berth/berth.toml";

    /// A directory that is removed with its contents on drop.
    struct ScratchDir(PathBuf);

    impl Drop for ScratchDir {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn command_output(program: &str, args: &[&OsStr]) -> String {
        output(Command::new(program).args(args))
            .unwrap_or_else(|| panic!("{program} {args:?} does not answer"))
    }

    fn sections(program: &Path) -> String {
        command_output("readelf", &["--sections".as_ref(), "--wide".as_ref(), program.as_ref()])
    }

    /// Checks everything that Debian's `lintian` treats as an error. The packaged program is this test binary, because
    /// it has symbols to strip.
    #[test]
    fn debian_package_is_valid() {
        if !cargo_has("deb") {
            return outcome::skip("cargo-deb", INSTALL_CARGO_DEB);
        }
        let scratch = ScratchDir(std::env::temp_dir().join(format!("berth-deb-{}", std::process::id())));
        let to = &scratch.0;
        let (completions, man, notices) = (to.join("completions"), to.join("man"), to.join("notices"));
        for (dir, names) in
            [(&completions, vec!["berth.bash", "_berth", "berth.fish"]), (&man, vec!["berth.1"])]
        {
            create_dir(dir).unwrap();
            names.iter().for_each(|name| write(&dir.join(name), "something\n").unwrap());
            // Make the files unreadable for other users, as a restrictive umask would.
            let closed = || std::fs::Permissions::from_mode(0o600);
            names.iter().for_each(|name| std::fs::set_permissions(dir.join(name), closed()).unwrap());
        }
        write(&notices, "of others\n").unwrap();
        let binary = std::env::current_exe().unwrap();
        assert!(sections(&binary).contains(".symtab"));
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let staged = StagedFiles {
            binary,
            completions,
            man,
            notices,
            packages: Vec::new(),
            version: version.clone(),
            made_at: "1000000000".into(),
        };
        let file = to.join(build(&staged, to).unwrap());
        let out = to.join("out");
        command_output("dpkg-deb", &["--raw-extract".as_ref(), file.as_ref(), out.as_ref()]);

        let program = out.join("usr/bin/berth");
        assert!(!sections(&program).contains(".symtab"));
        let doc = out.join("usr/share/doc/berth");
        assert_eq!(command_output("zcat", &[doc.join("THIRD-PARTY.txt.gz").as_ref()]), "of others");
        let changes = command_output("zcat", &[doc.join("changelog.gz").as_ref()]);
        assert!(
            changes.starts_with(&format!("berth ({version}) unstable; urgency=medium\n\n  * ")),
            "{changes}"
        );
        assert!(changes.ends_with("Sun, 09 Sep 2001 01:46:40 +0000"), "{changes}");
        let changes = command_output("zcat", &[doc.join("CHANGELOG.md.gz").as_ref()]);
        assert!(changes.starts_with("# Changelog"), "{changes}");
        let copyright = std::fs::read_to_string(doc.join("copyright")).unwrap();
        for wanted in ["copyright-format/1.0/\n", "\nCopyright: ", "/usr/share/common-licenses/Apache-2.0"] {
            assert!(copyright.contains(wanted), "{copyright}");
        }
        assert!(out.join("usr/share/man/man1/berth.1.gz").exists());

        let field =
            |name: &str| command_output("dpkg-deb", &["--field".as_ref(), file.as_ref(), name.as_ref()]);
        let maintainer = field("Maintainer");
        let host = maintainer.split_once('@').unwrap().1;
        assert!(host.contains('.'), "{host}");
        assert!(
            field("Installed-Size").parse::<u64>().unwrap()
                >= std::fs::metadata(&program).unwrap().len() / 1024
        );
        for line in command_output("dpkg-deb", &["--contents".as_ref(), file.as_ref()]).lines() {
            let wanted = match line.ends_with('/') {
                true => "drwxr-xr-x 0/0 ",
                false if line.ends_with("/usr/bin/berth") => "-rwxr-xr-x 0/0 ",
                false => "-rw-r--r-- 0/0 ",
            };
            assert!(line.starts_with(wanted), "{line}");
        }
        let control = |name: &str| std::fs::read_to_string(out.join("DEBIAN").join(name)).unwrap();
        assert_eq!(control("conffiles").trim(), format!("/{SETTINGS}"));
        for script in ["postinst", "prerm", "postrm"] {
            let own = std::fs::read_to_string(root().join("packaging/debian").join(script)).unwrap();
            assert_eq!(control(script), own);
        }
        for part in ["ca-certificates", "passwd", "libgcc-s1", "libc6 (>= "] {
            assert!(field("Depends").contains(part), "{}", field("Depends"));
        }
        assert!(field("Description").starts_with("Continuous delivery in one binary"));
        assert_eq!(field("Recommends"), "git (>= 1:2.39), bubblewrap");
        for path in [
            "usr/lib/systemd/system/berth.service",
            "usr/lib/systemd/system/berth-runner.service",
            "usr/share/doc/berth/no-runner.conf",
            "usr/lib/sysusers.d/berth.conf",
            SETTINGS,
            "usr/share/doc/berth/alerts.yaml",
            "usr/share/doc/berth/operations.md",
            "usr/share/bash-completion/completions/berth",
            "usr/share/zsh/vendor-completions/_berth",
            "usr/share/fish/vendor_completions.d/berth.fish",
        ] {
            assert!(out.join(path).is_file(), "{path}");
        }
    }
}
