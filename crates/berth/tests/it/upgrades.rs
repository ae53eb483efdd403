//! Upgrades with two versions of the server on one PostgreSQL. A newer version is played by its effects on the database: an
//! applied migration that this program does not know.

use std::time::Duration;

use berth_testkit::{ScratchDatabase, outcome};
use serde_json::{Value, json};

use crate::harness::{BerthProcess, ProcessOutput, TestHome, TestServer, berth, wait_until};

const CHECK_MAX: Duration = Duration::from_secs(20);
const EXIT_MAX: Duration = Duration::from_secs(20);
/// What a newer server does to add a column.
const EXPAND: &str = "ALTER TABLE teams ADD COLUMN colour TEXT NOT NULL DEFAULT 'grey';
    INSERT INTO schema_migrations (number, name, checksum, applied_at)
      SELECT MAX(number) + 1, 'from_the_future', 'x', 0 FROM schema_migrations";
/// What it does to remove something that this program uses.
const CONTRACT: &str = "UPDATE instance SET schema_min_version = (SELECT MAX(number) FROM schema_migrations)";

fn check(home: &TestHome) -> ProcessOutput {
    let mut command = berth(&["upgrade", "--check", "--json", "--data-dir"]);
    command.arg(home.path());
    if let Some(url) = home.database() {
        command.args(["--database", url]);
    }
    BerthProcess::start(&mut command).wait(CHECK_MAX)
}

fn parse_json(checked: &ProcessOutput) -> Value {
    serde_json::from_str(&checked.stdout).unwrap_or_else(|error| panic!("{error}: {checked:?}"))
}

#[test]
fn servers_keep_working_during_an_expansion_and_exit_after_a_contraction() {
    let Some(scratch) = ScratchDatabase::new() else {
        return outcome::skip("PostgreSQL", "apt-get install postgresql");
    };
    let home = TestHome::on_database(scratch.url());
    let start = || TestServer::start(home.serve_command().arg("--no-runner"), &home.token);
    let (first, second) = (start(), start());
    let create_team = |server: &TestServer, slug: &str| {
        server.api.post("/api/v1/organizations/acme/teams", &json!({"slug": slug, "name": slug})).status
    };
    assert_eq!([create_team(&first, "before-1"), create_team(&second, "before-2")], [201, 201]);
    let servers = wait_until(CHECK_MAX, "both servers in the check", || {
        let found = parse_json(&check(&home));
        (found["servers"].as_array()?.len() == 2).then_some(found)
    });
    assert_eq!(servers["ready"], true, "{servers}");
    assert_eq!((&servers["migrations"], &servers["needsDowntime"]), (&json!([]), &json!(false)));

    scratch.connect().batch_execute(EXPAND).expect("a migration");
    assert_eq!([create_team(&first, "during-1"), create_team(&second, "during-2")], [201, 201]);
    let checked = check(&home);
    assert_eq!((checked.code, &parse_json(&checked)["ready"]), (Some(0), &json!(true)));
    assert_eq!(parse_json(&checked)["database"]["unknownMigrations"][0]["name"], "from_the_future");
    second.stop();
    let second = start();
    assert_eq!(create_team(&second, "during-3"), 201, "an older server can also start again");

    scratch.connect().batch_execute(CONTRACT).expect("a migration");
    for server in [first, second] {
        let ended = server.process.wait(EXIT_MAX);
        assert_eq!(ended.code, Some(1), "{}", ended.stderr);
        assert!(ended.stderr.contains("newer than this program"), "{}", ended.stderr);
    }
    let refused = check(&home);
    let words = parse_json(&refused)["refusal"].as_str().expect("a reason").to_owned();
    assert!(refused.code == Some(1) && words.contains("newer than this program"), "{words}");
}

#[test]
fn upgrade_check_reads_sqlite_while_the_server_runs_and_changes_nothing() {
    let home = TestHome::on_sqlite();
    let server = home.serve();
    let checked = check(&home);
    assert_eq!(checked.code, Some(0), "{}", checked.stderr);
    let found = parse_json(&checked);
    assert_eq!((&found["needsDowntime"], &found["refusal"]), (&json!(true), &json!(null)));
    assert_eq!(found["database"]["schemaVersion"], found["program"]["schemaVersion"]);
    server.check_healthy();
    server.stop();

    let database = rusqlite::Connection::open(home.path().join("berth.db")).expect("a database");
    let runner = "INSERT INTO runners (org_id, id, name, labels, slots, program, protocol, created_at, token_hash,
          token_expires_at, credential_hash, registered_at, is_draining, seen_at)
        SELECT id, 'runner_1', 'build-1', '[]', 1, '0.0.9', 1, 1, x'00', 1, x'00', 1, 0, ?1 FROM organizations";
    let now = i64::MAX / 2;
    database.execute(runner, [now]).expect("a runner");
    drop(database);
    let checked = check(&home);
    assert_eq!((checked.code, &parse_json(&checked)["ready"]), (Some(1), &json!(false)));
    assert_eq!(
        parse_json(&checked)["runners"],
        json!([{"name": "build-1", "version": "0.0.9", "supported": false}])
    );

    let empty = tempfile::tempdir().expect("a directory");
    let mut command = berth(&["upgrade", "--check", "--data-dir"]);
    BerthProcess::start(command.arg(empty.path())).wait(CHECK_MAX).expect_refusal(&["no database at"]);
    assert!(std::fs::read_dir(empty.path()).expect("a directory").next().is_none());
}
