//! A server running as root runs steps and builds as an unprivileged user.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use berth_testkit::outcome;
use serde_json::json;

use crate::harness::{BerthProcess, TestHome, TestServer, wait_until};
use crate::isolation::{ORGANIZATION, commit, deploy, step_log, text};

const PATIENCE: Duration = Duration::from_secs(120);

/// Creates a directory that all users can enter.
fn open_dir() -> tempfile::TempDir {
    let dir = tempfile::tempdir_in("/var/tmp").expect("a directory");
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o711)).expect("mode");
    dir
}

/// Starts the server, or returns the reason why it does not start.
fn serve(home: &TestHome, sandbox: &str, user: &str, work: Option<&Path>) -> Result<TestServer, String> {
    let mut command = home.serve_command();
    command.args(["--sandbox", sandbox]).env("BERTH_RUNNER__USER", user);
    work.map(|dir| command.env("BERTH_RUNNER__WORK_DIR", dir));
    let mut probe = BerthProcess::start(&mut command);
    if probe.first_line_or_end().is_none() {
        return Err(probe.wait(PATIENCE).stderr);
    }
    probe.kill();
    probe.wait(PATIENCE);
    Ok(TestServer::start(&mut command, &home.token))
}

fn check(sandbox: &str) {
    let (home, place) = (TestHome::on_sqlite(), open_dir());
    let server = match serve(&home, sandbox, "nobody", Some(&place.path().join("work"))) {
        Ok(server) => server,
        Err(why) => return outcome::report_impossible("another user for steps", &why),
    };
    let api = &server.api;
    let run = "id -u; echo x > made; cat /etc/passwd > /dev/null; id -G";
    let step = json!({"name": "Who", "type": "script", "params": {"run": run}});
    let deployment = deploy(api, "who", &step);
    wait_until(PATIENCE, "end", || {
        api.get(&deployment).json()["data"]["finishedAt"].is_string().then_some(())
    });
    assert_eq!(step_log(api, &deployment, "who"), "65534\n65534\n");

    let source = place.path().join("tools");
    std::fs::create_dir(&source).expect("a directory");
    let manifest = "build: id -u; echo built > built; mkdir -p $HOME/x\nstart: sh ./steps.sh\n";
    std::fs::write(source.join("berth-registry.yaml"), manifest).expect("written");
    std::fs::write(source.join("steps.sh"), "echo asked as $(id -u); cat built; exit 1\n").expect("written");
    commit(&source);
    let body = json!({"name": "tools", "url": source.display().to_string()});
    let added = api.post(&format!("{ORGANIZATION}/step-registries"), &body);
    assert_eq!(added.status, 201, "{}", added.text());
    let path = format!("{ORGANIZATION}/step-registries/{}", text(&added.json()["data"]["id"]));
    wait_until(PATIENCE, "end of the build", || {
        (api.get(&path).json()["data"]["status"] == "failed").then_some(())
    });
    let log = api.get(&format!("{path}/builds/1/logs")).text();
    assert!(log.contains("65534") && log.contains("asked as 65534") && log.contains("built"), "{log}");
    server.stop();
}

#[test]
fn step_user_applies_with_bubblewrap() {
    check("bubblewrap");
}

#[test]
fn step_user_applies_without_a_sandbox() {
    check("off");
}

#[test]
fn step_user_that_is_not_usable_is_refused_at_start() {
    let home = TestHome::on_sqlite();
    if !rustix::process::geteuid().is_root() {
        let why = serve(&home, "off", "nobody", None).err().expect("refused");
        assert!(why.contains("only if this program runs as root"), "{why}");
        return;
    }
    let why = serve(&home, "off", "no-such-user", None).err().expect("refused");
    assert!(why.contains("there is no user no-such-user"), "{why}");
    let why = serve(&home, "off", "nobody", None).err().expect("refused");
    assert!(why.contains("runner.work_dir") && why.contains("cannot enter"), "{why}");
}
