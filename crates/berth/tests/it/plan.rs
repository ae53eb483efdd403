//! `berth pipeline plan` and `berth pipeline schema`, without a server.

use expect_test::{Expect, expect};

use crate::harness::{DEFINITION, run};

const FULL: &str = include_str!("../../../definition/tests/it/pipelines/full.yaml");

fn check(source: &str, args: &[&str], expected: &Expect) {
    let temp = tempfile::tempdir().expect("a directory");
    let file = temp.path().join("pipeline.yaml");
    std::fs::write(&file, source).expect("a file");
    let ran = run(&[&["pipeline", "plan", file.to_str().expect("a path")], args].concat());
    let shown = format!("{}{}exit {:?}", ran.stdout, ran.stderr, ran.code.expect("a code"));
    expected.assert_eq(&shown.replace(file.to_str().expect("a path"), "FILE"));
}

#[test]
fn plan_lists_stages_steps_and_inputs() {
    check(
        FULL,
        &[],
        &expect![[r#"
        build
          Build (build, script)
              param run: ./build.sh
        staging
          Deploy (deploy, script), on linux
              env IMAGE: [OUTPUT:build/image]
              env TOKEN: [SECRET:DEPLOY_TOKEN]
              file KUBECONFIG: [SECRET:KUBECONFIG_YAML]
              param run: ./deploy.sh
          Smoke test (smoke, http_check)
              param url: https://staging.shop.test/health
              param expect_status: 200
              param within: 60s
          Soak (soak, soak)
              param duration: 10m
        production
          Deploy (deploy, script), on linux
              env IMAGE: [OUTPUT:build/image]
              env TOKEN: [SECRET:DEPLOY_TOKEN]
              file KUBECONFIG: [SECRET:KUBECONFIG_YAML]
              param run: ./deploy.sh
          Soak (soak, soak)
              param duration: 10m
        exit 0"#]],
    );
    check(
        FULL,
        &["--environment", "qa-1", "--commit", "9fceb02"],
        &expect![[r#"
        build
          Build (build, script)
              param run: ./build.sh
        qa-1
          Deploy (deploy, script), on linux
              env IMAGE: [OUTPUT:build/image]
              env TOKEN: [SECRET:DEPLOY_TOKEN]
              file KUBECONFIG: [SECRET:KUBECONFIG_YAML]
              param run: ./deploy.sh
          Smoke test (smoke, http_check)
              param url: https://qa-1.shop.test/health
              param expect_status: 200
              param within: 60s
        exit 0"#]],
    );
    let several = DEFINITION.replace(
        "    - name: Pretend\n",
        "    - { name: One, type: dummy, if: trigger.commit == 'x', runs_on: [linux] }\n    - name: Two\n      type: dummy\n      needs: []\n    - { name: Three, type: dummy, needs: [one, two], outputs: [x], params: { message: \"${{ trigger.commit }}\\nand more\" } }\n    - name: Pretend\n      if: steps.three.x\n",
    );
    check(
        &several,
        &["--commit", "main"],
        &expect![[r#"
            sandbox
              One (one, dummy), skipped: condition is false, on linux
              Two (two, dummy), immediately
              Three (three, dummy), after one and two
                  param message: main …
              Pretend (pretend, dummy), if steps.three.x
            exit 0"#]],
    );
}

#[test]
fn plan_of_an_invalid_definition_is_an_error() {
    check(
        FULL,
        &["--environment", "qa-9"],
        &expect![[r#"
            error: cannot plan FILE: the definition has no environment `qa-9`
            exit 1"#]],
    );
    check(
        &DEFINITION.replace("type: dummy", "typ: dummy"),
        &[],
        &expect![[r#"
            error: `type` is missing
             --> FILE:7:7
              |
            7 |     - name: Pretend
              |       ^^^^^^^^^^^^^

            error: unknown field `typ`; did you mean `type`?
             --> FILE:8:7
              |
            8 |       typ: dummy
              |       ^^^

            FILE: invalid (2 errors, 0 warnings)
            exit 1"#]],
    );
    let ran = run(&["pipeline", "plan", "/nowhere/pipeline.yaml"]);
    ran.expect_refusal(&["cannot read /nowhere/pipeline.yaml"]);
}

#[test]
fn plan_and_schema_print_json() {
    let temp = tempfile::tempdir().expect("a directory");
    let file = temp.path().join("pipeline.yaml");
    std::fs::write(&file, FULL).unwrap();
    let plan = run(&["pipeline", "plan", file.to_str().expect("a path"), "--json"]).json();
    assert_eq!(plan["stages"][1]["steps"][0]["env"]["TOKEN"], "[SECRET:DEPLOY_TOKEN]");
    assert_eq!(plan["stages"][1]["steps"][1]["params"]["url"], "https://staging.shop.test/health");
    let schema = run(&["pipeline", "schema"]).json();
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
}
