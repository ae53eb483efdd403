//! Tests of registry builds, from the checkout to the metadata.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use berth_core::registry::InputMode;
use berth_runner::registry::{BuiltRegistry, RegistryBuildError, RegistryBuildRequest, build};
use berth_runner::{Confinement, SandboxMode};

use super::ARGUMENTS;
use crate::fixture::{choose_confinement, list_sleepers, unique_sleep};

struct BuildFixture {
    dir: tempfile::TempDir,
    confinement: Confinement,
    timeout: Duration,
    bytes_max: u64,
}

impl BuildFixture {
    fn new(files: &[(&str, &str)]) -> Self {
        // Do not use /tmp, because a sandbox replaces it.
        let dir = tempfile::tempdir_in("/var/tmp").expect("directory");
        for (name, text) in files {
            let path = dir.path().join("source").join(name);
            std::fs::create_dir_all(path.parent().expect("parent")).expect("directory");
            std::fs::write(&path, text).expect("file");
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("mode");
        }
        let bytes_max = 64 * 1024 * 1024;
        let confinement = choose_confinement(SandboxMode::Off, &[]).expect("none");
        Self { dir, confinement, timeout: Duration::from_secs(60), bytes_max }
    }

    fn build(&self) -> (Result<BuiltRegistry, RegistryBuildError>, String) {
        self.build_until(&|_| false)
    }

    /// Builds the registry, and stops the build once `is_enough` returns true for the output so far.
    fn build_until(
        &self,
        is_enough: &dyn Fn(&str) -> bool,
    ) -> (Result<BuiltRegistry, RegistryBuildError>, String) {
        let printed = std::cell::RefCell::new(Vec::new());
        let is_stopping = || is_enough(&String::from_utf8_lossy(&printed.borrow()));
        let request = RegistryBuildRequest {
            source: self.dir.path().join("source"),
            scratch: self.dir.path().join("scratch"),
            timeout: self.timeout,
            bytes_max: self.bytes_max,
            is_stopping: &is_stopping,
            confinement: &self.confinement,
            writable: Vec::new(),
            env: BTreeMap::new(),
        };
        let built = build(&request, &mut |bytes: &[u8]| printed.borrow_mut().extend_from_slice(bytes));
        let printed = String::from_utf8_lossy(&printed.borrow()).into_owned();
        (built, printed)
    }

    /// Returns the error text that is shown to the registry's author.
    fn build_error(&self) -> String {
        match self.build() {
            (Err(RegistryBuildError::Registry(told)), _) => told,
            (other, printed) => panic!("wanted a bad registry, got {other:?}\n{printed}"),
        }
    }

    fn root_dir(&self) -> &Path {
        self.dir.path()
    }
}

/// Creates a shell registry that answers with this metadata.
fn registry_with_metadata(metadata: &str) -> BuildFixture {
    let run = format!("{ARGUMENTS}\nanswer '{metadata}'\n");
    BuildFixture::new(&[("berth-registry.yaml", "start: sh ./run.sh\n"), ("run.sh", &run)])
}

#[test]
fn registry_build_returns_metadata() {
    let run = format!(
        "{ARGUMENTS}\ncase \"$input\" in *SYNTHESIZE-METADATA*) ;; *) exit 1 ;; esac\n\
         log '{{\"level\":\"info\",\"message\":\"asked\"}}'\nanswer \"$(cat made.json)\"\n"
    );
    let metadata =
        r#"{"status":"SUCCESS","data":{"metadata":[{"stepType":"CUSTOM:DEPLOY","name":"Deploy"}]}}"#;
    let manifest =
        "build: |\n  echo building; cp steps.json made.json\n  env | sort\nstart: sh ./run.sh\ninput: file\n";
    let fixture =
        BuildFixture::new(&[("berth-registry.yaml", manifest), ("run.sh", &run), ("steps.json", metadata)]);
    let (built, printed) = fixture.build();
    let built = built.unwrap_or_else(|error| panic!("{error}\n{printed}"));
    assert_eq!((built.start.as_str(), built.input), ("sh ./run.sh", InputMode::File));
    assert_eq!(built.steps[0].key, "deploy");
    assert_eq!(built.steps[0].step_type, "CUSTOM:DEPLOY");
    assert!(
        printed.contains("building\n") && printed.ends_with("[berth] asks for its steps\nasked\n"),
        "{printed}"
    );
    let names: Vec<&str> = printed.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
    let expected = [
        "BERTH_ATTEMPT_ID",
        "BERTH_WORKSPACE",
        "CI",
        "HOME",
        "PATH",
        "PWD",
        "TMPDIR",
        "npm_config_audit",
        "npm_config_fund",
        "npm_config_update_notifier",
    ];
    assert_eq!(names, expected, "nothing of ours comes in: {printed}");
}

#[test]
fn registry_metadata_with_old_names_is_parsed() {
    let steps = registry_with_metadata(
        r#"{"status":"SUCCESS","data":{"metadata":[{"stepType":"Old","jsonSchema":{"type":"object","required":["a"],"properties":{"a":{"type":"string","default":"x"}}}}]}}"#,
    )
    .build()
    .0
    .expect("built")
    .steps;
    assert!(steps[0].schema["properties"]["a"].is_object());
}

#[test]
fn registry_build_error_is_explained() {
    let twice =
        r#"{"status":"SUCCESS","data":{"metadata":[{"stepType":"DEPLOY"},{"stepType":"CUSTOM:deploy"}]}}"#;
    for (metadata, part) in [
        (twice, "are the same to a definition (deploy)"),
        (r#"{"status":"SUCCESS","data":{"metadata":[]}}"#, "it offers no steps"),
        (
            r#"{"status":"FAILED","error":"broken"}"#,
            r#"it responded with "FAILED" when asked for its metadata: "broken""#,
        ),
        ("nonsense", "its metadata cannot be read"),
    ] {
        let told = registry_with_metadata(metadata).build_error();
        assert!(told.contains(part), "{told}");
    }
    let silent = BuildFixture::new(&[("berth-registry.yaml", "start: sh -c 'exit 4' x\n")]);
    assert_eq!(
        silent.build_error(),
        "the call for its metadata failed: it exited with 4, and wrote no answer"
    );
    let broken =
        BuildFixture::new(&[("berth-registry.yaml", "build: 'echo oh no; exit 7'\nstart: 'true'\n")]);
    let (built, printed) = broken.build();
    let told = built.expect_err("broken").to_string();
    assert_eq!(told, "`echo oh no; exit 7` exited with 7; its output is in the log of the build");
    assert!(printed.contains("oh no\n"), "{printed}");
    assert!(
        BuildFixture::new(&[("README", "")])
            .build_error()
            .starts_with("there is neither a berth-registry.yaml nor")
    );
}

#[test]
fn registry_build_is_limited_in_time_and_size() {
    let mark = unique_sleep();
    let manifest = format!("build: 'setsid sleep {mark} & sleep {mark}'\nstart: 'true'\n");
    let mut slow = BuildFixture::new(&[("berth-registry.yaml", &manifest)]);
    slow.timeout = Duration::from_secs(1);
    assert!(slow.build_error().starts_with("the build took longer than 1 s"), "{}", slow.build_error());
    assert_eq!(list_sleepers(&mark), Vec::<String>::new());

    let mut large = BuildFixture::new(&[(
        "berth-registry.yaml",
        "build: head -c 2000000 /dev/zero > big\nstart: 'true'\n",
    )]);
    large.bytes_max = 1_000_000;
    assert!(large.build_error().starts_with("the built registry is larger than 1000000 bytes"));

    // This build fills the disk and does not stop by itself.
    let mut filling = BuildFixture::new(&[(
        "berth-registry.yaml",
        "build: 'while :; do head -c 100000 /dev/zero >> big; sleep 0.02; done'\nstart: 'true'\n",
    )]);
    filling.bytes_max = 1_000_000;
    assert!(filling.build_error().starts_with("the built registry is larger than 1000000 bytes"));

    let loud =
        BuildFixture::new(&[("berth-registry.yaml", "build: head -c 6000000 /dev/zero\nstart: 'true'\n")]);
    let printed = loud.build().1;
    assert!(printed.len() < 4_200_000 && printed.contains("[berth] log truncated"), "{}", printed.len());
}

#[test]
fn cancelled_registry_build_leaves_no_processes() {
    let mark = unique_sleep();
    let manifest = format!("build: 'echo ready; setsid sleep {mark} & sleep {mark}'\nstart: 'true'\n");
    let fixture = BuildFixture::new(&[("berth-registry.yaml", &manifest)]);
    let (built, _) = fixture.build_until(&|printed| printed.contains("\nready"));
    assert!(matches!(built, Err(RegistryBuildError::Stopped)), "{built:?}");
    assert_eq!(list_sleepers(&mark), Vec::<String>::new());
}

fn check_confinement(sandbox: SandboxMode) {
    let run = format!(
        "{ARGUMENTS}\ntouch x 2>/dev/null && echo LEAK registry\n\
         answer '{{\"status\":\"SUCCESS\",\"data\":{{\"metadata\":[{{\"stepType\":\"A\"}}]}}}}'\n"
    );
    let make = "cat ../key 2>/dev/null && echo LEAK key\ntouch /var/berth-outside 2>/dev/null && echo LEAK write\n\
        set -e; echo a > made; echo b > $HOME/b; mktemp >/dev/null\n";
    let manifest = "build: sh ./make.sh\nstart: sh ./run.sh\n";
    let mut fixture = BuildFixture::new(&[
        ("berth-registry.yaml", manifest),
        ("make.sh", make),
        ("run.sh", &run),
        ("../key", "root key"),
    ]);
    let Some(confinement) = choose_confinement(sandbox, &[fixture.dir.path().to_owned()]) else { return };
    fixture.confinement = confinement;
    let (built, printed) = fixture.build();
    built.unwrap_or_else(|error| panic!("{error}\n{printed}"));
    assert!(!printed.contains("LEAK") && !printed.contains("root key"), "{printed}");
    assert!(fixture.root_dir().join("source/made").exists());
}

#[test]
fn registry_build_is_confined_by_bubblewrap() {
    check_confinement(SandboxMode::Bubblewrap);
}

#[test]
fn registry_build_is_confined_by_landlock() {
    check_confinement(SandboxMode::Landlock);
}
