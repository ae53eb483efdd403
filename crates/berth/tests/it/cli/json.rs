//! `--json` with field selection, and `--jq`.

use serde_json::json;

use super::CliFixture;

#[test]
fn json_fields_are_selected_in_lists_and_records() {
    let cli = CliFixture::new();
    let list = cli.run("env list --json envName,lockStatus,pullRequest");
    let free = |name: &str| json!({"envName": name, "lockStatus": "unlocked", "pullRequest": null});
    assert_eq!(list.json(), json!({"data": [free("qa-1"), free("qa-2")]}), "{list:?}");
    assert_eq!(cli.run("pipeline show shop --json slug").stdout, "{\"slug\":\"shop\"}\n");
    // No environment is held, but sessions have these fields.
    let empty = cli.run("env queue qa-1 --json ticketId");
    assert_eq!(empty.json(), json!({"data": []}), "{empty:?}");
    // The word after --json is a field only if the command is complete without it.
    assert_eq!(cli.run("pipeline show --json shop").json()["slug"], "shop");
}

#[test]
fn unknown_json_field_is_refused_with_the_available_ones() {
    let cli = CliFixture::new();
    for (command, field) in [
        ("env list --json name,nothing", "lockStatus"),
        ("env show qa-1 --json nothing", "lockStatus"),
        ("env queue qa-1 --json nothing", "ticketId"),
    ] {
        let refused = cli.run(command);
        assert_eq!((refused.code, refused.stdout.as_str()), (Some(2), ""), "{refused:?}");
        assert!(
            refused.stderr.contains("unknown field nothing in --json; available fields: "),
            "{refused:?}"
        );
        assert!(refused.stderr.contains(field), "{refused:?}");
    }
}

#[test]
fn jq_filters_the_json_of_every_kind_of_command() {
    let cli = CliFixture::new();
    let run = |words: &[&str]| {
        let ran = cli.run_words(words);
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
        ran.stdout
    };
    assert_eq!(run(&["env", "list", "--jq", ".data[].envName"]), "qa-1\nqa-2\n");
    assert_eq!(run(&["env", "list", "--json", "envName", "--jq", ".data[0]"]), "{\"envName\":\"qa-1\"}\n");
    assert_eq!(run(&["pipeline", "validate", "shop.yaml", "--jq", ".valid"]), "true\n");
    assert_eq!(run(&["whoami", "--jq", ".user.name | ascii_upcase"]), "ADA\n");
    let data = format!("--data-dir={}", cli.home.path().display());
    let checked = cli.run_words(&["admin", "doctor", &data, "--jq", ".[].check"]);
    assert!(checked.stdout.lines().any(|line| line == "root key"), "{checked:?}");
}

#[test]
fn invalid_jq_expression_is_refused_before_anything_happens() {
    let cli = CliFixture::new();
    let refused = cli.run_words(&["env", "claim", "qa-1", "--jq", ".id ("]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert_eq!(cli.run("env show qa-1 --jq .lockStatus").stdout, "unlocked\n");
    let failed = cli.run_words(&["env", "list", "--jq", ".data.name"]);
    assert!(failed.code == Some(1) && failed.stderr.starts_with("error: jq: "), "{failed:?}");
}
