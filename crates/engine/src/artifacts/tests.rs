//! Tests that artifacts survive a round trip and that hostile workspaces and archives are refused.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;

use berth_core::time::Timestamp;
use tar::{EntryType, Header};
use tempfile::TempDir;

use super::*;

fn org(number: u8) -> OrgId {
    OrgId::from_parts(Timestamp::from_micros(1), [number; 10])
}

struct ArtifactFixture {
    dir: TempDir,
    artifacts: ArtifactStore,
}

impl ArtifactFixture {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for name in ["work", "into", "outside"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        fs::write(dir.path().join("outside/secret"), "secret").unwrap();
        let artifacts = ArtifactStore::new(dir.path().join("artifacts"));
        Self { dir, artifacts }
    }

    fn workspace_path(&self, path: &str) -> PathBuf {
        let path = self.dir.path().join("work").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    }

    fn unpacked_path(&self, path: &str) -> PathBuf {
        self.dir.path().join("into").join(path)
    }

    fn store_artifact(&self, path: &str) -> Result<StoredArtifact, ArtifactError> {
        self.artifacts.store_path(org(1), &self.dir.path().join("work"), path)
    }

    fn unpack(&self, digest: &str) -> Result<(), ArtifactError> {
        self.artifacts.unpack(org(1), digest, &self.dir.path().join("into"))
    }

    /// Writes a crafted archive to the path of a stored artifact.
    fn plant_archive(&self, tar: &[u8]) -> String {
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, tar);
        let digest =
            digest.as_ref().iter().fold("sha256:".to_owned(), |text, byte| format!("{text}{byte:02x}"));
        let place = self.artifacts.archive_path(org(1), &digest).unwrap();
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::write(place, zstd::encode_all(tar, 1).unwrap()).unwrap();
        digest
    }

    /// Returns all files outside of the directories that the store may write to.
    fn files_outside(&self) -> BTreeMap<String, String> {
        let entries = fs::read_dir(self.dir.path().join("outside")).unwrap();
        let mut all: BTreeMap<String, String> = entries
            .map(|entry| entry.unwrap())
            .map(|entry| {
                (entry.file_name().to_string_lossy().into(), fs::read_to_string(entry.path()).unwrap())
            })
            .collect();
        let siblings = fs::read_dir(self.dir.path()).unwrap().map(|entry| entry.unwrap().file_name());
        all.extend(siblings.map(|name| (name.to_string_lossy().into(), "sibling".into())));
        all
    }
}

#[test]
fn unpacked_artifact_equals_stored_content() {
    let fixture = ArtifactFixture::new();
    let long = format!("dist/{}/{}", "d".repeat(200), "f".repeat(200));
    for (path, content) in [("dist/app", "run"), ("dist/sub/data", ""), ("dist/ä €", "x"), (&long, "long")]
    {
        fs::write(fixture.workspace_path(path), content).unwrap();
    }
    fs::create_dir_all(fixture.workspace_path("dist/empty/dir")).unwrap();
    fs::set_permissions(fixture.workspace_path("dist/app"), fs::Permissions::from_mode(0o4750)).unwrap();
    symlink("../app", fixture.workspace_path("dist/sub/link")).unwrap();
    let long_target = "x/".repeat(80) + "y";
    symlink(&long_target, fixture.workspace_path("dist/nowhere")).unwrap();
    fs::write(fixture.workspace_path("outside-dist"), "not kept").unwrap();

    let kept = fixture.store_artifact("dist").unwrap();
    assert_eq!((kept.bytes, kept.files), (8, 11));
    assert!(kept.digest.starts_with("sha256:") && kept.digest.len() == 71);
    fixture.unpack(&kept.digest).unwrap();
    assert_eq!(fs::read_to_string(fixture.unpacked_path("dist/app")).unwrap(), "run");
    assert_eq!(fs::metadata(fixture.unpacked_path("dist/app")).unwrap().permissions().mode() & 0o7777, 0o755);
    assert_eq!(fs::metadata(fixture.unpacked_path("dist/ä €")).unwrap().permissions().mode() & 0o7777, 0o644);
    assert_eq!(fs::read_to_string(fixture.unpacked_path(&long)).unwrap(), "long");
    assert_eq!(fs::read_to_string(fixture.unpacked_path("dist/sub/link")).unwrap(), "run");
    assert_eq!(fs::read_link(fixture.unpacked_path("dist/nowhere")).unwrap(), Path::new(&long_target));
    assert!(
        fixture.unpacked_path("dist/empty/dir").is_dir() && !fixture.unpacked_path("outside-dist").exists()
    );
    // An artifact can be unpacked over an earlier copy of itself.
    fixture.unpack(&kept.digest).unwrap();
}

#[test]
fn identical_content_is_stored_once() {
    let (fixture, other) = (ArtifactFixture::new(), ArtifactFixture::new());
    for (fixture, names) in [(&fixture, ["a", "b", "c"]), (&other, ["c", "a", "b"])] {
        for name in names {
            fs::write(fixture.workspace_path(&format!("out/{name}")), name).unwrap();
        }
    }
    let old = fs::FileTimes::new().set_modified(std::time::UNIX_EPOCH);
    File::open(fixture.workspace_path("out/a")).unwrap().set_times(old).unwrap();
    let kept = fixture.store_artifact("out").unwrap();
    for path in ["out", "out/", "./out", "out/."] {
        assert_eq!(fixture.store_artifact(path).unwrap(), kept);
    }
    assert_eq!(other.store_artifact("out").unwrap(), kept);
    let files =
        fs::read_dir(fixture.dir.path().join(format!("artifacts/{}/sha256", org(1)))).unwrap().count();
    assert_eq!(files, 1, "no second copy, and nothing unfinished");
    assert!(
        fixture.artifacts.contains(org(1), &kept.digest).unwrap()
            && !fixture.artifacts.contains(org(2), &kept.digest).unwrap()
    );
    let foreign = fixture.artifacts.unpack(org(2), &kept.digest, &fixture.unpacked_path(""));
    assert!(matches!(foreign, Err(ArtifactError::Unknown(_))));
}

#[test]
fn single_file_and_whole_workspace_can_be_stored() {
    let fixture = ArtifactFixture::new();
    fs::write(fixture.workspace_path("deep/down/app"), "run").unwrap();
    let file = fixture.store_artifact("deep/down/app").unwrap();
    assert_eq!(file.files, 1);
    fixture.unpack(&file.digest).unwrap();
    assert_eq!(fs::read_to_string(fixture.unpacked_path("deep/down/app")).unwrap(), "run");
    assert_eq!(fixture.store_artifact(".").unwrap().files, 3);
    assert!(matches!(fixture.store_artifact("nothing"), Err(ArtifactError::Missing(_))));
    assert!(matches!(fixture.store_artifact("nothing/here"), Err(ArtifactError::Missing(_))));
}

#[test]
fn pa1_paths_outside_workspace_are_refused() {
    let fixture = ArtifactFixture::new();
    fs::write(fixture.workspace_path("dir/file"), "x").unwrap();
    symlink("../outside", fixture.workspace_path("up")).unwrap();
    symlink(fixture.dir.path().join("outside"), fixture.workspace_path("away")).unwrap();
    symlink("dir", fixture.workspace_path("inside")).unwrap();
    for path in [
        "..",
        "../outside",
        "dir/../../outside",
        "/etc/passwd",
        "up",
        "up/secret",
        "away/secret",
        "inside/file",
        "inside",
        "dir\0",
    ] {
        assert!(matches!(fixture.store_artifact(path), Err(ArtifactError::Refused { .. })), "{path:?}");
    }
    let root =
        rustix::fs::open(fixture.workspace_path(""), open_beneath::DIRECTORY, rustix::fs::Mode::empty())
            .unwrap();
    for (parts, opens) in [(vec!["dir"], true), (vec![], true), (vec!["up"], false), (vec!["inside"], false)]
    {
        let parts: Vec<&[u8]> = parts.iter().map(|part| part.as_bytes()).collect();
        assert_eq!(open_beneath::open(&root, &parts, open_beneath::DIRECTORY).is_ok(), opens);
        assert_eq!(open_beneath::open_by_name(&root, &parts, open_beneath::DIRECTORY).is_ok(), opens);
    }
}

#[test]
fn pa1_escaping_links_and_special_files_are_refused_by_name() {
    type MakeFn = fn(&Path);
    let bad: [(&str, MakeFn); 5] = [
        ("out/up", |path| symlink("../x", path).unwrap()),
        ("out/absolute", |path| symlink("/etc/passwd", path).unwrap()),
        ("out/again", |path| symlink("a/../../../x", path).unwrap()),
        ("out/socket", |path| drop(UnixListener::bind(path).unwrap())),
        ("out/pipe", |path| {
            rustix::fs::mkfifoat(rustix::fs::CWD, path, rustix::fs::Mode::from_raw_mode(0o600)).unwrap();
        }),
    ];
    for (name, make) in bad {
        let fixture = ArtifactFixture::new();
        fs::write(fixture.workspace_path("out/fine"), "x").unwrap();
        make(&fixture.workspace_path(name));
        let refused = fixture.store_artifact("out").unwrap_err();
        assert!(matches!(&refused, ArtifactError::Refused { path, .. } if path == name), "{refused}");
    }
}

#[test]
fn artifact_limits_apply_to_storing_and_unpacking() {
    let mut fixture = ArtifactFixture::new();
    for name in ["out/a", "out/b", "out/c"] {
        fs::write(fixture.workspace_path(name), [7; 3_000]).unwrap();
    }
    let whole = fixture.store_artifact("out").unwrap();
    fixture.artifacts.entries_max = 3;
    assert!(matches!(fixture.store_artifact("out"), Err(ArtifactError::TooMany)));
    assert!(matches!(fixture.unpack(&whole.digest), Err(ArtifactError::TooMany)));
    fixture.artifacts.entries_max = 4;
    fixture.unpack(&whole.digest).unwrap();
    fixture.artifacts.bytes_max = 9_000;
    assert!(matches!(fixture.store_artifact("out"), Err(ArtifactError::TooLarge { .. })));
    assert!(matches!(fixture.unpack(&whole.digest), Err(ArtifactError::TooLarge { .. })));
    let fixture = ArtifactFixture::new();
    let deep = "d/".repeat(ARCHIVE_DEPTH_MAX + 1) + "x";
    fs::create_dir_all(fixture.workspace_path(&deep)).unwrap();
    assert!(matches!(fixture.store_artifact("d"), Err(ArtifactError::Refused { .. })));
}

#[test]
fn modified_artifact_is_detected() {
    let fixture = ArtifactFixture::new();
    fs::write(fixture.workspace_path("app"), "run ".repeat(10_000)).unwrap();
    let kept = fixture.store_artifact("app").unwrap();
    let place = fixture.artifacts.archive_path(org(1), &kept.digest).unwrap();
    let good = fs::read(&place).unwrap();
    let other = {
        let tar = zstd::decode_all(&*good).unwrap();
        zstd::encode_all(&*String::from_utf8_lossy(&tar).replacen("run", "ruN", 1).into_bytes(), 1).unwrap()
    };
    for bad in [&other[..], &good[..good.len() / 2], &[], b"no archive"] {
        fs::write(&place, bad).unwrap();
        assert!(
            matches!(fixture.unpack(&kept.digest), Err(ArtifactError::Corrupt(_))),
            "{} bytes",
            bad.len()
        );
    }
    for digest in ["", "sha256:", "sha256:../../../../etc/passwd", &kept.digest.to_uppercase(), "md5:00"] {
        assert!(matches!(fixture.unpack(digest), Err(ArtifactError::Unknown(_))), "{digest}");
    }
}

/// An entry of a crafted archive: type, raw name, link target and content.
type CraftedEntry = (EntryType, &'static str, &'static str, &'static str);

fn build_archive(entries: &[CraftedEntry]) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    for (kind, name, target, content) in entries {
        let mut header = Header::new_gnu();
        // Write the raw header bytes, because the tar library refuses such names.
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.as_old_mut().linkname[..target.len()].copy_from_slice(target.as_bytes());
        header.set_entry_type(*kind);
        header.set_mode(0o6777);
        header.set_size(content.len() as u64);
        header.set_cksum();
        tar.append(&header, content.as_bytes()).unwrap();
    }
    tar.into_inner().unwrap()
}

#[test]
fn pa2_hostile_archive_is_refused_and_writes_nothing_outside() {
    use EntryType::*;
    let evil: &[(&str, &[CraftedEntry])] = &[
        ("up", &[(Regular, "../outside/new", "", "x")]),
        ("up in the middle", &[(Regular, "a/../../outside/new", "", "x")]),
        ("absolute", &[(Regular, "/tmp/berth-evil", "", "x")]),
        ("absolute directory", &[(Directory, "/tmp/berth-evil-dir/", "", "")]),
        ("no name", &[(Regular, "", "", "x")]),
        ("the root itself", &[(Regular, "./", "", "x")]),
        ("link up", &[(Symlink, "a", "../outside", "")]),
        ("link to root", &[(Symlink, "a", "/", "")]),
        ("link to nothing", &[(Symlink, "a", "", "")]),
        ("through a link", &[(Symlink, "a", "b", ""), (Regular, "a/new", "", "x")]),
        (
            "directory over a link",
            &[(Directory, "d", "", ""), (Symlink, "a", "d", ""), (Directory, "a", "", "")],
        ),
        (
            "two links that add up",
            &[(Directory, "d/e", "", ""), (Symlink, "d/e/x", "../..", ""), (Symlink, "d/e/y", "x/../..", "")],
        ),
        ("hard link out", &[(Link, "a", "../outside/secret", "")]),
        ("hard link in", &[(Regular, "b", "", "x"), (Link, "a", "b", "")]),
        ("device", &[(Char, "null", "", "")]),
        ("disk", &[(Block, "sda", "", "")]),
        ("pipe", &[(Fifo, "pipe", "", "")]),
        ("sparse", &[(GNUSparse, "s", "", "")]),
        ("extended header", &[(XHeader, "x", "", "18 path=../outside\n"), (Regular, "b", "", "x")]),
        ("global header", &[(XGlobalHeader, "g", "", "18 path=../outside\n")]),
        ("long name up", &[(GNULongName, "l", "", "../outside/new\0"), (Regular, "b", "", "x")]),
        ("long link up", &[(GNULongLink, "l", "", "../outside\0"), (Symlink, "b", "", "")]),
        ("file over a directory", &[(Directory, "d", "", ""), (Regular, "d", "", "x")]),
        ("directory over a file", &[(Regular, "d", "", "x"), (Directory, "d", "", "")]),
    ];
    for (what, entries) in evil {
        let fixture = ArtifactFixture::new();
        let before = (fixture.files_outside(), fixture.dir.path().exists());
        let digest = fixture.plant_archive(&build_archive(entries));
        let refused = fixture.unpack(&digest);
        assert!(matches!(refused, Err(ArtifactError::Refused { .. })), "{what}: {refused:?}");
        let mut after = fixture.files_outside();
        after.remove("artifacts");
        assert_eq!(after, before.0, "{what}");
    }
    assert!(!Path::new("/tmp/berth-evil").exists() && !Path::new("/tmp/berth-evil-dir").exists());
}

#[test]
fn pa2_forged_sizes_and_compression_bombs_are_refused() {
    let mut fixture = ArtifactFixture::new();
    fixture.artifacts.bytes_max = 1024 * 1024;
    for (kind, name) in [(EntryType::Regular, "big"), (EntryType::GNULongName, "long")] {
        let mut tar = build_archive(&[(kind, name, "", "")]);
        let mut header = Header::from_byte_slice(&tar[..512]).clone();
        header.set_size(1 << 40);
        header.set_cksum();
        tar[..512].copy_from_slice(header.as_bytes());
        assert!(fixture.unpack(&fixture.plant_archive(&tar)).is_err());
    }
    // Sixteen megabytes of zeros compress to a few hundred bytes.
    let mut bomb = build_archive(&[(EntryType::Regular, "zeros", "", "")]);
    bomb.resize(16 * 1024 * 1024, 0);
    assert!(matches!(fixture.unpack(&fixture.plant_archive(&bomb)), Err(ArtifactError::TooLarge { .. })));
}

#[test]
fn pa2_existing_files_are_replaced_and_symlinks_never_followed() {
    let fixture = ArtifactFixture::new();
    fs::write(fixture.workspace_path("dir/secret"), "new").unwrap();
    let kept = fixture.store_artifact("dir").unwrap();
    fs::create_dir(fixture.unpacked_path("dir")).unwrap();
    symlink("../../outside/secret", fixture.unpacked_path("dir/secret")).unwrap();
    fixture.unpack(&kept.digest).unwrap();
    assert_eq!(fs::read_to_string(fixture.unpacked_path("dir/secret")).unwrap(), "new");
    assert_eq!(fixture.files_outside()["secret"], "secret");

    fs::remove_dir_all(fixture.unpacked_path("dir")).unwrap();
    symlink("../outside", fixture.unpacked_path("dir")).unwrap();
    assert!(matches!(fixture.unpack(&kept.digest), Err(ArtifactError::Refused { .. })));
    assert_eq!(fixture.files_outside()["secret"], "secret");
}

/// Compresses an archive in the way a runner does before an upload.
fn uploaded_archive(tar: &[u8]) -> File {
    use std::io::{Seek as _, Write as _};
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&zstd::encode_all(tar, 1).unwrap()).unwrap();
    file.rewind().unwrap();
    file
}

#[test]
fn sb01_uploaded_archive_is_fully_validated() {
    use EntryType::*;
    let fixture = ArtifactFixture::new();
    let good = build_archive(&[
        (Directory, "./", "", ""),
        (Directory, "dist/", "", ""),
        (Regular, "dist/a", "", "x"),
    ]);
    let received = fixture.artifacts.receive(org(1), &uploaded_archive(&good), "dist").unwrap();
    fs::write(fixture.workspace_path("dist/a"), "x").unwrap();
    fs::set_permissions(fixture.workspace_path("dist/a"), fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(received, fixture.store_artifact("dist").unwrap(), "the same as if it had been kept here");
    // Files in the archive outside of the planned path are not stored.
    let more =
        build_archive(&[(Directory, "dist/", "", ""), (Regular, "dist/a", "", "x"), (Regular, "b", "", "y")]);
    assert_eq!(fixture.artifacts.receive(org(1), &uploaded_archive(&more), "dist").unwrap(), received);
    let evil: &[&[CraftedEntry]] = &[
        &[(Regular, "../outside/new", "", "x")],
        &[(Symlink, "dist", "/etc", "")],
        &[(Symlink, "dist", "../outside", "")],
        &[(Symlink, "a", "b", ""), (Regular, "a/new", "", "x")],
        &[(Char, "dist", "", "")],
        &[(Regular, "other", "", "x")],
    ];
    for entries in evil {
        let refused = fixture.artifacts.receive(org(1), &uploaded_archive(&build_archive(entries)), "dist");
        assert!(
            matches!(refused, Err(ArtifactError::Refused { .. } | ArtifactError::Missing(_))),
            "{entries:?}: {refused:?}"
        );
    }
    assert_eq!(fixture.files_outside()["secret"], "secret");
    assert!(
        fs::read_dir(fixture.dir.path().join("artifacts"))
            .unwrap()
            .all(|entry| { !entry.unwrap().file_name().to_string_lossy().starts_with("scratch-") })
    );
}
