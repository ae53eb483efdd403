//! The package for Debian and those like it.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use super::{Staged, copy, copy_all, make, write};
use crate::tool::{Done, root, run};

/// Where each file goes.
const FILES: [(&str, &str); 6] = [
    ("packaging/berth.service", "usr/lib/systemd/system/berth.service"),
    ("packaging/berth.sysusers", "usr/lib/sysusers.d/berth.conf"),
    ("packaging/berth.toml", "etc/berth/berth.toml"),
    ("packaging/alerts.yaml", "usr/share/doc/berth/alerts.yaml"),
    ("docs/operations.md", "usr/share/doc/berth/operations.md"),
    ("LICENSE", "usr/share/doc/berth/copyright"),
];

/// Makes the user, and nothing else: the first start comes after `berth init`.
const POSTINST: &str = "#!/bin/sh
set -e
if [ \"$1\" = configure ]; then
  if command -v systemd-sysusers >/dev/null 2>&1; then
    systemd-sysusers berth.conf
  elif ! getent passwd berth >/dev/null; then
    useradd --system --user-group --home-dir /var/lib/berth --shell /usr/sbin/nologin berth
  fi
  install -d -m 0700 -o berth -g berth /var/lib/berth
  if [ -d /run/systemd/system ]; then
    systemctl daemon-reload || true
    systemctl try-restart berth.service || true
  fi
fi
";

const PRERM: &str = "#!/bin/sh
set -e
if [ \"$1\" = remove ] && [ -d /run/systemd/system ]; then
  systemctl stop berth.service || true
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
        put(&root().join(from), &dir.join(name), 0o644)?;
    }
    put(&staged.binary, &dir.join("usr/bin/berth"), 0o755)?;
    for (name, place) in [
        ("berth.bash", "usr/share/bash-completion/completions/berth"),
        ("_berth", "usr/share/zsh/vendor-completions/_berth"),
        ("berth.fish", "usr/share/fish/vendor_completions.d/berth.fish"),
    ] {
        put(&staged.completions.join(name), &dir.join(place), 0o644)?;
    }
    let man = dir.join("usr/share/man/man1");
    copy_all(&staged.man, &man)?;
    run(Command::new("gzip").args(["-9nr"]).arg(&man))?;
    let control = dir.join("DEBIAN");
    make(&control)?;
    let text = format!(
        "Package: berth\nVersion: {version}\nArchitecture: {architecture}\nSection: devel\nPriority: optional\n\
         Maintainer: Berth <berth@localhost>\nDepends: libc6 (>= 2.36), libgcc-s1, ca-certificates\n\
         Recommends: git (>= 1:2.39), bubblewrap\n\
         Description: Continuous delivery in one binary\n \
         Pipelines, shared environments with a lock, approvals, logs and a dashboard,\n in one program that keeps its \
         data in SQLite or PostgreSQL.\n"
    );
    write(&control.join("control"), &text)?;
    write(&control.join("conffiles"), "/etc/berth/berth.toml\n")?;
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

fn put(from: &Path, to: &Path, bits: u32) -> Done {
    make(to.parent().unwrap_or(to))?;
    copy(from, to)?;
    mode(to, bits)
}

fn mode(path: &Path, bits: u32) -> Done {
    let set = std::fs::set_permissions(path, std::fs::Permissions::from_mode(bits));
    set.map_err(|error| format!("{}: {error}", path.display()))
}
