//! Credentials outside of a step's directories: no step can read them, with bubblewrap or with Landlock.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use berth_testkit::{copy_dir, outcome};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::harness::{BerthProcess, STOP_MAX, TestHome, TestServer, berth, run, wait_until};
use crate::isolation::{ORGANIZATION, deploy, is_available, step_log, text as text_of};
use crate::machine::{in_mount_namespace, run_in_namespace_of};
use crate::upkeep::tls::{create_certificate, is_installed};

const PATIENCE: Duration = Duration::from_secs(120);
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

/// Tries to read every file in the directories `$DIRS`.
const LOOK_IN_DIRS: &str = r#"
for dir in $DIRS; do
  for file in $(find "$dir" -type f 2>/dev/null); do cat "$file" >/dev/null 2>&1 && echo "LEAK $file"; done
  for name in berth.toml client.secret root.key live.key; do cat "$dir/$name" >/dev/null 2>&1 && echo "LEAK $dir/$name"; done
done
echo looked
"#;

/// Sends a request to a server with a self-signed certificate. A request with a body is a POST.
fn send_with_tls(address: &str, token: &str, path: &str, body: Option<&Value>) -> String {
    let mut curl = Command::new("curl");
    curl.args(["-sSk", "--max-time", "10", "-H", &format!("authorization: Bearer {token}")]);
    if let Some(body) = body {
        curl.args(["-H", "content-type: application/json", "-d", &body.to_string()]);
    }
    let sent = curl.arg(format!("https://{address}{path}")).output().expect("curl runs");
    String::from_utf8(sent.stdout).expect("UTF-8")
}

/// Starts a server whose configuration names secret files in several directories, and lets a step look for them.
fn check_secret_files(sandbox: &str) {
    if !is_installed("openssl") || !is_installed("curl") {
        outcome::skip("openssl or curl", "apt-get install openssl curl");
        return;
    }
    if !is_available(sandbox) {
        return;
    }
    let home = TestHome::on_sqlite();
    // Steps see `/opt`, so every directory in it has to be hidden.
    let dirs: [_; 5] = std::array::from_fn(|_| tempfile::tempdir_in("/opt").expect("a directory"));
    let [config, corp, partner, tls, root] = dirs.each_ref().map(tempfile::TempDir::path);
    let mut text = format!("root_key_file = {:?}\n", root.join("root.key"));
    text += &format!("[tls]\ncertificate = {:?}\nkey = {:?}\n", tls.join("live.pem"), tls.join("live.key"));
    for (name, dir) in [("corp", corp), ("partner", partner)] {
        let secret = dir.join("client.secret");
        std::fs::write(&secret, "s3cret\n").expect("written");
        text += &format!("[[auth.oidc]]\nname = {name:?}\nissuer = \"https://{name}.acme.test\"\n");
        text += &format!("client_id = \"berth\"\norganization = \"acme\"\nclient_secret_file = {secret:?}\n");
    }
    create_certificate(tls, "live");
    std::fs::copy(home.path().join("root.key"), root.join("root.key")).expect("copied");
    std::fs::remove_file(home.path().join("root.key")).expect("removed");
    let file = config.join("berth.toml");
    std::fs::write(&file, text).expect("written");
    let mut command = home.serve_command();
    let mut server = BerthProcess::start(command.args(["--sandbox", sandbox, "--config"]).arg(&file));
    let line = server.first_line();
    let address = line.strip_prefix("berth is serving at https://").expect("an https address");

    let send = |path: &str, body: Option<&Value>| {
        send_with_tls(address, &home.token, &format!("{ORGANIZATION}{path}"), body)
    };
    let parse = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_else(|_| panic!("{text}"));
    let shown = dirs.each_ref().map(|dir| dir.path().display().to_string()).join(" ");
    let run = format!("set +e\nDIRS=\"{shown}\"\n{LOOK_IN_DIRS}");
    let step = json!({"name": "Look", "type": "script", "params": {"run": run}});
    let definition = json!({"version": 1, "pipeline":
        {"name": "Look", "stages": [{"name": "staging"}], "steps": [step]}});
    send("/pipelines", Some(&json!({"slug": "look", "definition": definition.to_string()})));
    let begun = parse(&send("/pipelines/look/deployments", Some(&json!({"commitId": "abc"}))));
    let deployment = format!("/deployments/{}", text_of(&begun["data"]["id"]));
    wait_until(PATIENCE, "end of the step", || {
        parse(&send(&deployment, None))["data"]["finishedAt"].is_string().then_some(())
    });
    assert_eq!(send(&format!("{deployment}/steps/look/logs?raw=true"), None), "looked\n");
    server.signal(Signal::TERM);
    assert_eq!(server.wait(STOP_MAX).code, Some(0));
}

#[test]
fn secret_files_of_the_configuration_are_unreadable_with_bubblewrap() {
    check_secret_files("bubblewrap");
}

#[test]
fn secret_files_of_the_configuration_are_unreadable_with_landlock() {
    check_secret_files("landlock");
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
