//! Operator commands: init, serve, runner, admin.

use std::process::Command;

use berth_testkit::{ScratchDatabase, outcome};
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
        let ran = self.cli.run(command);
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
    let cli = CliFixture::on_sqlite();
    let mut transcript = Transcript::new(&cli);
    let other = cli.config.path().join("other").display().to_string();
    let init = format!("init --data-dir {other} --org globex --email hank@globex.test");
    let made = transcript.run(&init);
    for (what, shown) in [("Password  ", "PASSWORD"), ("API token  ", "TOKEN")] {
        let line = made.stdout.lines().find(|it| it.contains(what)).expect(what);
        transcript.hide(line.split_whitespace().next_back().expect("a word"), shown);
    }
    transcript.run(&init);
    let serve = format!("serve --data-dir {other} --listen 127.0.0.1:0");
    let mut command = cli.command(&serve.split(' ').collect::<Vec<_>>());
    let line = transcript.run_until_stopped(&serve, &mut command);
    transcript.hide(line.rsplit('/').next().expect("an address"), "OTHER");
    transcript.run("serve --data-dir nowhere");

    let path = "/api/v1/organizations/acme/runners";
    let token = cli.server.api.post(path, &json!({ "name": "far" })).json()["data"]["token"].clone();
    let token = token.as_str().expect("a token");
    transcript.hide(token, "TOKEN");
    let at = format!("runner --server http://{} --sandbox off", cli.server.address);
    let runner = format!("{at} --work-dir far --token {token}");
    let line =
        transcript.run_until_stopped(&runner, &mut cli.command(&runner.split(' ').collect::<Vec<_>>()));
    // Hide the runner's labels and isolation level, which depend on the machine.
    transcript.hide(line.rsplit(": ").next().expect("what it can do"), "…");
    transcript.run(&format!("{at} --work-dir near --token wrong"));
    transcript.run("demo crash");
    transcript.compare(&expect_file!["expected/installation.txt"]);
}

#[test]
fn admin_commands() {
    let cli = CliFixture::on_sqlite();
    assert_eq!(cli.run_with_input("secret set DEPLOY_TOKEN", "s3cr3t-value-of-some-length\n").code, Some(0));
    let mut transcript = Transcript::new(&cli);
    let data = format!("--data-dir {}", cli.home.path().display());
    let gone = "--data-dir nowhere";
    let made = transcript.run(&format!("admin backup --to backup {data}"));
    transcript.hide(&format!("{} bytes", word_after(&made.stdout, "files (")), "N bytes");
    transcript.hide(word_after(&made.stdout, "the root key ("), "KEY");
    transcript.run(&format!("admin backup --to backup {data}"));
    let restore =
        format!("admin restore --from backup --root-key-file {}/root.key", cli.home.path().display());
    let restored = format!("{restore} --data-dir restored");
    let told = transcript.run(&restored);
    transcript.hide(&format!("epoch {}", word_after(&told.stdout, "epoch ")), "epoch N");
    transcript.run(&restored);
    transcript.run_all(&[&format!("admin verify {data}"), &format!("admin verify {gone}")]);
    transcript.run_doctor(&format!("admin doctor {data}"));
    transcript.run_doctor(&format!("admin doctor {gone}"));
    transcript.run_all(&[
        &format!("admin sql --read-only {data} SELECT(slug)FROM(pipelines)"),
        &format!("admin sql --read-only {data} DELETE(1)"),
    ]);
    let link = transcript.run(&format!("admin reset-password ada@acme.test {data}"));
    transcript.hide(word_after(&link.stdout, "/reset-password#"), "LINK");
    transcript.hide(word_after(&link.stdout, "expires at "), "TIME");
    transcript.run(&format!("admin reset-password unknown@acme.test {data}"));
    transcript.run(&format!("admin instance-admin ada@acme.test {data}"));
    transcript.run(&format!("admin instance-admin unknown@acme.test {data}"));
    let rotated = transcript.run(&format!("admin rotate-keys {data}"));
    transcript.hide(word_after(&rotated.stdout, "is now "), "NEXT");
    transcript.run(&format!("admin rotate-keys {gone}"));
    let refused = transcript.run(&format!("admin raise-epoch {data}"));
    transcript.hide(word_after(&refused.stderr, "(process "), "N");
    let raised = transcript.run("admin raise-epoch --data-dir restored");
    transcript.hide(&format!("epoch {}", word_after(&raised.stdout, "epoch ")), "epoch N");
    transcript.run_all(&[&format!("upgrade --check {data}"), &format!("upgrade --check {gone}")]);
    let objects = format!("--to file://{}", cli.config.path().join("objects").display());
    std::fs::create_dir(cli.config.path().join("objects")).expect("a directory");
    transcript.run(&format!("admin storage migrate {objects} --data-dir restored"));
    transcript.run(&format!("admin storage migrate {objects} {data}"));
    let storage = format!("[storage]\nurl = \"{}\"\n", objects.trim_start_matches("--to "));
    std::fs::write(cli.config.path().join("storage.toml"), storage).expect("a configuration");
    transcript.run("admin storage confirm --config storage.toml --data-dir restored");
    transcript.run("admin storage confirm --data-dir restored");
    transcript.compare(&expect_file!["expected/admin.txt"]);
}

#[test]
fn admin_copy_between_databases() {
    let Some(postgres) = ScratchDatabase::new() else {
        outcome::skip("PostgreSQL", "apt-get install postgresql");
        return;
    };
    let cli = CliFixture::on_sqlite();
    let other = cli.config.path().join("other").display().to_string();
    let init = format!("init --data-dir {other} --org globex --email hank@globex.test");
    assert_eq!(cli.run(&init).code, Some(0));
    let mut transcript = Transcript::new(&cli);
    transcript.hide(&postgres.url(), "postgres://…");
    transcript.run_all(&[
        &format!("admin copy --from sqlite:{other} --to {}", postgres.url()),
        &format!("admin copy --from sqlite:{other} --to {}", postgres.url()),
        &format!("admin copy --from {other} --to elsewhere"),
    ]);
    transcript.compare(&expect_file!["expected/database-copy.txt"]);
}
