//! The package for Debian and those like it.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Staged, changelog, copy, copy_all, make, write};
use crate::tool::{Done, output, root, run};

const SETTINGS: &str = "etc/berth/berth.toml";

/// Where each file goes.
const FILES: [(&str, &str); 6] = [
    ("packaging/berth.service", "usr/lib/systemd/system/berth.service"),
    ("packaging/berth.sysusers", "usr/lib/sysusers.d/berth.conf"),
    ("packaging/berth.toml", SETTINGS),
    ("packaging/alerts.yaml", "usr/share/doc/berth/alerts.yaml"),
    ("docs/operations.md", "usr/share/doc/berth/operations.md"),
    ("packaging/copyright", "usr/share/doc/berth/copyright"),
];

/// Whoever hands out a package says who they are, by Debian's variables DEBFULLNAME and DEBEMAIL. The project has no
/// address of its own; this one is of a kind that never reaches anybody (RFC 2606), and shows it.
const MAINTAINER: (&str, &str) = ("Berth maintainers", "maintainers@berth.invalid");
/// That of bookworm, which the package was tried on; a program that was built on a newer system wants more.
const GLIBC_MIN: (u32, u32) = (2, 36);

/// Makes the users, and nothing else: the first start comes after `berth init`.
const POSTINST: &str = "#!/bin/sh
set -e
if [ \"$1\" = configure ]; then
  if command -v systemd-sysusers >/dev/null 2>&1; then
    systemd-sysusers berth.conf
  else
    for name in berth berth-step; do
      if ! getent passwd $name >/dev/null; then
        useradd --system --user-group --home-dir /var/lib/berth --shell /usr/sbin/nologin $name
      fi
    done
  fi
  install -d -m 0700 /var/lib/berth
  if [ -d /run/systemd/system ]; then
    systemctl daemon-reload || true
    if systemctl --quiet is-active berth.service; then
      deb-systemd-invoke restart berth.service || true
    fi
  fi
fi
";

const PRERM: &str = "#!/bin/sh
set -e
if [ \"$1\" = remove ] && [ -d /run/systemd/system ]; then
  deb-systemd-invoke stop berth.service || true
fi
";

/// What `systemctl enable` left goes with the settings, and so does the file for secrets, which no package owns; the data stays.
const POSTRM: &str = "#!/bin/sh
set -e
if [ \"$1\" = purge ]; then
  rm -f /etc/systemd/system/multi-user.target.wants/berth.service /etc/berth/environment
  rmdir /etc/berth 2>/dev/null || true
fi
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload || true
fi
";

pub(super) fn build(staged: &Staged, to: &Path) -> Result<String, String> {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => return Err(format!("Debian's name of {other} is not known here")),
    };
    let (version, dir) = (&staged.version, to.join("deb"));
    let _ = std::fs::remove_dir_all(&dir);
    for (from, name) in FILES {
        put(&root().join(from), &dir.join(name))?;
    }
    let program = dir.join("usr/bin/berth");
    put(&staged.binary, &program)?;
    run(Command::new("strip").args(["--remove-section=.comment", "--remove-section=.note"]).arg(&program))?;
    for (name, place) in [
        ("berth.bash", "usr/share/bash-completion/completions/berth"),
        ("_berth", "usr/share/zsh/vendor-completions/_berth"),
        ("berth.fish", "usr/share/fish/vendor_completions.d/berth.fish"),
    ] {
        put(&staged.completions.join(name), &dir.join(place))?;
    }
    let man = dir.join("usr/share/man/man1");
    copy_all(&staged.man, &man)?;
    run(Command::new("gzip").args(["-9nr"]).arg(&man))?;
    let maintainer = maintainer();
    let told = std::fs::read_to_string(root().join("CHANGELOG.md")).map_err(|error| error.to_string())?;
    let told = changelog::debian(&told, version, &staged.made_at, &maintainer)?;
    let place = dir.join("usr/share/doc/berth/changelog");
    write(&place, &told)?;
    run(Command::new("gzip").arg("-9n").arg(&place))?;
    let place = dir.join("usr/share/doc/berth/THIRD-PARTY.txt");
    put(&staged.notices, &place)?;
    run(Command::new("gzip").arg("-9n").arg(&place))?;
    let (mut files, kib) = plain(&dir)?;
    // People change these, and are asked about them at an upgrade: no sum holds.
    files.retain(|file| file != Path::new(SETTINGS));
    let (major, minor) = glibc(&program)?;
    let control = dir.join("DEBIAN");
    make(&control)?;
    let text = format!(
        "Package: berth\nVersion: {version}\nArchitecture: {architecture}\nSection: devel\nPriority: optional\n\
         Maintainer: {maintainer}\nInstalled-Size: {kib}\n\
         Depends: libc6 (>= {major}.{minor}), libgcc-s1, ca-certificates, passwd\n\
         Recommends: git (>= 1:2.39), bubblewrap\n\
         Description: Continuous delivery in one binary\n \
         Pipelines, shared environments with a lock, approvals, logs and a dashboard,\n in one program that keeps its \
         data in SQLite or PostgreSQL.\n"
    );
    write(&control.join("control"), &text)?;
    let sums =
        output(Command::new("md5sum").args(&files).current_dir(&dir)).ok_or("md5sum does not answer")?;
    write(&control.join("md5sums"), &(sums + "\n"))?;
    write(&control.join("conffiles"), &format!("/{SETTINGS}\n"))?;
    plain(&control)?;
    for (name, text) in [("postinst", POSTINST), ("prerm", PRERM), ("postrm", POSTRM)] {
        write(&control.join(name), text)?;
        mode(&control.join(name), 0o755)?;
    }
    let file = format!("berth_{version}_{architecture}.deb");
    let mut pack = Command::new("dpkg-deb");
    pack.args(["--root-owner-group", "-Zxz", "--build"]).arg(&dir).arg(to.join(&file));
    run(pack.env("SOURCE_DATE_EPOCH", &staged.made_at))?;
    Ok(file)
}

fn maintainer() -> String {
    let told = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let name = told("DEBFULLNAME").unwrap_or_else(|| MAINTAINER.0.to_owned());
    format!("{name} <{}>", told("DEBEMAIL").unwrap_or_else(|| MAINTAINER.1.to_owned()))
}

/// The glibc that a program asks for: the newest version it names, and never less than what was tried.
fn glibc(program: &Path) -> Result<(u32, u32), String> {
    let told = output(Command::new("objdump").arg("-p").arg(program)).ok_or("objdump does not answer")?;
    let versions = told.split_whitespace().filter_map(|word| {
        let (major, minor) = word.strip_prefix("GLIBC_")?.split_once('.')?;
        Some((major.parse().ok()?, minor.split('.').next()?.parse().ok()?))
    });
    Ok(versions.fold(GLIBC_MIN, Ord::max))
}

/// Gives everything below a directory the modes that Debian wants, whatever the umask here is, and answers the files,
/// in order, with the size of all in KiB as Debian counts it.
fn plain(dir: &Path) -> Result<(Vec<PathBuf>, u64), String> {
    let (mut files, mut kib, mut dirs) = (Vec::new(), 0, vec![dir.to_owned()]);
    while let Some(here) = dirs.pop() {
        mode(&here, 0o755)?;
        kib += 1;
        let entries = std::fs::read_dir(&here).map_err(|error| format!("{}: {error}", here.display()))?;
        for path in entries.flatten().map(|entry| entry.path()) {
            let info = std::fs::metadata(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            if info.is_dir() {
                dirs.push(path);
                continue;
            }
            let is_program = path.parent().is_some_and(|parent| parent.ends_with("bin"));
            mode(&path, if is_program { 0o755 } else { 0o644 })?;
            kib += info.len().div_ceil(1024);
            files.extend(path.strip_prefix(dir).map(Path::to_owned));
        }
    }
    files.sort();
    Ok((files, kib))
}

fn put(from: &Path, to: &Path) -> Done {
    make(to.parent().unwrap_or(to))?;
    copy(from, to)
}

fn mode(path: &Path, bits: u32) -> Done {
    let set = std::fs::set_permissions(path, std::fs::Permissions::from_mode(bits));
    set.map_err(|error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    /// Removed with everything in it.
    struct Scratch(PathBuf);

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn told(program: &str, args: &[&OsStr]) -> String {
        output(Command::new(program).args(args))
            .unwrap_or_else(|| panic!("{program} {args:?} does not answer"))
    }

    fn sections(program: &Path) -> String {
        told("readelf", &["--sections".as_ref(), "--wide".as_ref(), program.as_ref()])
    }

    /// What Debian's own `lintian` calls an error, looked for without it. The program in it is this test: it has symbols.
    #[test]
    fn the_package_is_as_debian_wants_it() {
        let scratch = Scratch(std::env::temp_dir().join(format!("berth-deb-{}", std::process::id())));
        let to = &scratch.0;
        let (completions, man, notices) = (to.join("completions"), to.join("man"), to.join("notices"));
        for (dir, names) in
            [(&completions, vec!["berth.bash", "_berth", "berth.fish"]), (&man, vec!["berth.1"])]
        {
            make(dir).unwrap();
            names.iter().for_each(|name| write(&dir.join(name), "something\n").unwrap());
            // As a umask may have it.
            names.iter().for_each(|name| mode(&dir.join(name), 0o600).unwrap());
        }
        write(&notices, "of others\n").unwrap();
        let binary = std::env::current_exe().unwrap();
        assert!(sections(&binary).contains(".symtab"));
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let staged = Staged {
            binary,
            completions,
            man,
            notices,
            version: version.clone(),
            made_at: "1000000000".into(),
        };
        let file = to.join(build(&staged, to).unwrap());
        let out = to.join("out");
        told("dpkg-deb", &["--raw-extract".as_ref(), file.as_ref(), out.as_ref()]);

        let program = out.join("usr/bin/berth");
        assert!(!sections(&program).contains(".symtab"));
        let doc = out.join("usr/share/doc/berth");
        assert_eq!(told("zcat", &[doc.join("THIRD-PARTY.txt.gz").as_ref()]), "of others");
        let changes = told("zcat", &[doc.join("changelog.gz").as_ref()]);
        assert!(
            changes.starts_with(&format!("berth ({version}) unstable; urgency=medium\n\n  * ")),
            "{changes}"
        );
        assert!(changes.ends_with("Sun, 09 Sep 2001 01:46:40 +0000"), "{changes}");
        assert!(
            changes.lines().all(|line| line.starts_with(" -- ") || line.chars().count() <= 80),
            "{changes}"
        );
        let copyright = std::fs::read_to_string(doc.join("copyright")).unwrap();
        for wanted in ["copyright-format/1.0/\n", "\nCopyright: ", "/usr/share/common-licenses/Apache-2.0"] {
            assert!(copyright.contains(wanted), "{copyright}");
        }
        assert!(out.join("usr/share/man/man1/berth.1.gz").exists());

        let field = |name: &str| told("dpkg-deb", &["--field".as_ref(), file.as_ref(), name.as_ref()]);
        let maintainer = field("Maintainer");
        let host = maintainer.split_once('@').unwrap().1;
        assert!(host.contains('.'), "{host}");
        assert!(
            field("Installed-Size").parse::<u64>().unwrap()
                >= std::fs::metadata(&program).unwrap().len() / 1024
        );
        for line in told("dpkg-deb", &["--contents".as_ref(), file.as_ref()]).lines() {
            let wanted = match line.ends_with('/') {
                true => "drwxr-xr-x root/root ",
                false if line.ends_with("/usr/bin/berth") => "-rwxr-xr-x root/root ",
                false => "-rw-r--r-- root/root ",
            };
            assert!(line.starts_with(wanted), "{line}");
        }
        let sums = ["-c", "md5sum --check --strict --quiet DEBIAN/md5sums"];
        assert!(Command::new("sh").args(sums).current_dir(&out).status().unwrap().success());
        let summed = std::fs::read_to_string(out.join("DEBIAN/md5sums")).unwrap();
        assert!(summed.contains("  usr/bin/berth\n") && !summed.contains(SETTINGS), "{summed}");
    }
}
