//! Credentials outside of a step's directories: no step can read them, with bubblewrap or with Landlock.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use berth_testkit::{copy_dir, outcome};
use serde_json::json;

use crate::harness::{TestHome, TestServer, berth, run, wait_until};
use crate::isolation::{ORGANIZATION, deploy, is_available, step_log};
use crate::machine::{in_mount_namespace, run_in_namespace_of};

const PATIENCE: Duration = Duration::from_secs(60);
const DEPLOY_KEY: &str = "DEPLOY-KEY-OF-ACME";

/// Gives the server its own `/etc` with credentials in it, as an overlay mount. `$LAYERS` is a directory for the
/// overlay's files.
const PRIVATE_ETC: &str = r#"
mkdir -p "$LAYERS/upper" "$LAYERS/work"
mount -t overlay overlay -o "lowerdir=/etc,upperdir=$LAYERS/upper,workdir=$LAYERS/work" /etc
mkdir -p /etc/berth
echo BERTH_DATABASE=postgres://berth:password@db/berth > /etc/berth/environment
chmod 755 /etc/berth; chmod 644 /etc/berth/environment
for file in berth-private wgetrc; do rm -f /etc/$file; (umask 077; echo first > /etc/$file); done
"#;

/// Replaces private files by rename, as `passwd` does with `/etc/shadow`.
const REPLACE: &str = r#"
umask 077
for file in berth-private wgetrc; do
  echo second > /etc/$file.new; mv /etc/$file.new /etc/$file; grep -q second /etc/$file
done
grep -q password /etc/berth/environment
"#;

/// Tries to read every credential.
const LOOK: &str = r#"
look() {
  for file in "$PLACE/first.json" "$PLACE/home/.config/berth/login.json" /etc/berth/environment \
      /etc/berth-private /etc/wgetrc /etc/shadow "$KEYS"/*; do
    [ -n "$(cat "$file" 2>/dev/null)" ] && echo "LEAK $file"
  done
}
look; echo ready
until [ -e "$PLACE/exposed/go" ]; do look; sleep 0.02; done
look; cat /etc/passwd /etc/hosts >/dev/null && echo looked
"#;

struct PrivateFilesFixture {
    server: TestServer,
    place: tempfile::TempDir,
    keys: tempfile::TempDir,
    _layers: tempfile::TempDir,
}

impl PrivateFilesFixture {
    /// Starts a server whose root key is in a directory of its own. `setup` runs in the server's mount namespace.
    /// Returns `None` if the sandbox or the namespace is not available.
    fn start(sandbox: &str, setup: Option<&str>) -> Option<Self> {
        if !is_available(sandbox) {
            return None;
        }
        let home = TestHome::on_sqlite();
        let place = tempfile::tempdir_in("/var/tmp").expect("a directory");
        let keys = tempfile::tempdir_in("/opt").expect("a directory");
        let layers = tempfile::tempdir_in("/dev/shm").expect("a directory");
        let data = place.path().join("data");
        std::fs::create_dir(&data).expect("a directory");
        std::fs::set_permissions(&data, std::fs::Permissions::from_mode(0o700)).expect("private");
        copy_dir(&home.path(), &data);
        let key = keys.path().join("root.key");
        std::fs::copy(data.join("root.key"), &key).expect("copied");
        std::fs::remove_file(data.join("root.key")).expect("removed");
        for dir in ["exposed", "home/.config/berth"] {
            std::fs::create_dir_all(place.path().join(dir)).expect("a directory");
        }
        for file in ["first.json", "home/.config/berth/login.json"] {
            std::fs::write(place.path().join(file), json!({"apiToken": home.token}).to_string())
                .expect("written");
        }
        let mut command = berth(&["serve", "--local", "--listen", "127.0.0.1:0", "--rate-limit", "off"]);
        command.args(["--sandbox", sandbox, "--data-dir"]).arg(&data).arg("--root-key-file").arg(&key);
        command.env("HOME", place.path().join("home"));
        command.env("BERTH_RUNNER__EXPOSE", place.path().join("exposed"));
        let mut command = match setup {
            Some(setup) => {
                let setup = format!("LAYERS={}\n{setup}", layers.path().display());
                in_mount_namespace(&command, &setup)?
            }
            None => command,
        };
        command.current_dir(place.path());
        Some(Self { server: TestServer::start(&mut command, &home.token), place, keys, _layers: layers })
    }

    fn data(&self) -> PathBuf {
        self.place.path().join("data")
    }

    /// Starts a deployment with one step `Look`.
    fn deploy(&self, script: &str) -> String {
        let (place, keys) = (self.place.path().display(), self.keys.path().display());
        let run = format!("set +e\nPLACE={place}\nKEYS={keys}\n{script}");
        deploy(&self.server.api, "look", &json!({"name": "Look", "type": "script", "params": {"run": run}}))
    }

    fn finished_log(&self, deployment: &str) -> String {
        let api = &self.server.api;
        wait_until(PATIENCE, "end of the step", || {
            api.get(deployment).json()["data"]["finishedAt"].is_string().then_some(())
        });
        step_log(api, deployment, "look")
    }
}

fn check_credentials(sandbox: &str) {
    let Some(fixture) = PrivateFilesFixture::start(sandbox, Some(PRIVATE_ETC)) else { return };
    let key = fixture.keys.path().join("root.key");
    let first = std::fs::read(&key).expect("the key");
    let deployment = fixture.deploy(LOOK);
    wait_until(PATIENCE, "start of the step", || {
        step_log(&fixture.server.api, &deployment, "look").contains("ready").then_some(())
    });
    run_in_namespace_of(fixture.server.process.id(), REPLACE);
    let data = fixture.data();
    run(&["admin", "rotate-keys", "--json", "--data-dir", data.to_str().expect("a path")]).json();
    assert_ne!(std::fs::read(&key).expect("the key"), first);
    std::fs::write(fixture.place.path().join("exposed/go"), "").expect("written");
    assert_eq!(fixture.finished_log(&deployment), "ready\nlooked\n");
    fixture.server.stop();
}

#[test]
fn credentials_stay_unreadable_when_replaced_while_a_step_runs_with_bubblewrap() {
    check_credentials("bubblewrap");
}

#[test]
fn credentials_stay_unreadable_when_replaced_while_a_step_runs_with_landlock() {
    check_credentials("landlock");
}

/// Returns the files in `dir` that contain the deploy key.
fn find_deploy_key(dir: &Path) -> Option<String> {
    let found = Command::new("grep").args(["-rlsF", DEPLOY_KEY]).arg(dir).output().expect("grep");
    let found = String::from_utf8(found.stdout).expect("UTF-8");
    (!found.is_empty()).then(|| found.split_whitespace().collect::<Vec<_>>().join(" "))
}

fn check_deploy_key(sandbox: &str) {
    if Command::new("ssh").arg("-V").output().is_err() {
        outcome::skip("ssh", "apt-get install openssh-client");
        return;
    }
    let Some(fixture) = PrivateFilesFixture::start(sandbox, None) else { return };
    let api = &fixture.server.api;
    let value =
        format!("-----BEGIN OPENSSH PRIVATE KEY-----\n{DEPLOY_KEY}\n-----END OPENSSH PRIVATE KEY-----\n");
    let kept = api.post(&format!("{ORGANIZATION}/secrets"), &json!({"name": "DEPLOY", "value": value}));
    assert_eq!(kept.status, 201, "{}", kept.text());
    // A git host that accepts connections and never responds, so that the key stays in use.
    let host = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let url = format!("ssh://git@{}/shop.git", host.local_addr().expect("an address"));
    let added =
        api.post(&format!("{ORGANIZATION}/repositories"), &json!({"url": url, "credential": "DEPLOY"}));
    assert_eq!(added.status, 201, "{}", added.text());
    let files = wait_until(PATIENCE, "file with the key", || find_deploy_key(&fixture.data()));
    let script = format!(
        r#"
for file in {files}; do cat $file >/dev/null 2>&1 && echo "LEAK $file"; done
grep -rsqF 'DEPLOY-KEY''-OF-ACME' "$PLACE" /tmp /var/tmp /dev/shm /run && echo "LEAK search"
cat /proc/[0-9]*/environ 2>/dev/null | grep -q 'DEPLOY-KEY''-OF-ACME' && echo "LEAK environ"
echo looked
"#
    );
    let log = fixture.finished_log(&fixture.deploy(&script));
    assert_eq!(log, "looked\n");
    assert!(find_deploy_key(&fixture.data()).is_some(), "the key was still in use");
    fixture.server.stop();
}

#[test]
fn deploy_key_in_use_is_unreadable_with_bubblewrap() {
    check_deploy_key("bubblewrap");
}

#[test]
fn deploy_key_in_use_is_unreadable_with_landlock() {
    check_deploy_key("landlock");
}
