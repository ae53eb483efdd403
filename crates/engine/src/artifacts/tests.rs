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

    fn work(&self, path: &str) -> PathBuf {
        let path = self.dir.path().join("work").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    }

    fn there(&self, path: &str) -> PathBuf {
        self.dir.path().join("into").join(path)
    }

    fn keep(&self, path: &str) -> Result<StoredArtifact, ArtifactError> {
        self.artifacts.store_path(org(1), &self.dir.path().join("work"), path)
    }

    fn unpack(&self, digest: &str) -> Result<(), ArtifactError> {
        self.artifacts.unpack(org(1), digest, &self.dir.path().join("into"))
    }

    /// Writes a crafted archive to the path of a stored artifact.
    fn plant(&self, tar: &[u8]) -> String {
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, tar);
        let digest =
            digest.as_ref().iter().fold("sha256:".to_owned(), |text, byte| format!("{text}{byte:02x}"));
        let place = self.artifacts.archive_path(org(1), &digest).unwrap();
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::write(place, zstd::encode_all(tar, 1).unwrap()).unwrap();
        digest
    }

    /// Returns all files outside of the directories that the store may write to.
    fn outside(&self) -> BTreeMap<String, String> {
        let entries = fs::read_dir(self.dir.path().join("outside")).unwrap();
        let mut all: BTreeMap<String, String> = entries
            .map(|entry| entry.unwrap())
            .map(|entry| {
                (entry.file_name().to_string_lossy().into(), fs::read_to_string(entry.path()).unwrap())
            })
            .collect();
        let beside = fs::read_dir(self.dir.path()).unwrap().map(|entry| entry.unwrap().file_name());
        all.extend(beside.map(|name| (name.to_string_lossy().into(), "beside".into())));
        all
    }
}

#[test]
fn unpacked_artifact_equals_stored_content() {
    let yard = ArtifactFixture::new();
    let long = format!("dist/{}/{}", "d".repeat(200), "f".repeat(200));
    for (path, content) in [("dist/app", "run"), ("dist/sub/data", ""), ("dist/ä €", "x"), (&long, "long")]
    {
        fs::write(yard.work(path), content).unwrap();
    }
    fs::create_dir_all(yard.work("dist/empty/dir")).unwrap();
    fs::set_permissions(yard.work("dist/app"), fs::Permissions::from_mode(0o4750)).unwrap();
    symlink("../app", yard.work("dist/sub/link")).unwrap();
    let long_target = "x/".repeat(80) + "y";
    symlink(&long_target, yard.work("dist/nowhere")).unwrap();
    fs::write(yard.work("beside"), "not kept").unwrap();

    let kept = yard.keep("dist").unwrap();
    assert_eq!((kept.bytes, kept.files), (8, 11));
    assert!(kept.digest.starts_with("sha256:") && kept.digest.len() == 71);
    yard.unpack(&kept.digest).unwrap();
    assert_eq!(fs::read_to_string(yard.there("dist/app")).unwrap(), "run");
    assert_eq!(fs::metadata(yard.there("dist/app")).unwrap().permissions().mode() & 0o7777, 0o755);
    assert_eq!(fs::metadata(yard.there("dist/ä €")).unwrap().permissions().mode() & 0o7777, 0o644);
    assert_eq!(fs::read_to_string(yard.there(&long)).unwrap(), "long");
    assert_eq!(fs::read_to_string(yard.there("dist/sub/link")).unwrap(), "run");
    assert_eq!(fs::read_link(yard.there("dist/nowhere")).unwrap(), Path::new(&long_target));
    assert!(yard.there("dist/empty/dir").is_dir() && !yard.there("beside").exists());
    // An artifact can be unpacked over an earlier copy of itself.
    yard.unpack(&kept.digest).unwrap();
}

#[test]
fn identical_content_is_stored_once() {
    let (yard, other) = (ArtifactFixture::new(), ArtifactFixture::new());
    for (yard, names) in [(&yard, ["a", "b", "c"]), (&other, ["c", "a", "b"])] {
        for name in names {
            fs::write(yard.work(&format!("out/{name}")), name).unwrap();
        }
    }
    let old = fs::FileTimes::new().set_modified(std::time::UNIX_EPOCH);
    File::open(yard.work("out/a")).unwrap().set_times(old).unwrap();
    let kept = yard.keep("out").unwrap();
    for path in ["out", "out/", "./out", "out/."] {
        assert_eq!(yard.keep(path).unwrap(), kept);
    }
    assert_eq!(other.keep("out").unwrap(), kept);
    let files = fs::read_dir(yard.dir.path().join(format!("artifacts/{}/sha256", org(1)))).unwrap().count();
    assert_eq!(files, 1, "no second copy, and nothing unfinished");
    assert!(yard.artifacts.contains(org(1), &kept.digest) && !yard.artifacts.contains(org(2), &kept.digest));
    let foreign = yard.artifacts.unpack(org(2), &kept.digest, &yard.there(""));
    assert!(matches!(foreign, Err(ArtifactError::Unknown(_))));
}

#[test]
fn single_file_and_whole_workspace_can_be_stored() {
    let yard = ArtifactFixture::new();
    fs::write(yard.work("deep/down/app"), "run").unwrap();
    let file = yard.keep("deep/down/app").unwrap();
    assert_eq!(file.files, 1);
    yard.unpack(&file.digest).unwrap();
    assert_eq!(fs::read_to_string(yard.there("deep/down/app")).unwrap(), "run");
    assert_eq!(yard.keep(".").unwrap().files, 3);
    assert!(matches!(yard.keep("nothing"), Err(ArtifactError::Missing(_))));
    assert!(matches!(yard.keep("nothing/here"), Err(ArtifactError::Missing(_))));
}

#[test]
fn pa1_paths_outside_workspace_are_refused() {
    let yard = ArtifactFixture::new();
    fs::write(yard.work("dir/file"), "x").unwrap();
    symlink("../outside", yard.work("up")).unwrap();
    symlink(yard.dir.path().join("outside"), yard.work("away")).unwrap();
    symlink("dir", yard.work("inside")).unwrap();
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
        assert!(matches!(yard.keep(path), Err(ArtifactError::Refused { .. })), "{path:?}");
    }
    let root = rustix::fs::open(yard.work(""), open_beneath::DIRECTORY, rustix::fs::Mode::empty()).unwrap();
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
        let yard = ArtifactFixture::new();
        fs::write(yard.work("out/fine"), "x").unwrap();
        make(&yard.work(name));
        let refused = yard.keep("out").unwrap_err();
        assert!(matches!(&refused, ArtifactError::Refused { path, .. } if path == name), "{refused}");
    }
}

#[test]
fn artifact_limits_apply_to_storing_and_unpacking() {
    let mut yard = ArtifactFixture::new();
    for name in ["out/a", "out/b", "out/c"] {
        fs::write(yard.work(name), [7; 3_000]).unwrap();
    }
    let whole = yard.keep("out").unwrap();
    yard.artifacts.entries_max = 3;
    assert!(matches!(yard.keep("out"), Err(ArtifactError::TooMany)));
    assert!(matches!(yard.unpack(&whole.digest), Err(ArtifactError::TooMany)));
    yard.artifacts.entries_max = 4;
    yard.unpack(&whole.digest).unwrap();
    yard.artifacts.bytes_max = 9_000;
    assert!(matches!(yard.keep("out"), Err(ArtifactError::TooLarge { .. })));
    assert!(matches!(yard.unpack(&whole.digest), Err(ArtifactError::TooLarge { .. })));
    let yard = ArtifactFixture::new();
    let deep = "d/".repeat(ARCHIVE_DEPTH_MAX + 1) + "x";
    fs::create_dir_all(yard.work(&deep)).unwrap();
    assert!(matches!(yard.keep("d"), Err(ArtifactError::Refused { .. })));
}

#[test]
fn modified_artifact_is_detected() {
    let yard = ArtifactFixture::new();
    fs::write(yard.work("app"), "run ".repeat(10_000)).unwrap();
    let kept = yard.keep("app").unwrap();
    let place = yard.artifacts.archive_path(org(1), &kept.digest).unwrap();
    let good = fs::read(&place).unwrap();
    let other = {
        let tar = zstd::decode_all(&*good).unwrap();
        zstd::encode_all(&*String::from_utf8_lossy(&tar).replacen("run", "ruN", 1).into_bytes(), 1).unwrap()
    };
    for bad in [&other[..], &good[..good.len() / 2], &[], b"no archive"] {
        fs::write(&place, bad).unwrap();
        assert!(matches!(yard.unpack(&kept.digest), Err(ArtifactError::Corrupt(_))), "{} bytes", bad.len());
    }
    for digest in ["", "sha256:", "sha256:../../../../etc/passwd", &kept.digest.to_uppercase(), "md5:00"] {
        assert!(matches!(yard.unpack(digest), Err(ArtifactError::Unknown(_))), "{digest}");
    }
}

/// An entry of a crafted archive: type, raw name, link target and content.
type CraftedEntry = (EntryType, &'static str, &'static str, &'static str);

fn archive(entries: &[CraftedEntry]) -> Vec<u8> {
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
        let yard = ArtifactFixture::new();
        let before = (yard.outside(), yard.dir.path().exists());
        let digest = yard.plant(&archive(entries));
        let refused = yard.unpack(&digest);
        assert!(matches!(refused, Err(ArtifactError::Refused { .. })), "{what}: {refused:?}");
        let mut after = yard.outside();
        after.remove("artifacts");
        assert_eq!(after, before.0, "{what}");
    }
    assert!(!Path::new("/tmp/berth-evil").exists() && !Path::new("/tmp/berth-evil-dir").exists());
}

#[test]
fn pa2_forged_sizes_and_compression_bombs_are_refused() {
    let mut yard = ArtifactFixture::new();
    yard.artifacts.bytes_max = 1024 * 1024;
    for (kind, name) in [(EntryType::Regular, "big"), (EntryType::GNULongName, "long")] {
        let mut tar = archive(&[(kind, name, "", "")]);
        let mut header = Header::from_byte_slice(&tar[..512]).clone();
        header.set_size(1 << 40);
        header.set_cksum();
        tar[..512].copy_from_slice(header.as_bytes());
        assert!(yard.unpack(&yard.plant(&tar)).is_err());
    }
    // Sixteen megabytes of zeros compress to a few hundred bytes.
    let mut bomb = archive(&[(EntryType::Regular, "zeros", "", "")]);
    bomb.resize(16 * 1024 * 1024, 0);
    assert!(matches!(yard.unpack(&yard.plant(&bomb)), Err(ArtifactError::TooLarge { .. })));
}

#[test]
fn pa2_existing_files_are_replaced_and_symlinks_never_followed() {
    let yard = ArtifactFixture::new();
    fs::write(yard.work("dir/secret"), "new").unwrap();
    let kept = yard.keep("dir").unwrap();
    fs::create_dir(yard.there("dir")).unwrap();
    symlink("../../outside/secret", yard.there("dir/secret")).unwrap();
    yard.unpack(&kept.digest).unwrap();
    assert_eq!(fs::read_to_string(yard.there("dir/secret")).unwrap(), "new");
    assert_eq!(yard.outside()["secret"], "secret");

    fs::remove_dir_all(yard.there("dir")).unwrap();
    symlink("../outside", yard.there("dir")).unwrap();
    assert!(matches!(yard.unpack(&kept.digest), Err(ArtifactError::Refused { .. })));
    assert_eq!(yard.outside()["secret"], "secret");
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
    let yard = ArtifactFixture::new();
    let good =
        archive(&[(Directory, "./", "", ""), (Directory, "dist/", "", ""), (Regular, "dist/a", "", "x")]);
    let received = yard.artifacts.receive(org(1), &uploaded_archive(&good), "dist").unwrap();
    fs::write(yard.work("dist/a"), "x").unwrap();
    fs::set_permissions(yard.work("dist/a"), fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(received, yard.keep("dist").unwrap(), "the same as if it had been kept here");
    // Files in the archive outside of the planned path are not stored.
    let more =
        archive(&[(Directory, "dist/", "", ""), (Regular, "dist/a", "", "x"), (Regular, "b", "", "y")]);
    assert_eq!(yard.artifacts.receive(org(1), &uploaded_archive(&more), "dist").unwrap(), received);
    let evil: &[&[CraftedEntry]] = &[
        &[(Regular, "../outside/new", "", "x")],
        &[(Symlink, "dist", "/etc", "")],
        &[(Symlink, "dist", "../outside", "")],
        &[(Symlink, "a", "b", ""), (Regular, "a/new", "", "x")],
        &[(Char, "dist", "", "")],
        &[(Regular, "other", "", "x")],
    ];
    for entries in evil {
        let refused = yard.artifacts.receive(org(1), &uploaded_archive(&archive(entries)), "dist");
        assert!(
            matches!(refused, Err(ArtifactError::Refused { .. } | ArtifactError::Missing(_))),
            "{entries:?}: {refused:?}"
        );
    }
    assert_eq!(yard.outside()["secret"], "secret");
    assert!(
        fs::read_dir(yard.dir.path().join("artifacts"))
            .unwrap()
            .all(|entry| { !entry.unwrap().file_name().to_string_lossy().starts_with("scratch-") })
    );
}
