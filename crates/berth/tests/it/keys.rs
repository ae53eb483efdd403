//! Root keys: the server refuses a wrong or missing key, keys are rotated online and offline, and a stolen database is
//! useless without the key.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use berth_testkit::{ScratchDatabase, outcome};
use serde_json::json;

use crate::harness::{BerthProcess, STOP_MAX, TestHome, TestServer, init, run, wait_until};

const CANARY: &str = "canary-7f3a-secret-value";
const SECRETS: &str = "/api/v1/organizations/acme/secrets";

fn create(server: &TestServer, name: &str) {
    let made = server.api.post(SECRETS, &json!({ "name": name, "value": CANARY }));
    assert_eq!(made.status, 201, "{}", made.text());
}

fn rotate(dir: &Path) -> serde_json::Value {
    let ran = run(&["admin", "rotate-keys", "--json", "--data-dir", dir.to_str().expect("a path")]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    ran.json()
}

#[test]
fn database_with_another_root_key_is_refused_and_unchanged() {
    let home = TestHome::new();
    let server = home.serve();
    create(&server, "TOKEN");
    server.stop();
    let (key, file) = (home.path().join("root.key"), home.path().join("berth.db"));
    let (right, before) = (std::fs::read(&key).unwrap(), std::fs::read(&file).unwrap());
    std::fs::write(&key, [7; 32]).unwrap();
    BerthProcess::start(&mut home.serve_command())
        .wait(STOP_MAX)
        .expect_refusal(&["is not the one this database was made with", "--root-key-file"]);
    assert!(std::fs::read(&file).unwrap() == before, "the refused database was changed");
    std::fs::write(&key, right).unwrap();
    let server = home.serve();
    assert_eq!(server.api.get(&format!("{SECRETS}/TOKEN")).status, 200);
    server.stop();
}

#[test]
fn keys_rotate_online_and_offline() {
    let home = TestHome::new();
    let key = home.path().join("root.key");
    let read_key = || std::fs::read(&key).unwrap();
    let server = home.serve();
    create(&server, "BEFORE");
    let (first, old) = (read_key(), rotate(&home.path()));
    assert_eq!(old["dataKeys"], 1);
    assert_ne!(read_key(), first);
    create(&server, "BETWEEN");
    server.stop();

    let (second, new) = (read_key(), rotate(&home.path()));
    assert_ne!(new["rootKeyId"], old["rootKeyId"]);
    assert_ne!(read_key(), second);
    let server = home.serve();
    create(&server, "AFTER");
    assert_eq!(server.api.get(SECRETS).json()["pagination"]["total"], 3);
    server.stop();
    std::fs::write(&key, first).unwrap();
    BerthProcess::start(&mut home.serve_command())
        .wait(STOP_MAX)
        .expect_refusal(&["not the one this database"]);
}

#[test]
fn lost_root_key_is_not_replaced() {
    let home = TestHome::new();
    let key = home.path().join("root.key");
    std::fs::remove_file(&key).unwrap();
    let words = ["there is no root key at"];
    BerthProcess::start(&mut home.serve_command()).wait(STOP_MAX).expect_refusal(&words);
    init(&home.path(), "globex", "hank@globex.test").expect_refusal(&words);
    assert!(!key.exists());
}

#[test]
fn interrupted_key_rotation_is_finished_at_the_next_start() {
    let home = TestHome::new();
    let server = home.serve();
    create(&server, "TOKEN");
    server.stop();
    // Simulate a crash during a rotation: the new key is on disk, and the data keys are still wrapped with the old one,
    // or already with the new one.
    let (key, next) = (home.path().join("root.key"), home.path().join("root.key.next"));
    let old = std::fs::read(&key).unwrap();
    std::fs::copy(&key, &next).unwrap();
    std::fs::write(&next, [9; 32]).unwrap();
    home.serve().stop();
    assert_eq!((std::fs::read(&key).unwrap(), next.exists()), (vec![9; 32], false));

    std::fs::copy(&key, &next).unwrap();
    std::fs::write(&key, old).unwrap();
    let server = home.serve();
    assert_eq!((std::fs::read(&key).unwrap(), next.exists()), (vec![9; 32], false));
    create(&server, "OTHER");
    server.stop();
}

#[test]
fn files_and_logs_contain_no_secret_or_token() {
    let home = TestHome::new();
    let server = home.serve();
    create(&server, "TOKEN");
    let held = |what: &[u8], bytes: &[u8]| bytes.windows(what.len()).any(|window| window == what);
    let search = |when: &str| {
        for file in std::fs::read_dir(home.path()).unwrap() {
            let path = file.unwrap().path();
            let bytes = std::fs::read(&path).unwrap_or_default();
            for value in [CANARY, &home.token] {
                assert!(!held(value.as_bytes(), &bytes), "{} {when}", path.display());
            }
        }
    };
    search("with everything in the write-ahead log");
    server.api.post("/api/v1/auth/login", &json!({ "email": "ada@acme.test", "password": CANARY }));
    rotate(&home.path());
    let ran = server.stop();
    assert!(!ran.stderr.contains(CANARY) && !ran.stderr.contains(&home.token));
    search("after it went into the database");
}

#[test]
fn admin_socket_refuses_a_caller_without_the_password() {
    let home = TestHome::on_sqlite();
    let server = home.serve();
    let socket = home.path().join("admin.sock");
    wait_until(Duration::from_secs(10), "admin socket", || socket.exists().then_some(()));
    let key = std::fs::read(home.path().join("root.key")).expect("the key");
    let asked = [r#"{"command":"rotate_keys"}"#, r#"{"pass":"wrong","request":{"command":"rotate_keys"}}"#];
    for (asked, answer) in asked.into_iter().zip(["unknown command", "only the user that runs the server"]) {
        let mut stream = UnixStream::connect(&socket).expect("the socket");
        writeln!(stream, "{asked}").expect("sent");
        let mut told = String::new();
        stream.read_to_string(&mut told).expect("an answer");
        assert!(told.contains(answer), "{told}");
    }
    assert_eq!(std::fs::read(home.path().join("root.key")).expect("the key"), key);
    server.stop();
}

#[test]
fn server_on_a_shared_database_refuses_to_rotate_keys() {
    let Some(postgres) = ScratchDatabase::new() else {
        outcome::skip("PostgreSQL", "apt-get install postgresql");
        return;
    };
    let home = TestHome::on_database(postgres.url());
    let (server, key) = (home.serve(), home.path().join("root.key"));
    let before = std::fs::read(&key).unwrap();
    // Without the database URL, this command cannot know that the database is shared. It asks the running server, which
    // knows.
    let dir = wait_until(Duration::from_secs(10), "admin socket", || {
        let servers = std::fs::read_dir(home.path().join("servers")).ok()?;
        servers.filter_map(|entry| Some(entry.ok()?.path())).find(|dir| dir.join("admin.sock").exists())
    });
    run(&["admin", "rotate-keys", "--data-dir", dir.to_str().expect("a path")])
        .expect_refusal(&["several servers may share this database"]);
    assert_eq!(std::fs::read(&key).unwrap(), before);
    server.stop();
}
