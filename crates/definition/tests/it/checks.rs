//! Tests the checks of steps, stages and environments, and of the references between them.

use expect_test::expect;

use crate::{check_pipeline, check_step};

#[test]
fn step_type_must_be_known_or_of_a_registry() {
    check_pipeline(
        "steps:\n    - { name: A, type: http_chek, params: { url: http://a.test } }",
        &expect![[r#"
            5:24: error: there is no step type `http_chek`; did you mean `http_check`? [unknown_step_type]
        "#]],
    );
    check_pipeline(
        "steps:\n    - { name: A, type: terraform }",
        &expect![[r#"
        5:24: error: the step type `terraform` is not available yet; use `script` instead [not_yet]
    "#]],
    );
    check_pipeline(
        "steps:\n    - { name: A, type: tools/deploy@v2, params: { anything: [goes] } }\n    - { name: B, type: 'custom:DEPLOY' }",
        &expect![[r#"
            5:24: warning: custom steps are only known to a server: this one and its params are not checked here [custom_step_unchecked]
            6:24: warning: custom steps are only known to a server: this one and its params are not checked here [custom_step_unchecked]
        "#]],
    );
    check_pipeline(
        "steps:\n    - { name: A }",
        &expect![[r#"
        5:7: error: `type` is missing [missing_field]
    "#]],
    );
}

#[test]
fn step_ids_derive_from_names_and_are_unique() {
    check_pipeline(
        "steps:\n    - { name: Do it, type: dummy }\n    - { name: Do it!, type: dummy }\n    - { name: C, id: do-it, type: dummy }",
        &expect![[r#"
            6:15: error: the id `do-it` is taken by the step `Do it`; give this one an `id` of its own [duplicate_step_id]
            7:22: error: the id `do-it` is taken by the step `Do it!`; give this one an `id` of its own [duplicate_step_id]
        "#]],
    );
    check_pipeline(
        "steps:\n    - { name: 🚀, type: dummy }\n    - { name: B, id: Bad Id, type: dummy }",
        &expect![[r#"
            5:7: error: no id can be made from this name; add an `id` of letters and digits [missing_field]
            6:22: error: `Bad Id` is not a step id; use 1 to 63 of a-z, 0-9, - and _, beginning with a letter or digit [invalid_name]
        "#]],
    );
    check_pipeline(
        "build:\n    - { name: A, type: dummy }\nsteps:\n    - { name: A, type: dummy }",
        &expect![[r#"
            7:15: error: the id `a` is taken by the step `A`; give this one an `id` of its own [duplicate_step_id]
        "#]],
    );
    check_pipeline(
        "stages: [{ name: a }, { name: a }]",
        &expect![[r#"
        4:33: error: there is already a stage `a` [duplicate_stage]
    "#]],
    );
    check_pipeline(
        "stages: [{ name: a }]\nephemeral_environments: { a: {} }",
        &expect![[r#"
        5:32: error: there is a stage `a`: an ephemeral environment needs another name [duplicate_stage]
    "#]],
    );
}

#[test]
fn needs_and_skip_must_name_existing_steps() {
    check_pipeline(
        "stages: [{ name: a, skip: [depoy, build-it] }]\nbuild:\n    - { name: Build it, type: dummy }\nsteps:\n    - { name: Deploy, type: dummy, needs: [build-it] }\n    - { name: B, type: dummy, needs: [deplyo] }",
        &expect![[r#"
            4:30: error: there is no step `depoy` to skip; did you mean `deploy`? [unknown_step]
            4:37: error: `build-it` is part of the build, which no stage runs; remove it [unknown_step]
            8:44: error: `build-it` is not in the same part: the build always finishes before any stage starts, so remove it [unknown_step]
            9:39: error: there is no step `deplyo`; did you mean `deploy`? [unknown_step]
        "#]],
    );
}

#[test]
fn dependency_cycle_is_reported_with_its_steps() {
    check_pipeline(
        "steps:\n    - { name: A, type: dummy, needs: [c] }\n    - { name: B, type: dummy }\n    - { name: C, type: dummy }\n    - { name: D, type: dummy, needs: [d] }\n    - { name: E, type: dummy, needs: [a] }",
        &expect![[r#"
            5:31: error: these steps wait for each other: a → c → b → a; remove one of the needs [cycle]
            8:31: error: the step `d` waits for itself; remove it from `needs` [cycle]
        "#]],
    );
}

#[test]
fn artifact_must_be_produced_before_it_is_needed() {
    check_pipeline(
        "build:\n    - { name: B, type: dummy, artifacts: { site: { path: dist } } }\nsteps:\n    - { name: A, type: dummy, needs_artifacts: [site, sites, report] }\n    - { name: C, type: dummy, artifacts: { report: { path: r }, site: { path: s } } }\n    - { name: D, type: dummy, needs_artifacts: [report] }",
        &expect![[r#"
            7:55: error: no step makes the artifact `sites`; did you mean `site`? [unknown_artifact]
            7:62: error: the artifact `report` is made by the step `c`, which does not end before this one; add it to `needs` [not_before]
            8:65: error: the artifact `site` is made by the step `b` already; choose another name [duplicate_artifact]
        "#]],
    );
    check_step(
        "params: { run: a }\nartifacts: { a: { path: /etc }, b: { path: ../x }, c: {}, 1: { path: x } }",
        &expect![[r#"
            8:31: error: `/etc` must be a path inside the workspace, like `dist/` [bad_path]
            8:50: error: `../x` must be a path inside the workspace, like `dist/` [bad_path]
            8:58: error: `path` is missing [missing_field]
            8:65: error: `1` is not an artifact name; use 1 to 63 letters, digits, _ and -, beginning with a letter or _ [invalid_name]
        "#]],
    );
}

#[test]
fn invalid_params_are_reported_at_their_position() {
    check_pipeline(
        "steps:\n    - name: A\n      type: http_check\n      params:\n        url: ftp://a\n        expect_status: [200]\n        wihtin: 5m",
        &expect![[r#"
            8:14: error: must be a URL that begins with http:// or https:// (step type `http_check`) [bad_url]
            9:24: error: expected a whole number, found a list (step type `http_check`) [wrong_type]
            10:9: error: unknown param `wihtin`; did you mean `within`? (step type `http_check`) [unknown_param]
        "#]],
    );
    check_pipeline(
        "steps:\n    - { name: A, type: soak }\n    - { name: B, type: wait_for, params: { every: 1s } }",
        &expect![[r#"
            5:18: error: the param `duration` is missing (step type `soak`) [missing_param]
            6:34: error: give exactly one of `run` and `url` (step type `wait_for`) [bad_param]
        "#]],
    );
    check_pipeline(
        "steps:\n    - { name: A, type: approval, params: { from: [admin, unknown] } }",
        &expect![[r#"
            5:58: error: must be a role (viewer, deployer, admin, owner) or an e-mail address (step type `approval`) [unknown_value]
        "#]],
    );
}

#[test]
fn windows_are_checked() {
    check_pipeline(
        "stage_defaults: { window: { timezone: Mars/Phobos, days: [monday], hours: 09:00-17:00, except: [2026-12-24, 2026-02-30] } }",
        &expect![[r#"
            4:41: error: `Mars/Phobos` is not a time zone; write a name of the IANA database like Europe/Vienna or UTC [unknown_timezone]
            4:61: error: `monday` is not known here; did you mean `mon`? [unknown_value]
            4:111: error: `2026-02-30` is not a date or range of dates; write 2026-12-24 or 2026-12-24/2027-01-01 [bad_window]
        "#]],
    );
    check_pipeline(
        "stages: [{ name: a, window: { days: [] } }]",
        &expect![[r#"
            4:23: error: `timezone` is missing [missing_field]
        "#]],
    );
    check_pipeline(
        "stages: [{ name: a, window: { timezone: UTC, days: [mon], except: [2026-01-01/9999-12-31] } }]",
        &expect![[r#"
            4:69: error: these dates leave no day on which the window would open; end the last range earlier [bad_window]
        "#]],
    );
}

#[test]
fn approval_rule_that_cannot_be_fulfilled_is_an_error() {
    check_pipeline(
        "stage_defaults: { requires: { approvals: 3, from: [a@acme.test, b@acme.test, A@acme.test] } }",
        &expect![[r#"
            4:44: error: 3 approvals are required, but `from` names only 2; name more people, or require fewer approvals [unfulfillable]
        "#]],
    );
    check_pipeline(
        "stages: [{ name: a, requires: { approvals: 3, from: [a@acme.test, admin] } }]",
        &expect![[""]],
    );
    check_pipeline(
        "steps:\n    - { name: A, type: approval, params: { approvals: 2, from: [a@acme.test] } }",
        &expect![[r#"
            5:42: error: 2 approvals are required, but `from` names only 1; name more people, or require fewer approvals [unfulfillable]
        "#]],
    );
}

#[test]
fn requirements_are_checked() {
    check_pipeline(
        "stages: [{ name: a, requires: { approvals: 21, from: [owner, boss], timeout: soon } }]",
        &expect![[r#"
            4:46: error: must be a whole number from 1 to 20 [out_of_range]
            4:64: error: `boss` is neither a role, a team (team:NAME) nor an e-mail address; there are member, viewer, tester, approver, deployer, admin and owner [unknown_value]
            4:80: error: `soon` is not a duration; write it like 30s, 10m, 24h, 7d or 1h30m [bad_duration]
        "#]],
    );
    check_pipeline(
        "stages: [{ name: a, requires: { approvals: two, self_approval: no }, on_failure: rolback }]",
        &expect![[r#"
            4:46: error: expected a whole number, found the text `two` [wrong_type]
            4:66: error: expected `true` or `false`, found the text `no` [wrong_type]
            4:84: error: `rolback` is not known here; did you mean `rollback`? [unknown_value]
        "#]],
    );
}

#[test]
fn invalid_and_reserved_variable_names_are_refused() {
    check_step(
        "params: { run: a }\nenv: { 1A: x, BERTH_X: x, LD_PRELOAD: x, PATH: x, NODE_OPTIONS: x, BASH_ENV: x, GIT_DIR: x, OK: 1.10 }",
        &expect![[r#"
            8:14: error: `1A` is not an environment variable name; use 1 to 63 letters, digits and _, beginning with a letter or _ [invalid_name]
            8:21: error: the variable `BERTH_X` is reserved: it could change what runs. Choose another name [reserved_env_name]
            8:33: error: the variable `LD_PRELOAD` is reserved: it could change what runs. Choose another name [reserved_env_name]
            8:48: error: the variable `PATH` is reserved: it could change what runs. Choose another name [reserved_env_name]
            8:57: error: the variable `NODE_OPTIONS` is reserved: it could change what runs. Choose another name [reserved_env_name]
            8:74: error: the variable `BASH_ENV` is reserved: it could change what runs. Choose another name [reserved_env_name]
            8:87: error: the variable `GIT_DIR` is reserved: it could change what runs. Choose another name [reserved_env_name]
        "#]],
    );
    check_step(
        "params: { run: a }\nsecret_files: { GIT_ASKPASS: A, KEY: not-a-name }",
        &expect![[r#"
        8:23: error: the variable `GIT_ASKPASS` is reserved: it could change what runs. Choose another name [reserved_env_name]
        8:44: error: `not-a-name` is not a secret name; use 1 to 128 letters, digits and _, beginning with a letter or _ [invalid_name]
    "#]],
    );
    check_step(
        "params: { run: a }\nenv: { A: x }\nid_token: { audience: 'a b', file: PATH, ttl: 1h }",
        &expect![[r#"
            9:29: error: `a b` must be the name or URL of one service, at most 255 characters without spaces [bad_audience]
            9:42: error: the variable `PATH` is reserved: it could change what runs. Choose another name [reserved_env_name]
            9:48: error: unknown field `ttl`; there are audience and file [unknown_field]
        "#]],
    );
    check_step(
        "params: { run: a }\nenv: { A: x }\nid_token: { audience: \"${{ vars.a }}\", file: A }",
        &expect![[r#"
            9:29: error: expressions work in `env`, `params` and `if` only; write the value itself [expression_not_allowed]
        "#]],
    );
    check_step(
        "params: { run: a }\nenv: { A: x }\nid_token: { audience: sts.example, file: A }",
        &expect![[r#"
            9:48: error: the variable `A` is also set in `env` or `secret_files`; choose another name [duplicate_variable]
        "#]],
    );
    check_pipeline(
        "stages: [{ name: a, vars: { 'a b': x, list: [1], ok: true } }]",
        &expect![[r#"
        4:31: error: `a b` is not a variable name; use 1 to 63 letters, digits, _ and -, beginning with a letter or _ [invalid_name]
        4:47: error: expected text, a number, `true` or `false`, found a list [wrong_type]
    "#]],
    );
}

#[test]
fn environments_are_checked() {
    check_pipeline(
        "ephemeral_environments: { Qa: {}, qa-1: , qa-2: { triggers: [{ on: push }, { on: api, target_branches: [a] }], release: [{ on: timeout }, { on: pr_closed, after_idle: 1h }], labels: ['-'] } }",
        &expect![[r#"
            4:29: error: the environment name `Qa` must be 1 to 63 characters of a-z, 0-9 and -, beginning and ending with a letter or digit [invalid_name]
            4:70: error: `push` is not known here; there are api and pull_request [unknown_value]
            4:89: error: `target_branches` is only allowed with `on: pull_request`; remove it [unknown_field]
            4:124: error: `after_idle` is missing [missing_field]
            4:158: error: `after_idle` is only allowed with `on: timeout`; remove it [unknown_field]
            4:186: error: `-` is not a label; use 1 to 63 letters, digits, ., _ and -, beginning with a letter or digit [invalid_name]
        "#]],
    );
    check_pipeline(
        "ephemeral_environments: { qa-1: { triggers: [{ on: api, when: {} }, { on: pull_request, when: { draft: no, label: a, labels: [[]] } }] } }",
        &expect![[r#"
            4:59: error: `when` is only allowed with `on: pull_request`; remove it [unknown_field]
            4:106: error: expected `true` or `false`, found the text `no` [wrong_type]
            4:110: error: unknown field `label`; did you mean `labels`? [unknown_field]
            4:129: error: expected text, found a list [wrong_type]
        "#]],
    );
    check_pipeline(
        "ephemeral_environments: { qa-1: { on_release: deploy_tracked } }",
        &expect![[r#"
        4:49: error: `deploy_tracked` needs a branch to deploy; add `tracks` to the pipeline [missing_field]
    "#]],
    );
    check_pipeline(
        "ephemeral_environments: { qa-1: { queue: { order: class, ageing: 30m } }, qa-2: { queue: { ageing: 30m } }, qa-3: { queue: { order: age } }, qa-4: { queue: { order: class, ageing: 30s } } }",
        &expect![[r#"
            4:94: error: `ageing` is only allowed with `order: class`; remove it [unknown_field]
            4:135: error: `age` is not known here; there are arrival and class [unknown_value]
            4:183: error: must be from 1m to 366d [bad_duration]
        "#]],
    );
}
