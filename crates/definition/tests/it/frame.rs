//! Tests YAML syntax, fields, types and limits.

use berth_core::pipeline::limits::{ENVIRONMENTS_MAX, STAGES_MAX, STEPS_MAX};
use berth_definition::parse;
use expect_test::expect;

use crate::{check_diagnostics, check_pipeline, check_step, list_diagnostics, pipeline_source};

#[test]
fn file_structure_and_version_are_checked() {
    check_diagnostics(
        "",
        &expect![[r#"
        1:1: error: the definition is empty; it begins with `version: 1` [empty]
    "#]],
    );
    check_diagnostics(
        "# nothing\n",
        &expect![[r#"
        1:1: error: the definition is empty; it begins with `version: 1` [empty]
    "#]],
    );
    check_diagnostics(
        "- a\n",
        &expect![[r#"
        1:1: error: expected a mapping, found a list [wrong_type]
    "#]],
    );
    check_diagnostics(
        "version: 2\n",
        &expect![[r#"
        1:1: error: `pipeline` is missing [missing_field]
        1:10: error: this version of the format is unknown; write `version: 1` [unsupported_version]
    "#]],
    );
    check_diagnostics(
        "version: \"1\"\npipeline: {}\n",
        &expect![[r#"
        1:10: error: this version of the format is unknown; write `version: 1` [unsupported_version]
        2:1: error: `name` is missing [missing_field]
        2:1: error: there is nothing to do; add at least one step under `steps` [no_steps]
        2:1: error: there is nowhere to deploy to; add `stages` or `ephemeral_environments` [nothing_to_deploy_to]
    "#]],
    );
    check_diagnostics(
        "version: 1\npipeline:\n",
        &expect![[r#"
        2:1: error: `pipeline` is empty; give it a value or remove it [wrong_type]
    "#]],
    );
    check_diagnostics(
        "version: 1\npipeline: { name: A, stages: [], steps: [] }\n",
        &expect![[r#"
        2:1: error: there is nothing to do; add at least one step under `steps` [no_steps]
        2:22: error: `stages` is empty; there is nowhere to deploy to [nothing_to_deploy_to]
    "#]],
    );
    check_diagnostics(
        "version: 1\npipeline: { name: A, stages: [{ name: a }] }\njobs: {}\n",
        &expect![[r#"
        2:1: error: there is nothing to do; add at least one step under `steps` [no_steps]
        3:1: error: unknown field `jobs`; there are version and pipeline [unknown_field]
    "#]],
    );
}

#[test]
fn invalid_yaml_is_reported_with_advice() {
    check_diagnostics(
        "version: 1\npipeline: [\n",
        &expect![[r#"
        2:11: error: this is not valid YAML: unclosed bracket '[' [invalid_yaml]
    "#]],
    );
    check_diagnostics(
        "version: 1\n\tpipeline: a\n",
        &expect![[r#"
        1:10: error: this is not valid YAML: while scanning a plain scalar, found a tab. Use spaces instead of tabs [invalid_yaml]
    "#]],
    );
    check_diagnostics(
        "env: { IMAGE: ${{ build.image }} }\n",
        &expect![[r#"
        1:16: error: this is not valid YAML: while parsing a flow mapping, did not find expected ',' or '}'. Put quotes around values with expressions: "${{ … }}" [invalid_yaml]
    "#]],
    );
    check_diagnostics(
        "a: \"b\n",
        &expect![[r#"
        2:1: error: this is not valid YAML: invalid indentation in multiline quoted scalar [invalid_yaml]
    "#]],
    );
    check_diagnostics(
        "a: 1\n---\nb: 2\n",
        &expect![[r#"
        2:1: error: a second document begins here; a file holds exactly one pipeline [several_documents]
    "#]],
    );
    check_diagnostics(
        "%YAML 1.2\n---\nversion: 1\n",
        &expect![[r#"
        1:1: error: this is not valid YAML: YAML directives are disallowed [invalid_yaml]
    "#]],
    );
    check_diagnostics(
        "a: \u{0}b\n",
        &expect![[r#"
        1:4: error: the control character U+0000 is not allowed; remove it [control_character]
    "#]],
    );
    check_diagnostics(
        "version: 1\npipeline: { name: \"a\\0b\", stages: [{ name: a }], steps: [{ name: b, type: dummy }] }\n",
        &expect![[r#"
            2:19: error: the control character U+0000 is not allowed; remove it [control_character]
            2:19: error: `a b` must be 1 to 120 printable characters on one line [invalid_name]
        "#]],
    );
}

#[test]
fn yaml_tags_duplicate_merge_and_complex_keys_are_refused() {
    check_pipeline(
        "tracks: !!str main",
        &expect![[r#"
        4:17: error: the tag `!!str` is not allowed; write the value without it [tag_not_allowed]
    "#]],
    );
    check_pipeline(
        "paths: !include [a]",
        &expect![[r#"
        4:19: error: the tag `!include` is not allowed; write the value without it [tag_not_allowed]
    "#]],
    );
    check_pipeline(
        "tracks: main\ntracks: main",
        &expect![[r#"
        5:3: error: `tracks` is given twice; keep one of them [duplicate_key]
    "#]],
    );
    check_pipeline(
        "stages: [&a { name: a }, { <<: *a, name: b }]",
        &expect![[r#"
        4:30: error: merge keys are not supported; write the fields out, or use an alias for a whole value [merge_key]
    "#]],
    );
    check_pipeline(
        "analysis: { [a, b]: true, ~: false }",
        &expect![[r#"
        4:15: error: a key must be a plain word; quote it if it is meant as text [bad_key]
        4:29: error: a key must be a plain word; quote it if it is meant as text [bad_key]
    "#]],
    );
    check_pipeline(
        "tracks: *main",
        &expect![[r#"
        4:11: error: there is no anchor `&main` above this alias [unknown_alias]
    "#]],
    );
}

#[test]
fn alias_stands_for_its_whole_value() {
    let source = pipeline_source("stages: [{ name: a, vars: &v { url: x } }, { name: b, vars: *v }]");
    let definition = parse(&source).definition.expect("no errors");
    assert_eq!(definition.stages[0].vars, definition.stages[1].vars);
}

#[test]
fn unknown_and_reserved_fields_are_refused() {
    check_pipeline(
        "stagess: []\ntrack: main\nzzz: 1",
        &expect![[r#"
        4:3: error: unknown field `stagess`; did you mean `stages`? [unknown_field]
        5:3: error: unknown field `track`; did you mean `tracks`? [unknown_field]
        6:3: error: unknown field `zzz`; there are name, tracks, paths, build, stage_defaults, stages, steps, ephemeral_environments, analysis and notifications [unknown_field]
    "#]],
    );
    check_pipeline(
        "schedule: daily\ninputs: {}\ninclude: a\ncache: {}",
        &expect![[r#"
        4:3: error: `schedule` is reserved and does not work yet; remove it [not_yet]
        5:3: error: `inputs` is reserved and does not work yet; remove it [not_yet]
        6:3: error: `include` is reserved and does not work yet; remove it [not_yet]
        7:3: error: `cache` is reserved and does not work yet; remove it [not_yet]
    "#]],
    );
    check_pipeline(
        "stages: [{ name: a, parallel: true }]",
        &expect![[r#"
        4:23: error: `parallel` is reserved and does not work yet; remove it [not_yet]
    "#]],
    );
}

#[test]
fn wrong_type_is_reported_with_expected_and_found() {
    check_pipeline(
        "paths: src/**",
        &expect![[r#"
        4:10: error: expected a list of globs, found the text `src/**` [wrong_type]
    "#]],
    );
    check_pipeline(
        "paths: [1, { a: b }]",
        &expect![[r#"
        4:11: error: expected text, found the number `1` [wrong_type]
        4:14: error: expected text, found a mapping [wrong_type]
    "#]],
    );
    check_pipeline(
        "analysis: { on_failure: yes }",
        &expect![[r#"
        4:27: error: expected `true` or `false`, found the text `yes` [wrong_type]
    "#]],
    );
    check_pipeline(
        "tracks:",
        &expect![[r#"
        4:3: error: `tracks` is empty; give it a value or remove it [wrong_type]
    "#]],
    );
    check_pipeline(
        "stages: { a: b }",
        &expect![[r#"
        4:11: error: expected a list of stages, found a mapping [wrong_type]
    "#]],
    );
    check_pipeline(
        "stages: [production]",
        &expect![[r#"
        4:12: error: expected a mapping, found the text `production` [wrong_type]
    "#]],
    );
    check_step(
        "params: [a]",
        &expect![[r#"
        7:15: error: expected a mapping of params, found a list [wrong_type]
    "#]],
    );
    check_step(
        "env: { A: [1] }\nparams: { run: a }",
        &expect![[r#"
        7:17: error: expected text, found a list [wrong_type]
    "#]],
    );
}

#[test]
fn branches_and_globs_are_checked() {
    check_pipeline(
        "tracks: --upload-pack=x",
        &expect![[r#"
        4:11: error: `--upload-pack=x` is not a branch name [invalid_name]
    "#]],
    );
    check_pipeline(
        "paths: ['services/**', '/abs', '{a', '']",
        &expect![[r#"
        4:26: error: a glob is matched against paths from the root of the repository, like `services/shop/**` [bad_glob]
        4:34: error: `{a` is not a valid glob: unclosed alternate group; missing '}' (maybe escape '{' with '[{]'?) [bad_glob]
        4:40: error: a glob is matched against paths from the root of the repository, like `services/shop/**` [bad_glob]
    "#]],
    );
}

#[test]
fn durations_are_bounded() {
    check_step(
        "params: { run: a }\ntimeout: 0s",
        &expect![[r#"
        8:16: error: must be from 1s to 7d [bad_duration]
    "#]],
    );
    check_step(
        "params: { run: a }\ntimeout: 8d",
        &expect![[r#"
        8:16: error: must be from 1s to 7d [bad_duration]
    "#]],
    );
    check_step(
        "params: { run: a }\nretry: { attempts: 2, backoff: 2h }",
        &expect![[r#"
        8:38: error: must be from 0s to 1h [bad_duration]
    "#]],
    );
    check_step(
        "params: { run: a }\nretry: { backoff: 5s }",
        &expect![[r#"
        8:7: error: `attempts` is missing [missing_field]
    "#]],
    );
    check_pipeline(
        "ephemeral_environments: { a: { ttl: 400d } }",
        &expect![[r#"
        4:39: error: `400d` is longer than the 366 days a duration can be [bad_duration]
    "#]],
    );
}

#[test]
fn list_lengths_are_refused_above_the_limit_only() {
    let stages = |count: usize| {
        let names: String = (0..count).map(|index| format!("{{ name: s{index} }},")).collect();
        pipeline_source(&format!("stages: [{names}]"))
    };
    assert_eq!(list_diagnostics(&stages(STAGES_MAX)), "");
    check_diagnostics(
        &stages(STAGES_MAX + 1),
        &expect![[r#"
        4:3: error: 101 stages, but at most 100 are allowed [too_many]
    "#]],
    );
    let steps = |count: usize| {
        let steps: String = (0..count).map(|index| format!("{{ name: s{index}, type: dummy }},")).collect();
        pipeline_source(&format!("steps: [{steps}]"))
    };
    assert_eq!(list_diagnostics(&steps(STEPS_MAX)), "");
    check_diagnostics(
        &steps(STEPS_MAX + 1),
        &expect![[r#"
        4:3: error: 501 steps, but at most 500 are allowed [too_many]
    "#]],
    );
    let environments = |count: usize| {
        let names: String = (0..count).map(|index| format!("e{index}: {{}},")).collect();
        pipeline_source(&format!("ephemeral_environments: {{{names}}}"))
    };
    assert_eq!(list_diagnostics(&environments(ENVIRONMENTS_MAX)), "");
    check_diagnostics(
        &environments(ENVIRONMENTS_MAX + 1),
        &expect![[r#"
        4:3: error: 201 environments, but at most 200 are allowed [too_many]
    "#]],
    );
}
