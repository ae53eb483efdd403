//! Without bubblewrap the server serves, but runs no step in a weaker sandbox unless it was named.

use std::process::Command;
use std::time::Duration;

use berth_testkit::outcome;
use serde_json::json;

use crate::harness::{Home, Process, STOP_MAX, Server, berth, until};

const ORGANIZATION: &str = "/api/v1/organizations/acme";
const PATIENCE: Duration = Duration::from_secs(20);

/// The same command with `bwrap` hidden. `None`: this machine does not allow that.
fn without_bubblewrap(command: &Command) -> Option<Command> {
    const HIDE: &str = r#"for dir in /usr/local/bin /usr/bin /bin; do
        if [ -e $dir/bwrap ]; then mount --bind /dev/null $dir/bwrap || exit 1; fi
    done
    exec "$0" "$@""#;
    let unshare = || {
        let mut unshare = Command::new("unshare");
        unshare.args(["--mount", "sh", "-c", HIDE]);
        unshare
    };
    let tried = unshare().args(["sh", "-c", "! test -f /usr/bin/bwrap"]).status();
    if !tried.is_ok_and(|status| status.success()) {
        outcome::impossible("a machine without bubblewrap", "mount namespaces need root");
        return None;
    }
    let mut hidden = unshare();
    hidden.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => hidden.env(name, value),
            None => hidden.env_remove(name),
        };
    }
    Some(hidden)
}

#[test]
fn server_without_bubblewrap_serves_and_runs_no_step() {
    let home = Home::on_sqlite();
    let mut serve = berth(&["serve", "--listen", "127.0.0.1:0", "--rate-limit", "off", "--data-dir"]);
    serve.arg(home.path());
    let Some(mut serve) = without_bubblewrap(&serve) else { return };
    let server = Server::start(&mut serve, &home.token);
    assert_eq!(server.api.get("/readyz").status, 200);
    let log = server.process.stderr();
    assert!(log.contains("apt-get install bubblewrap"), "{log}");

    let step = json!({"name": "Deploy", "type": "script", "params": {"run": "echo it runs"}});
    let definition = json!({"version": 1, "pipeline": {
        "name": "Shop", "stages": [{"name": "staging"}], "steps": [step],
    }});
    let body = json!({"slug": "shop", "definition": definition.to_string()});
    assert_eq!(server.api.post(&format!("{ORGANIZATION}/pipelines"), &body).status, 201);
    let path = format!("{ORGANIZATION}/pipelines/shop/deployments");
    let begun = server.api.post(&path, &json!({"commitId": "abc"}));
    let id = begun.json()["data"]["id"].as_str().expect("an id").to_owned();
    let path = format!("{ORGANIZATION}/deployments/{id}");
    until(PATIENCE, "the reason", || server.api.get(&path).text().contains("no_runner").then_some(()));
    assert!(!server.api.get(&format!("{path}/steps/deploy/logs?raw=true")).text().contains("it runs"));
    server.stop();
}

#[test]
fn sandbox_that_is_named_and_missing_ends_the_server() {
    let home = Home::on_sqlite();
    let mut serve = home.serve_command();
    serve.args(["--sandbox", "bubblewrap"]);
    let Some(mut serve) = without_bubblewrap(&serve) else { return };
    Process::start(&mut serve).wait(STOP_MAX).refused(&["apt-get install bubblewrap"]);
}
