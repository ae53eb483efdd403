//! A database file copied back by hand, `berth admin sql`, and `berth admin doctor`.

use serde_json::json;

use super::{ORGANIZATION, claim, make_shop, run_admin};
use crate::harness::{BerthProcess, STOP_MAX, TestHome};

#[test]
fn copied_database_is_refused_until_the_epoch_is_raised() {
    let home = TestHome::on_sqlite();
    let server = home.serve();
    make_shop(&server.api);
    server.stop();
    let (file, copy) = (home.path().join("berth.db"), home.path().join("copy"));
    std::fs::copy(&file, &copy).expect("a copy");
    let server = home.serve();
    let (_, given) = claim(&server.api, "qa-1");
    server.stop();
    // Put the copy back twice. The second time, the database again lacks the epoch that was raised after the first
    // time.
    let mut highest = given;
    for _ in 0..2 {
        std::fs::copy(&copy, &file).expect("the copy back");
        BerthProcess::start(&mut home.serve_command())
            .wait(STOP_MAX)
            .expect_refusal(&["a copy that lacks later changes", "raise-epoch"]);
        let told = run_admin(&["raise-epoch", "--json"], &home.path()).json();
        assert!(told["epoch"].as_i64().expect("an epoch") >= 16, "{told}");
        let server = home.serve();
        let (_, new) = claim(&server.api, "qa-1");
        assert!(new > highest, "{new} is not above {highest}");
        highest = new;
        server.stop();
    }
}

#[test]
fn admin_sql_is_read_only() {
    let home = TestHome::on_sqlite();
    let server = home.serve();
    make_shop(&server.api);
    let ask = |question: &str| run_admin(&["sql", "--read-only", "--json", question], &home.path());
    let found = ask("SELECT slug, stopped_at FROM pipelines").json();
    assert_eq!(found, json!([{ "slug": "shop", "stopped_at": null }]));
    let short = run_admin(
        &["sql", "--read-only", "--rows", "2", "SELECT sequence FROM events ORDER BY sequence"],
        &home.path(),
    );
    assert_eq!((short.code, short.stdout.as_str()), (Some(0), "1\n2\n"));
    assert!(short.stderr.contains("More than 2 rows"), "{short:?}");
    for bad in [
        "DELETE FROM pipelines",
        "SELECT 1; DELETE FROM pipelines",
        "PRAGMA query_only = 0",
        "PRAGMA journal_mode = DELETE",
        "ATTACH '/tmp/x' AS x",
        "UPDATE pipelines SET slug = 'x' RETURNING id",
        "nonsense",
    ] {
        ask(bad).expect_refusal(&["cannot be run"]);
    }
    let path = format!("{ORGANIZATION}/pipelines");
    assert_eq!(server.api.get(&path).json()["pagination"]["total"], 1);
    server.stop();
}

#[test]
fn doctor_reports_problems_with_advice() {
    let home = TestHome::on_sqlite();
    let ask = || run_admin(&["doctor", "--json"], &home.path());
    let well = ask();
    assert_eq!(well.code, Some(0), "{well:?}");
    let state = |told: &serde_json::Value, name: &str| {
        let checks = told.as_array().expect("a list").clone();
        let found = checks.into_iter().find(|check| check["check"] == name).expect("the check");
        (found["state"].as_str().expect("a state").to_owned(), found["detail"].to_string())
    };
    let told = well.json();
    for name in ["data directory", "root key", "database", "clock"] {
        assert_eq!(state(&told, name).0, "ok", "{told}");
    }
    // A killed server leaves its socket behind, so the doctor must send a request to find out whether a server is
    // running.
    let mut server = home.serve();
    let says_so = || state(&ask().json(), "data directory").1.contains("server is running");
    crate::harness::wait_until(STOP_MAX, "its socket", || says_so().then_some(()));
    server.process.kill();
    assert!(!says_so());
    std::fs::write(home.path().join("root.key"), [7; 32]).expect("another key");
    let ill = ask();
    assert_eq!(ill.code, Some(1), "{ill:?}");
    let (found, detail) = state(&serde_json::from_str(&ill.stdout).expect("JSON"), "database");
    assert!(found == "fail" && detail.contains("needs root key"), "{detail}");
}
