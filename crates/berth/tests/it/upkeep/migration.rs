//! Migration from SQLite to PostgreSQL and back, with an active session.

use berth_testkit::{ScratchDatabase, outcome};
use serde_json::json;

use super::{SHOP, claim, deploy, deploy_log, make_shop, path_text, run_admin, serve};
use crate::harness::{BerthProcess, STOP_MAX, TestHome, run};

#[test]
fn migration_to_postgresql_and_back_keeps_sessions() {
    let Some(postgres) = ScratchDatabase::new() else {
        outcome::skip("PostgreSQL", "apt-get install postgresql");
        return;
    };
    let home = TestHome::on_sqlite();
    let server = home.serve();
    make_shop(&server.api);
    let (session, fence) = claim(&server.api, "qa-1");
    let done = deploy(&server.api, "qa-1", &session, "aaa1", "succeeded");
    let (_, other) = claim(&server.api, "qa-2");
    let copy = |from: &str, to: &str| run(&["admin", "copy", "--json", "--from", from, "--to", to]);
    let (here, there) = (format!("sqlite:{}", path_text(&home.path())), postgres.url());
    copy(&here, &there).expect_refusal(&["is in use by another berth"]);
    server.stop();

    // A database file that was copied by hand lacks everything that happened after the copy.
    let foreign = home.path().with_file_name("foreign");
    std::fs::create_dir(&foreign).expect("a directory");
    std::fs::copy(home.path().join("berth.db"), foreign.join("berth.db")).expect("a copy");
    copy(&format!("sqlite:{}", path_text(&foreign)), &there)
        .expect_refusal(&["a copy that lacks later changes", "raise-epoch"]);

    let told = copy(&here, &there).json();
    assert_eq!((&told["tables"]["sessions"], &told["tables"]["plans"]), (&json!(2), &json!(1)), "{told}");
    assert_eq!(told["eventsVerified"], told["tables"]["events"], "{told}");
    copy(&here, &there).expect_refusal(&["was copied to PostgreSQL"]);
    BerthProcess::start(&mut home.serve_command())
        .wait(STOP_MAX)
        .expect_refusal(&["was copied to PostgreSQL"]);

    let server = serve(&home.path(), &["--database", &there], &home.token);
    let path = format!("{SHOP}/ephemeral-environments/qa-1/sessions/{session}");
    let held = server.api.get(&path).json()["data"].clone();
    assert_eq!((&held["status"], &held["fence"]), (&json!("active"), &json!(fence)), "{held}");
    assert_eq!(deploy(&server.api, "qa-1", &session, "aaa2", "succeeded")["status"], "succeeded");
    assert!(deploy_log(&server.api, &done).contains("it runs"));
    let force = server.api.post(&format!("{SHOP}/ephemeral-environments/qa-2/force-claim"), &json!({}));
    let taken = force.json()["data"]["fence"].as_i64().expect("a fence");
    assert!(taken > other + 1, "{taken} is not above what the old database could still give");
    let back = home.path().with_file_name("back");
    let into = format!("sqlite:{}", path_text(&back));
    copy(&there, &into).expect_refusal(&["a server is running", "nothing was changed"]);
    server.stop();
    let verified = run_admin(&["verify", "--database", &there], &home.path());
    assert_eq!(verified.code, Some(0), "{verified:?}");
    run_admin(&["backup", "--to", "/nonexistent/x", "--database", &there], &home.path())
        .expect_refusal(&["pg_dump"]);
    let asked = ["sql", "--read-only", "--json", "--database", &there];
    let rows =
        run_admin(&[&asked[..], &["SELECT COUNT(*) AS count FROM sessions"]].concat(), &home.path()).json();
    assert_eq!(rows, json!([{ "count": "3" }]));
    for bad in [
        "DELETE FROM sessions",
        "SELECT 1; DELETE FROM sessions",
        "WITH x AS (DELETE FROM sessions RETURNING 1) SELECT 1",
    ] {
        run_admin(&[&asked[..], &[bad]].concat(), &home.path()).expect_refusal(&["cannot be run"]);
    }

    let told = copy(&there, &into).json();
    assert_eq!(told["tables"]["sessions"], 3, "{told}");
    copy(&there, &into).expect_refusal(&["is not empty", "nothing was changed"]);
    let epoch = ["sql", "--read-only", "--json", "SELECT epoch FROM instance"];
    let [source, target] =
        [run_admin(&[&epoch[..], &["--database", &there]].concat(), &home.path()), run_admin(&epoch, &back)];
    assert_eq!((source.json(), target.json()), (json!([{ "epoch": "2" }]), json!([{ "epoch": "3" }])));
    std::fs::copy(home.path().join("root.key"), back.join("root.key")).expect("the key");
    let server = serve(&back, &[], &home.token);
    let held = server.api.get(&path).json()["data"].clone();
    assert_eq!((&held["status"], &held["fence"]), (&json!("active"), &json!(fence)), "{held}");
    server.stop();

    let raised = run_admin(&["raise-epoch", "--json", "--database", &there], &home.path()).json();
    assert!(raised["epoch"].as_i64().expect("an epoch") >= 18, "{raised}");
    assert_eq!(raised["sessionsEnded"], 2, "{raised}");
}
