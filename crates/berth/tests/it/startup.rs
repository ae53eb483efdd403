//! Refused and concurrent starts. A refusal states the reason and changes nothing.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use rusqlite::Connection;

use crate::harness::{BerthProcess, TestHome, berth, init, run};

/// A second process waits a few seconds for the data directory before it gives up.
const REFUSAL_MAX: Duration = Duration::from_secs(10);

#[test]
fn second_process_on_a_data_dir_is_refused_with_the_owner() {
    let home = TestHome::new();
    let server = home.serve();
    let dir = home.path();
    let mut adding = berth(&["init", "--org", "globex", "--email", "hank@globex.test", "--data-dir"]);
    let seconds = [BerthProcess::start(&mut home.serve_command()), BerthProcess::start(adding.arg(&dir))];
    for second in seconds {
        let owner = format!("is in use by another berth (process {})", server.process.id());
        second.wait(REFUSAL_MAX).expect_refusal(&[&owner, dir.to_str().unwrap()]);
    }
    server.check_healthy();
    server.stop();
    assert_eq!(
        init(&dir, "globex", "hank@globex.test").code,
        Some(0),
        "the refused init left something behind"
    );
}

#[test]
fn concurrent_inits_create_both_organizations() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("data");
    let start = |org: &str| {
        let email = format!("owner@{org}.test");
        let mut command = berth(&["init", "--org", org, "--email", &email, "--json", "--data-dir"]);
        BerthProcess::start(command.arg(&dir))
    };
    let both = ["acme", "globex"].map(start);
    let made = both.map(|process| process.wait(REFUSAL_MAX).json());
    let tokens = made.map(|made| made["apiToken"].as_str().unwrap().to_owned());
    let mut command = berth(&["serve", "--listen", "127.0.0.1:0", "--data-dir"]);
    let server = crate::harness::TestServer::start(command.arg(&dir), &tokens[0]);
    for (org, token) in ["acme", "globex"].into_iter().zip(tokens) {
        let api = crate::client::ApiHandle { token, ..server.api.clone() };
        assert_eq!(api.get(&format!("/api/v1/organizations/{org}")).json()["data"]["slug"], org);
    }
    server.stop();
}

#[test]
fn newer_database_is_refused_and_unchanged() {
    let home = TestHome::new();
    let file = home.path().join("berth.db");
    let database = Connection::open(&file).unwrap();
    let newest: i64 =
        database.query_row("SELECT max(number) FROM schema_migrations", [], |row| row.get(0)).unwrap();
    let row = "INSERT INTO schema_migrations (number, name, checksum, applied_at) VALUES (?1, 'from_the_future', 'x', 0)";
    database.execute(row, [newest + 1]).unwrap();
    let set_minimum = "UPDATE instance SET schema_min_version = ?1";
    database.execute(set_minimum, [newest + 1]).unwrap();
    database.close().unwrap();
    let before = std::fs::read(&file).unwrap();

    let future = format!("schema version {} or later", newest + 1);
    let words = ["newer than this program", &future, "Install the version of berth that wrote it"];
    BerthProcess::start(&mut home.serve_command()).wait(REFUSAL_MAX).expect_refusal(&words);
    init(&home.path(), "globex", "hank@globex.test").expect_refusal(&words);
    assert!(std::fs::read(&file).unwrap() == before, "the refused database was changed");

    let database = Connection::open(&file).unwrap();
    // The newer migration itself is no reason to refuse the database.
    database.execute(set_minimum, [newest]).unwrap();
    database.close().unwrap();
    home.serve().stop();
}

#[test]
fn database_of_a_development_version_is_refused_and_unchanged() {
    let home = TestHome::new();
    let file = home.path().join("berth.db");
    let database = Connection::open(&file).unwrap();
    database
        .execute("UPDATE schema_migrations SET name = 'ground', checksum = 'x' WHERE number = 1", [])
        .unwrap();
    database.close().unwrap();
    let before = std::fs::read(&file).unwrap();
    let words = ["from before the first release", "nothing was changed", "new data directory"];
    BerthProcess::start(&mut home.serve_command()).wait(REFUSAL_MAX).expect_refusal(&words);
    init(&home.path(), "globex", "hank@globex.test").expect_refusal(&words);
    assert!(std::fs::read(&file).unwrap() == before, "the refused database was changed");
}

#[test]
fn database_with_a_foreign_migration_history_is_refused() {
    let home = TestHome::new();
    let database = Connection::open(home.path().join("berth.db")).unwrap();
    database.execute("UPDATE schema_migrations SET checksum = 'edited' WHERE number = 1", []).unwrap();
    database.close().unwrap();
    BerthProcess::start(&mut home.serve_command()).wait(REFUSAL_MAX).expect_refusal(&[
        "migration history of the database differs",
        "migration 1",
        "Nothing was changed",
    ]);
}

#[test]
fn file_that_is_not_a_database_is_refused_and_unchanged() {
    let home = TestHome::new();
    let file = home.path().join("berth.db");
    let text = "this is no database\n".repeat(500);
    std::fs::write(&file, &text).unwrap();
    BerthProcess::start(&mut home.serve_command())
        .wait(REFUSAL_MAX)
        .expect_refusal(&["cannot open", "berth.db"]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
}

#[test]
fn root_key_with_wrong_size_or_mode_is_refused() {
    let home = TestHome::new();
    let key = home.path().join("root.key");
    let good = std::fs::read(&key).unwrap();
    assert_eq!(std::fs::metadata(&key).unwrap().permissions().mode() & 0o7777, 0o600);
    let check = |mode: u32, bytes: &[u8], words: &[&str]| {
        std::fs::write(&key, bytes).unwrap();
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(mode)).unwrap();
        BerthProcess::start(&mut home.serve_command()).wait(REFUSAL_MAX).expect_refusal(words);
        init(&home.path(), "globex", "hank@globex.test").expect_refusal(words);
        assert_eq!(std::fs::read(&key).unwrap(), bytes, "the key was replaced");
    };
    for mode in [0o644, 0o640, 0o604, 0o620] {
        check(mode, &good, &["root.key is not a root key", "run chmod 600"]);
    }
    for length in [0, 31, 33] {
        check(0o600, &vec![7; length], &["root.key is not a root key", "it must hold 32 bytes"]);
    }
    std::fs::write(&key, &good).unwrap();
    home.serve().stop();
}

#[test]
fn port_in_use_is_named_in_the_error() {
    let home = TestHome::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let dir = home.path();
    run(&["serve", "--data-dir", dir.to_str().unwrap(), "--listen", &address])
        .expect_refusal(&[&format!("cannot listen on {address}"), "in use"]);
    drop(taken);
    home.serve().stop();
}

#[test]
fn second_organization_without_sandbox_is_refused() {
    let home = TestHome::on_sqlite();
    assert_eq!(init(&home.path(), "globex", "hank@globex.test").code, Some(0));
    let start = |level: &str| {
        let mut command = berth(&["serve", "--listen", "127.0.0.1:0", "--sandbox", level, "--data-dir"]);
        BerthProcess::start(command.arg(home.path()))
    };
    let mut lending = berth(&["serve", "--listen", "127.0.0.1:0", "--sandbox", "off", "--data-dir"]);
    lending.env("BERTH_RUNNER__KUBERNETES__NAMESPACE", "ci").env("BERTH_RUNNER__KUBERNETES__APPLY", "true");
    BerthProcess::start(lending.arg(home.path()))
        .wait(REFUSAL_MAX)
        .expect_refusal(&["there are 2 organizations", "lend its access to the Kubernetes cluster"]);
    start("off").wait(REFUSAL_MAX).expect_refusal(&["there are 2 organizations", "does not isolate them"]);
    let landlock = start("landlock").wait(REFUSAL_MAX);
    let is_missing = landlock.stderr.contains("the sandbox landlock does not work here");
    assert!(is_missing || landlock.stderr.contains("does not isolate them"), "{}", landlock.stderr);
    assert_ne!(landlock.code, Some(0));
    let mut auto = start("auto");
    assert!(auto.first_line().starts_with("berth is serving"));
}

#[test]
fn identity_providers_with_the_same_issuer_are_refused() {
    let home = TestHome::new();
    let file = home.path().join("berth.toml");
    let provider = |name: &str, issuer: &str| {
        format!(
            "[[auth.oidc]]\nname = \"{name}\"\nissuer = \"{issuer}\"\nclient_id = \"berth\"\norganization = \"acme\"\n"
        )
    };
    let command = |other: &str| {
        let text = provider("corp", "https://login.acme.test") + &provider("partner", other);
        std::fs::write(&file, text).unwrap();
        let mut command = home.serve_command();
        command.arg("--config").arg(&file);
        command
    };
    BerthProcess::start(&mut command("https://login.acme.test"))
        .wait(REFUSAL_MAX)
        .expect_refusal(&["\"partner\"", "another provider has the same issuer"]);
    crate::harness::TestServer::start(&mut command("https://login.partner.test"), &home.token).stop();
}
