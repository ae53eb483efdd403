//! Hostile steps and builds against a server in its default setup: no data leaks, no process stays behind, and the
//! server keeps serving.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use berth_testkit::{copy_dir, outcome};
use serde_json::{Value, json};

use crate::client::ApiHandle;
use crate::harness::{BerthProcess, TestHome, TestServer, berth, wait_until};
use crate::machine::{RunSocket, has_cgroups, has_signal_scope};

const PATIENCE: Duration = Duration::from_secs(120);
pub(crate) const ORGANIZATION: &str = "/api/v1/organizations/acme";
const SECRET: &str = "sk-victim-0123456789abcdef";

/// Attacks that both bubblewrap and Landlock prevent. `$DATA` is the server's data directory, `$SERVER` its process id.
const FILES: &str = r#"
for file in root.key berth.db admin.pass; do cat "$DATA/$file" >/dev/null 2>&1 && echo "LEAK $file"; done
ln -s "$DATA/root.key" link; cat link >/dev/null 2>&1 && echo "LEAK link"
ls -A "$DATA" 2>/dev/null | grep -q root.key && echo "LEAK list"
cat /proc/[0-9]*/environ 2>/dev/null | tr '\0' '\n' | grep -q 'sk-vic''tim' && echo "LEAK environ"
cat /proc/[0-9]*/root/"$DATA"/root.key >/dev/null 2>&1 && echo "LEAK root"
find /dev/shm /run /tmp /var/tmp -type f -exec cat {} + 2>/dev/null | grep -q 'sk-vic''tim' && echo "LEAK secret file"
grep -q '^root:' /etc/shadow 2>/dev/null && echo "LEAK shadow"
[ -n "$(ls -A /root /home 2>/dev/null | grep -v ':$')" ] && echo "LEAK home"
(echo x > "$DATA/root.key"; : > "$DATA/berth.db"; rm -rf "$DATA"/*) 2>/dev/null
for dir in /usr /etc /opt /var /; do touch "$dir/berth-was-here" 2>/dev/null && echo "LEAK $dir"; done
"#;

/// Attacks that only bubblewrap prevents.
const MACHINE: &str = r#"
kill -0 "$SERVER" 2>/dev/null && [ "$(cat /proc/$SERVER/comm)" = berth ] && echo "LEAK signal"
chmod 644 "$DATA/root.key" 2>/dev/null
for socket in "$DATA/admin.sock" "$SOCKET"; do
  curl --silent --max-time 2 --unix-socket "$socket" http://x/ >/dev/null 2>&1; [ $? = 7 ] || echo "LEAK $socket"
done
unshare --user true 2>/dev/null && echo "LEAK user namespace"
unshare --mount true 2>/dev/null && echo "LEAK mount namespace"
mkdir -p m; mount -t tmpfs none m 2>/dev/null && echo "LEAK mount"
mount -o remount,rw / 2>/dev/null && echo "LEAK remount"
"#;

/// Starts a daemon that has a new parent and session and an empty environment. The step ends after the daemon has
/// started.
const DAEMON: &str = r#"
( setsid env -i sh -c "( sleep $MARK & ) & sleep $MARK" >/dev/null 2>&1 & )
sleep 0.2
"#;

/// Tries to signal the server. Landlock denies it from Linux 6.12 on.
const SIGNAL: &str = r#"
kill -0 "$SERVER" 2>/dev/null && echo "LEAK signal"
"#;

/// How the server is given the path of its data directory.
#[derive(Clone, Copy)]
enum DataDirForm {
    Absolute,
    Relative,
    ThroughLink,
}

struct AttackedServer {
    place: tempfile::TempDir,
    server: TestServer,
    sandbox: &'static str,
    key: Vec<u8>,
    socket: RunSocket,
}

impl AttackedServer {
    /// Returns `None` if the sandbox level does not work on this machine.
    fn start(sandbox: &'static str, place: &str, named: DataDirForm) -> Option<Self> {
        let home = TestHome::on_sqlite();
        let place = tempfile::tempdir_in(place).expect("a directory");
        let data = place.path().join("data");
        std::fs::create_dir(&data).expect("a directory");
        std::fs::set_permissions(&data, std::fs::Permissions::from_mode(0o700)).expect("private");
        copy_dir(&home.path(), &data);
        symlink("data", place.path().join("link")).expect("a link");
        let told = match named {
            DataDirForm::Absolute => data.clone(),
            DataDirForm::Relative => PathBuf::from("data"),
            DataDirForm::ThroughLink => place.path().join("link"),
        };
        if !is_available(sandbox) {
            return None;
        }
        let mut command = berth(&["serve", "--local", "--listen", "127.0.0.1:0", "--rate-limit", "off"]);
        command.args(["--sandbox", sandbox, "--data-dir"]).arg(told).current_dir(place.path());
        let key = std::fs::read(data.join("root.key")).expect("the key");
        let server = TestServer::start(&mut command, &home.token);
        Some(Self { server, place, sandbox, key, socket: RunSocket::listen() })
    }

    fn api(&self) -> &ApiHandle {
        &self.server.api
    }

    fn data(&self) -> PathBuf {
        self.place.path().join("data").canonicalize().expect("the data directory")
    }

    /// Returns the attack as a shell script.
    fn attack_script(&self, mark: &str) -> String {
        let server = self.server.process.id();
        let is_bubblewrap = self.sandbox == "bubblewrap";
        let machine = if is_bubblewrap { MACHINE } else { "" };
        let signal = if !is_bubblewrap && has_signal_scope() { SIGNAL } else { "" };
        let daemon = if is_bubblewrap || has_cgroups() { DAEMON } else { "" };
        format!(
            "DATA={}\nSOCKET={}\nSERVER={server}\nMARK={mark}\n{FILES}{machine}{signal}{daemon}echo attacked\n",
            self.data().display(),
            self.socket.path.display(),
        )
    }

    fn check(&self, log: &str, mark: &str) {
        assert!(log.contains("attacked"), "{log}");
        assert!(!log.contains("LEAK"), "{log}");
        assert!(!log.contains(SECRET), "{log}");
        assert_eq!(count_sleepers(mark), 0, "a daemon stays behind");
        assert!(!self.socket.has_connection(), "a socket in /run was reached");
        let key = self.data().join("root.key");
        assert_eq!(key.metadata().expect("the key").permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read(key).expect("the key"), self.key);
        assert_eq!(self.api().get("/readyz").status, 200);
    }
}

/// Returns whether a sandbox level works on this machine; if not, reports why.
pub(crate) fn is_available(sandbox: &str) -> bool {
    let why = sandbox_error(sandbox);
    match (&why, sandbox) {
        (None, _) => {}
        (Some(why), "bubblewrap") => {
            outcome::skip("bubblewrap", &format!("apt-get install bubblewrap ({why})"));
        }
        (Some(why), _) => outcome::report_impossible(sandbox, why),
    }
    why.is_none()
}

/// Returns why a sandbox level does not work on this machine.
fn sandbox_error(sandbox: &str) -> Option<String> {
    let home = TestHome::on_sqlite();
    let mut command = home.serve_command();
    command.args(["--sandbox", sandbox]);
    let mut process = BerthProcess::start(&mut command);
    if process.first_line_or_end().is_some_and(|line| line.starts_with("berth is serving")) {
        return None;
    }
    Some(process.wait(PATIENCE).stderr)
}

fn count_sleepers(mark: &str) -> usize {
    let wanted = format!("sleep\0{mark}\0").into_bytes();
    let processes = std::fs::read_dir("/proc").expect("/proc").flatten();
    processes.filter(|it| std::fs::read(it.path().join("cmdline")).is_ok_and(|line| line == wanted)).count()
}

pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}")).to_owned()
}

fn unique_mark(number: usize) -> String {
    format!("1000.{}{number:03}", std::process::id())
}

/// Deploys a pipeline with one step and returns the deployment's path.
pub(crate) fn deploy(api: &ApiHandle, slug: &str, step: &Value) -> String {
    let definition = json!({"version": 1, "pipeline": {
        "name": slug, "stages": [{"name": "staging"}], "steps": [step],
    }});
    let body = json!({"slug": slug, "definition": definition.to_string()});
    let made = api.post(&format!("{ORGANIZATION}/pipelines"), &body);
    assert_eq!(made.status, 201, "{}", made.text());
    let begun =
        api.post(&format!("{ORGANIZATION}/pipelines/{slug}/deployments"), &json!({"commitId": "abc"}));
    assert_eq!(begun.status, 202, "{}", begun.text());
    format!("{ORGANIZATION}/deployments/{}", text(&begun.json()["data"]["id"]))
}

pub(crate) fn step_log(api: &ApiHandle, deployment: &str, step: &str) -> String {
    api.get(&format!("{deployment}/steps/{step}/logs?raw=true")).text()
}

/// Starts a step that has a secret and runs until it is cancelled.
fn start_victim(api: &ApiHandle) -> String {
    let kept = api.post(&format!("{ORGANIZATION}/secrets"), &json!({"name": "TOKEN", "value": SECRET}));
    assert_eq!(kept.status, 201, "{}", kept.text());
    let step = json!({"name": "Victim", "type": "script", "secret_files": {"KEY": "TOKEN"},
        "env": {"TOKEN": "${{ secrets.TOKEN }}"}, "params": {"run": "echo ready; sleep 600"}});
    let deployment = deploy(api, "victim", &step);
    wait_until(PATIENCE, "victim", || step_log(api, &deployment, "victim").contains("ready").then_some(()));
    deployment
}

fn check_steps(sandbox: &'static str, place: &str, named: DataDirForm, number: usize) {
    let Some(attacked) = AttackedServer::start(sandbox, place, named) else { return };
    let (api, mark) = (attacked.api(), unique_mark(number));
    let victim = start_victim(api);
    let step = json!({"name": "Attack", "type": "script", "params": {"run": format!("set +e\n{}", attacked.attack_script(&mark))}});
    let deployment = deploy(api, "attack", &step);
    wait_until(PATIENCE, "end of the attack", || {
        api.get(&deployment).json()["data"]["finishedAt"].is_string().then_some(())
    });
    attacked.check(&step_log(api, &deployment, "attack"), &mark);
    assert!(!api.get(&victim).json()["data"]["finishedAt"].is_string(), "the victim was stopped");
    // Stop the server instead of killing it: with Landlock, its steps would survive a kill.
    attacked.server.stop();
}

fn check_build(sandbox: &'static str, place: &str, named: DataDirForm, number: usize) {
    let Some(attacked) = AttackedServer::start(sandbox, place, named) else { return };
    let (api, mark) = (attacked.api(), unique_mark(number));
    let source = attacked.place.path().join("tools");
    std::fs::create_dir(&source).expect("a directory");
    std::fs::write(source.join("attack.sh"), attacked.attack_script(&mark)).expect("written");
    let manifest = "build: sh +e ./attack.sh\nstart: sh ./steps.sh\n";
    std::fs::write(source.join("berth-registry.yaml"), manifest).expect("written");
    std::fs::write(source.join("steps.sh"), "exit 1\n").expect("written");
    commit(&source);
    let (_, log) = wait_for_failed_build(api, &source);
    attacked.check(&log, &mark);
}

/// Adds the registry in `source`, and returns the registry and the log of its failed build.
pub(crate) fn wait_for_failed_build(api: &ApiHandle, source: &Path) -> (Value, String) {
    let body = json!({"name": "tools", "url": source.display().to_string()});
    let added = api.post(&format!("{ORGANIZATION}/step-registries"), &body);
    assert_eq!(added.status, 201, "{}", added.text());
    let path = format!("{ORGANIZATION}/step-registries/{}", text(&added.json()["data"]["id"]));
    let registry = wait_until(PATIENCE, "end of the build", || {
        let registry = api.get(&path).json()["data"].clone();
        assert_ne!(registry["status"], "ready", "{registry}");
        (registry["status"] == "failed").then_some(registry)
    });
    (registry, api.get(&format!("{path}/builds/1/logs")).text())
}

pub(crate) fn commit(source: &Path) {
    for words in ["init --quiet --initial-branch main", "add .", "commit --quiet --message tools"] {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=Ada", "-c", "user.email=ada@acme.test"]).args(words.split(' '));
        let done = git.current_dir(source).output().expect("git");
        assert!(done.status.success(), "{done:?}");
    }
}

#[test]
fn hostile_step_is_contained_by_bubblewrap_for_every_data_dir() {
    check_steps("bubblewrap", "/var/tmp", DataDirForm::Absolute, 1);
    check_steps("bubblewrap", "/var/tmp", DataDirForm::Relative, 2);
    check_steps("bubblewrap", "/var/tmp", DataDirForm::ThroughLink, 3);
    // The sandbox mounts `/opt`, so the data directory in it has to be hidden explicitly.
    check_steps("bubblewrap", "/opt", DataDirForm::ThroughLink, 4);
}

#[test]
fn hostile_build_is_contained_by_bubblewrap_for_every_data_dir() {
    check_build("bubblewrap", "/var/tmp", DataDirForm::Absolute, 5);
    check_build("bubblewrap", "/var/tmp", DataDirForm::Relative, 6);
    check_build("bubblewrap", "/opt", DataDirForm::ThroughLink, 7);
}

#[test]
fn hostile_step_cannot_access_foreign_files_with_landlock() {
    check_steps("landlock", "/var/tmp", DataDirForm::Relative, 8);
    check_steps("landlock", "/opt", DataDirForm::ThroughLink, 9);
}

#[test]
fn hostile_build_cannot_access_foreign_files_with_landlock() {
    check_build("landlock", "/var/tmp", DataDirForm::Relative, 10);
    check_build("landlock", "/opt", DataDirForm::ThroughLink, 11);
}

/// Waits for the deployment's only step to end and returns its first attempt.
fn wait_for_attempt(api: &ApiHandle, deployment: &str) -> Value {
    wait_until(PATIENCE, "end of the deployment", || {
        let found = api.get(deployment).json()["data"].clone();
        found["finishedAt"].is_string().then(|| found["stages"][0]["steps"][0]["attempts"][0].clone())
    })
}

#[test]
fn step_network_defaults_to_the_organizations_setting() {
    let Some(attacked) = AttackedServer::start("bubblewrap", "/var/tmp", DataDirForm::Absolute) else {
        return;
    };
    let api = attacked.api();
    let patch = api.request("PATCH", ORGANIZATION).json(&json!({"defaultNetwork": "none"}));
    assert_eq!(api.send(&patch).json()["data"]["defaultNetwork"], "none");
    let run = format!(
        "if curl --silent --max-time 5 http://{}/healthz; then echo reached; else echo alone; fi",
        attacked.server.address
    );
    let step = json!({"name": "Ask", "type": "script", "params": {"run": run}});
    let deployment = deploy(api, "shut", &step);
    let attempt = wait_for_attempt(api, &deployment);
    assert_eq!(step_log(api, &deployment, "ask"), "alone\n");
    assert_eq!(
        (&attempt["isolation"], &attempt["network"], &attempt["exposed"]),
        (&json!("bubblewrap"), &json!("none"), &json!([])),
        "{attempt}"
    );
    let step = json!({"name": "Ask", "type": "script", "network": "host", "params": {"run": run}});
    let deployment = deploy(api, "open", &step);
    assert_eq!(wait_for_attempt(api, &deployment)["network"], "host");
    assert!(step_log(api, &deployment, "ask").ends_with("reached\n"));
}

#[test]
fn isolation_is_reported_by_readyz_and_the_runner() {
    for (sandbox, shown) in [("bubblewrap", "bubblewrap"), ("off", "process")] {
        let Some(attacked) = AttackedServer::start(sandbox, "/var/tmp", DataDirForm::Absolute) else {
            return;
        };
        let api = attacked.api();
        let ready = api.get("/readyz").json()["data"].clone();
        assert_eq!((&ready["isolation"], &ready["runsSteps"]), (&json!(shown), &json!(true)));
        assert_eq!(api.get(&format!("{ORGANIZATION}/runners/embedded")).json()["data"]["isolation"], shown);
    }
}

#[test]
fn network_none_without_a_sandbox_fails_before_the_step_runs() {
    let Some(attacked) = AttackedServer::start("off", "/var/tmp", DataDirForm::Absolute) else { return };
    let api = attacked.api();
    let step = json!({"name": "Ask", "type": "script", "network": "none", "params": {"run": "echo ran"}});
    let deployment = deploy(api, "shut", &step);
    let attempt = wait_for_attempt(api, &deployment);
    assert!(text(&attempt["detail"]).contains("`network: none` needs the sandbox bubblewrap"), "{attempt}");
    assert_eq!((&attempt["status"], &attempt["isolation"]), (&json!("failed"), &json!("none")));
    assert_eq!(step_log(api, &deployment, "ask"), "");
}

fn check_artifacts(sandbox: &'static str) {
    let Some(attacked) = AttackedServer::start(sandbox, "/var/tmp", DataDirForm::Absolute) else { return };
    let api = attacked.api();
    let run =
        format!("cd ..; mv workspace moved; ln -s {} workspace; echo replaced", attacked.data().display());
    let step = json!({"name": "Steal", "type": "script", "artifacts": {"key": {"path": "root.key"}},
        "params": {"run": run}});
    let deployment = deploy(api, "steal", &step);
    let attempt = wait_for_attempt(api, &deployment);
    assert_eq!(step_log(api, &deployment, "steal"), "replaced\n");
    assert_eq!(attempt["status"], "failed", "{attempt}");
    assert!(text(&attempt["detail"]).contains("leads out of the workspace"), "{attempt}");
}

#[test]
fn workspace_replaced_by_a_symlink_exposes_no_server_file() {
    check_artifacts("bubblewrap");
    check_artifacts("landlock");
}
