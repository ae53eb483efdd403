//! Operator commands: init, serve, runner, admin.

use std::process::Command;

use berth_testkit::{Scratch, outcome};
use expect_test::expect_file;
use rustix::process::Signal;
use serde_json::json;

use super::{CliFixture, PATIENCE, Transcript};
use crate::harness::BerthProcess;

impl Transcript<'_> {
    /// Runs a command until it is stopped with a signal; its log is not recorded.
    fn run_until_stopped(&mut self, shown: &str, command: &mut Command) -> String {
        let mut process = BerthProcess::start(command);
        let line = process.first_line();
        process.signal(Signal::TERM);
        let ran = process.wait(PATIENCE);
        self.record(shown, &[&ran.stdout], &ran);
        line
    }

    /// Runs an admin command whose output depends on the machine.
    fn run_doctor(&mut self, command: &str) {
        let ran = self.desk.run(command);
        let line = |line: &str| {
            let cells: Vec<&str> = line.split('\t').collect();
            match cells.as_slice() {
                [state, name @ ("data directory" | "root key" | "database"), _] => {
                    format!("{state}\t{name}\t…\n")
                }
                [_, name, _] => format!("…\t{name}\t…\n"),
                _ => panic!("{line:?}"),
            }
        };
        let said: String = ran.stdout.lines().map(line).collect();
        self.record(command, &[&said, &ran.stderr], &ran);
    }
}

/// Returns the word that follows `words` in the text.
fn word_after<'a>(text: &'a str, words: &str) -> &'a str {
    let (_, rest) = text.split_once(words).unwrap_or_else(|| panic!("{words:?} is not in {text}"));
    rest.split([' ', '\n', ')', ';', '.']).next().unwrap_or_default()
}

#[test]
fn init_serve_runner() {
    let desk = CliFixture::on_sqlite();
    let mut talk = Transcript::new(&desk);
    let other = desk.config.path().join("other").display().to_string();
    let init = format!("init --data-dir {other} --org globex --email hank@globex.test");
    let made = talk.run(&init);
    for (what, shown) in [("Password  ", "PASSWORD"), ("API token  ", "TOKEN")] {
        let line = made.stdout.lines().find(|it| it.contains(what)).expect(what);
        talk.hide(line.split_whitespace().next_back().expect("a word"), shown);
    }
    talk.run(&init);
    let serve = format!("serve --data-dir {other} --listen 127.0.0.1:0");
    let mut command = desk.command(&serve.split(' ').collect::<Vec<_>>());
    let line = talk.run_until_stopped(&serve, &mut command);
    talk.hide(line.rsplit('/').next().expect("an address"), "OTHER");
    talk.run("serve --data-dir nowhere");

    let path = "/api/v1/organizations/acme/runners";
    let token = desk.server.api.post(path, &json!({ "name": "far" })).json()["data"]["token"].clone();
    let token = token.as_str().expect("a token");
    talk.hide(token, "TOKEN");
    let at = format!("runner --server http://{} --sandbox off", desk.server.address);
    let runner = format!("{at} --work-dir far --token {token}");
    let line = talk.run_until_stopped(&runner, &mut desk.command(&runner.split(' ').collect::<Vec<_>>()));
    // Hide the runner's labels and isolation level, which depend on the machine.
    talk.hide(line.rsplit(": ").next().expect("what it can do"), "…");
    talk.run(&format!("{at} --work-dir near --token wrong"));
    talk.run("demo crash");
    talk.compare(&expect_file!["expected/installation.txt"]);
}

#[test]
fn admin_commands() {
    let desk = CliFixture::on_sqlite();
    assert_eq!(desk.run_with_input("secret set DEPLOY_TOKEN", "s3cr3t-value-of-some-length\n").code, Some(0));
    let mut talk = Transcript::new(&desk);
    let data = format!("--data-dir {}", desk.home.path().display());
    let gone = "--data-dir nowhere";
    let made = talk.run(&format!("admin backup --to backup {data}"));
    talk.hide(&format!("{} bytes", word_after(&made.stdout, "files (")), "N bytes");
    talk.hide(word_after(&made.stdout, "the root key ("), "KEY");
    talk.run(&format!("admin backup --to backup {data}"));
    let restore =
        format!("admin restore --from backup --root-key-file {}/root.key", desk.home.path().display());
    let restored = format!("{restore} --data-dir restored");
    let told = talk.run(&restored);
    talk.hide(&format!("epoch {}", word_after(&told.stdout, "epoch ")), "epoch N");
    talk.run(&restored);
    talk.run_all(&[&format!("admin verify {data}"), &format!("admin verify {gone}")]);
    talk.run_doctor(&format!("admin doctor {data}"));
    talk.run_doctor(&format!("admin doctor {gone}"));
    talk.run_all(&[
        &format!("admin sql --read-only {data} SELECT(slug)FROM(pipelines)"),
        &format!("admin sql --read-only {data} DELETE(1)"),
    ]);
    let link = talk.run(&format!("admin reset-password ada@acme.test {data}"));
    talk.hide(word_after(&link.stdout, "/reset-password#"), "LINK");
    talk.hide(word_after(&link.stdout, "expires at "), "TIME");
    talk.run(&format!("admin reset-password nobody@acme.test {data}"));
    let rotated = talk.run(&format!("admin rotate-keys {data}"));
    talk.hide(word_after(&rotated.stdout, "is now "), "NEXT");
    talk.run(&format!("admin rotate-keys {gone}"));
    let refused = talk.run(&format!("admin raise-epoch {data}"));
    talk.hide(word_after(&refused.stderr, "(process "), "N");
    let raised = talk.run("admin raise-epoch --data-dir restored");
    talk.hide(&format!("epoch {}", word_after(&raised.stdout, "epoch ")), "epoch N");
    talk.compare(&expect_file!["expected/admin.txt"]);
}

#[test]
fn admin_copy_between_databases() {
    let Some(postgres) = Scratch::new() else {
        outcome::skip("PostgreSQL", "apt-get install postgresql");
        return;
    };
    let desk = CliFixture::on_sqlite();
    let other = desk.config.path().join("other").display().to_string();
    let init = format!("init --data-dir {other} --org globex --email hank@globex.test");
    assert_eq!(desk.run(&init).code, Some(0));
    let mut talk = Transcript::new(&desk);
    talk.hide(&postgres.url(), "postgres://…");
    talk.run_all(&[
        &format!("admin copy --from sqlite:{other} --to {}", postgres.url()),
        &format!("admin copy --from sqlite:{other} --to {}", postgres.url()),
        &format!("admin copy --from {other} --to elsewhere"),
    ]);
    talk.compare(&expect_file!["expected/database-copy.txt"]);
}
