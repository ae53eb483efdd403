//! Tests where expressions are allowed and what they may refer to.

use expect_test::expect;

use crate::{check_pipeline, check_step};

#[test]
fn expression_outside_evaluated_fields_is_refused() {
    check_pipeline(
        "tracks: \"${{ vars.branch }}\"\nstages: [{ name: a, vars: { b: \"${{ stage.name }}\" } }]",
        &expect![[r#"
            4:11: error: expressions work in `env`, `params` and `if` only; write the value itself [expression_not_allowed]
            5:34: error: expressions work in `env`, `params` and `if` only; write the value itself [expression_not_allowed]
        "#]],
    );
    check_step(
        "params: { run: a }\nenv: { A: \"${{ stage.name }\", B: \"${{ }}\", C: \"x ${{ stage.name }} y ${{ github.sha }}\" }",
        &expect![[r#"
            8:18: error: `${{` is never closed; add `}}` [bad_expression]
            8:45: error: the expression is empty [bad_expression]
            8:80: error: there is no `github` in expressions; there are stage, pipeline, organization, trigger, vars, build, steps, environment, session and secrets [unknown_context]
        "#]],
    );
}

#[test]
fn expression_in_shell_text_is_refused_with_a_rewrite() {
    check_step(
        "params:\n  run: |\n    set -e\n    ./deploy.sh \"${{ trigger.commit-id }}\"",
        &expect![[r#"
        10:24: error: `run` must not contain expressions, because their values would become shell code. Pass `trigger.commit-id` through the step's env: { COMMIT_ID: "${{ trigger.commit-id }}" } and write "$COMMIT_ID" in the script [expression_in_run]
    "#]],
    );
    check_step(
        "params: { run: \"echo ${{ format('{0}', stage.name) }} ${{\" }",
        &expect![[r#"
        7:28: error: `run` must not contain expressions, because their values would become shell code. Pass `…` through the step's env: { VALUE: "${{ … }}" } and write "$VALUE" in the script [expression_in_run]
    "#]],
    );
}

#[test]
fn variable_must_be_set_wherever_the_step_runs() {
    let stages = "stages: [{ name: a, vars: { url: x } }, { name: b }, { name: c, skip: [get] }]\nephemeral_environments: { qa: { vars: { urll: x } } }";
    let step = |reference: &str| {
        format!(
            "{stages}\nsteps:\n    - {{ name: Get, type: dummy, params: {{ message: \"${{{{ {reference} }}}}\" }} }}"
        )
    };
    check_pipeline(
        &step("vars.url"),
        &expect![[r#"
        7:57: error: `vars.url` is not set in stage `b` and environment `qa`; set it there, or skip the step `get` there [var_missing]
    "#]],
    );
    check_pipeline(
        &step("vars.uri"),
        &expect![[r#"
        7:57: error: no stage or environment sets `vars.uri`; did you mean `vars.url`? [unknown_var]
    "#]],
    );
    check_pipeline(
        &step("vars.other"),
        &expect![[r#"
        7:57: error: no stage or environment sets `vars.other`; there are vars.url and vars.urll [unknown_var]
    "#]],
    );
    check_pipeline(
        &step("vars"),
        &expect![[r#"
        7:57: error: `vars` must be followed by a name that is written out: `vars.<name>` [computed_reference]
    "#]],
    );
    check_pipeline(
        &step("vars[stage.name]"),
        &expect![[r#"
        7:57: error: `vars` must be followed by a name that is written out: `vars.<name>` [computed_reference]
    "#]],
    );
    check_pipeline(
        "stage_defaults: { vars: { url: x } }\nstages: [{ name: a }, { name: b }]\nsteps:\n    - { name: Get, type: dummy, params: { message: \"${{ vars.url }}\" } }",
        &expect![[""]],
    );
}

#[test]
fn output_must_be_declared_by_an_earlier_step() {
    let lines = |reference: &str| {
        format!(
            "build:\n    - {{ name: Make, type: dummy, outputs: [image] }}\nsteps:\n    - {{ name: First, type: dummy, outputs: [address] }}\n    - {{ name: Second, type: dummy, params: {{ message: \"${{{{ {reference} }}}}\" }} }}\n    - {{ name: Third, type: dummy, outputs: [late] }}"
        )
    };
    check_pipeline(&lines("build.image == steps.first.address"), &expect![[""]]);
    check_pipeline(
        &lines("build.imag"),
        &expect![[r#"
        8:60: error: no build step declares the output `imag`; did you mean `build.image`? [unknown_output]
    "#]],
    );
    check_pipeline(
        &lines("steps.frist.address"),
        &expect![[r#"
        8:60: error: there is no step `frist`; did you mean `steps.first.address`? [unknown_step]
    "#]],
    );
    check_pipeline(
        &lines("steps.first.adress"),
        &expect![[r#"
        8:60: error: the step `first` does not list `adress` in its `outputs`; did you mean `steps.first.address`? [unknown_output]
    "#]],
    );
    check_pipeline(
        &lines("steps.third.late"),
        &expect![[r#"
        8:60: error: the step `third` does not end before this one; add it to `needs` [not_before]
    "#]],
    );
    check_pipeline(
        &lines("steps.make.image"),
        &expect![[r#"
        8:60: error: `make` is a step of the build; its outputs are written `build.image` [unknown_step]
    "#]],
    );
    check_pipeline(
        &lines("steps.first"),
        &expect![[r#"
        8:60: error: `steps` must be followed by a name that is written out: `steps.<id>.<output>` [computed_reference]
    "#]],
    );
}

#[test]
fn build_cannot_refer_to_the_stage() {
    check_pipeline(
        "build:\n    - { name: A, type: dummy, outputs: [x] }\n    - { name: B, type: dummy, outputs: [x], params: { message: \"${{ vars.a }} ${{ build.x }} ${{ secrets.S }}\" } }",
        &expect![[r#"
            6:41: error: the build has an output `x` of the step `a` already; choose another name [duplicate_output]
            6:69: error: `vars` is not known in the build, which runs once for all stages [not_in_build]
        "#]],
    );
}

#[test]
fn output_of_a_skipped_step_is_a_warning() {
    check_pipeline(
        "stages: [{ name: a }, { name: b, skip: [first] }]\nsteps:\n    - { name: First, type: dummy, outputs: [x] }\n    - { name: Second, type: dummy, env: { X: \"${{ steps.first.x }}\" } }",
        &expect![[r#"
            7:51: warning: the step `first` is skipped in stage `b`, so this is empty there [output_of_skipped_step]
        "#]],
    );
}

#[test]
fn conditions_are_expressions_with_or_without_braces() {
    check_step("params: { run: a }\nif: stage.name == 'staging'", &expect![[""]]);
    check_step("params: { run: a }\nif: ${{ stage.name == 'staging' }}", &expect![[""]]);
    check_step("params: { run: a }\nif: true", &expect![[""]]);
    check_step(
        "params: { run: a }\nif: ${{ stage.name }} == ${{ 'a' }}",
        &expect![[r#"
        8:11: error: write the whole condition in one `${{ }}`, or without [bad_expression]
    "#]],
    );
    check_step(
        "params: { run: a }\nif: secrets.A == 'b'",
        &expect![[r#"
        8:11: error: a condition must not depend on a secret: whether the step runs would reveal it [secret_in_condition]
    "#]],
    );
    check_step(
        "params: { run: a }\nif: always()",
        &expect![[r#"
        8:11: error: status functions are not available: a step runs when all it needs succeeded, and `on_failure` of the stage says what happens otherwise [refused_function]
    "#]],
    );
    check_step(
        "params: { run: a }\nif: stage.name == \"a\"",
        &expect![[r#"
        8:25: error: text in an expression takes single quotes: 'like this' [bad_expression]
    "#]],
    );
}

#[test]
fn secret_name_must_be_literal() {
    check_step(
        "params: { run: a }\nenv: { A: \"${{ secrets[stage.name] }}\", B: \"${{ toJSON(secrets) }}\", C: \"${{ secrets['a-b'] }}\", D: \"${{ secrets.OK }}\" }",
        &expect![[r#"
            8:22: error: `secrets` must be followed by a name that is written out: `secrets.<NAME>` [computed_reference]
            8:62: error: `secrets` must be followed by a name that is written out: `secrets.<NAME>` [computed_reference]
            8:84: error: `a-b` is not a secret name; write `secrets.NAME` [invalid_name]
        "#]],
    );
}

#[test]
fn diagnostic_position_is_right_in_folded_and_escaped_text() {
    check_step(
        "params: { run: a }\nenv:\n  A: >-\n    one\n    ${{ vars.nope }}\n  B: \"\\u00fc ${{ vars.nope }} ${{ vars.\\u0061 }}\"",
        &expect![[r#"
            11:15: error: no stage or environment sets `vars.nope` [unknown_var]
            12:12: error: no stage or environment sets `vars.a` [unknown_var]
            12:24: error: no stage or environment sets `vars.nope` [unknown_var]
        "#]],
    );
}
