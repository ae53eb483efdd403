//! Tests how a definition is reduced to one stage or environment, and to some of its steps, for a local run.

use berth_definition::local_run::{
    LocalDefinition, LocalRunError, LocalTarget, LocalTargetChoice, reduce_to_target,
};
use berth_definition::parse;

use crate::pipeline_source;

const SHOP: &str = "build:
  - { name: Build, id: build, type: script, params: { run: make }, outputs: [image], env: { K: '${{ secrets.BUILD_KEY }}' } }
stage_defaults: { window: { timezone: UTC, days: [mon] } }
stages:
  - { name: staging, skip: [wipe] }
  - { name: production, requires: { approvals: 2 }, on_failure: rollback }
steps:
  - { name: Deploy, id: deploy, type: script, params: { run: ./deploy }, runs_on: [gpu], env: { I: '${{ build.image }}' } }
  - { name: Ask, id: ask, type: approval }
  - { name: Wait, id: wait, type: soak, params: { duration: 1h } }
  - { name: Smoke, id: smoke, type: script, params: { run: ./smoke }, env: { T: '${{ secrets.SMOKE }}' } }
  - { name: Wipe, id: wipe, type: tools/wipe }
ephemeral_environments: { qa-1: { ttl: 2h, skip: [wipe] } }";

fn reduce_shop(wanted: LocalTargetChoice<'_>, steps: &[&str]) -> Result<LocalDefinition, LocalRunError> {
    let parsed = parse(&pipeline_source(SHOP));
    let definition = parsed.definition.unwrap_or_else(|| panic!("{:?}", parsed.diagnostics));
    let steps: Vec<String> = steps.iter().map(ToString::to_string).collect();
    reduce_to_target(definition, wanted, &steps)
}

fn expect_refusal(wanted: LocalTargetChoice<'_>, steps: &[&str]) -> String {
    reduce_shop(wanted, steps).expect_err("refused").to_string()
}

fn secret_names(alone: &LocalDefinition) -> Vec<String> {
    alone.secrets().iter().map(ToString::to_string).collect()
}

#[test]
fn local_run_uses_the_first_stage_and_reports_omitted_waiting_steps() {
    let staging = reduce_shop(LocalTargetChoice::Any, &[]).expect("it can be run");
    assert_eq!(staging.place, LocalTarget::Stage("staging".into()));
    assert_eq!(
        staging.notes,
        [
            "staging has a window: it is always open here",
            "the step ask is left out: approvals are not requested here",
            "the step wait is left out: nothing is waited for here",
        ]
    );
    let [stage] = staging.definition.stages.as_slice() else { panic!("one stage") };
    assert_eq!((&stage.window, stage.skip.len()), (&None, 3));
    assert!(staging.definition.ephemeral_environments.is_empty());
    assert!(staging.definition.steps.iter().all(|step| step.runs_on.is_empty()));
    assert_eq!(secret_names(&staging), ["BUILD_KEY", "SMOKE"]);
}

#[test]
fn local_run_omits_and_reports_approvals_and_rollback() {
    let production = reduce_shop(LocalTargetChoice::Stage("production"), &["deploy"]).expect("it can be run");
    assert_eq!(
        production.notes,
        [
            "production asks for 2 approvals: approvals are not requested here",
            "production has a window: it is always open here",
            "production is rolled back when it fails: nothing is here",
        ]
    );
}

#[test]
fn local_run_of_an_environment_has_no_stages_and_no_ttl() {
    let qa = reduce_shop(LocalTargetChoice::Environment("qa-1"), &[]).expect("it can be run");
    assert_eq!(qa.place, LocalTarget::Environment("qa-1".into()));
    assert!(qa.definition.stages.is_empty());
    assert!(qa.definition.ephemeral_environments.values().all(|it| it.ttl.is_none()));
}

#[test]
fn local_run_of_selected_steps_includes_the_build_they_use() {
    let smoke = reduce_shop(LocalTargetChoice::Any, &["smoke"]).expect("it can be run");
    assert_eq!(secret_names(&smoke), ["SMOKE"], "nothing is built for it");
    let deploy = reduce_shop(LocalTargetChoice::Any, &["deploy"]).expect("it can be run");
    assert_eq!(secret_names(&deploy), ["BUILD_KEY"]);
    let build = reduce_shop(LocalTargetChoice::Any, &["build"]).expect("it can be run");
    assert_eq!(secret_names(&build), ["BUILD_KEY"]);
}

#[test]
fn local_run_of_an_unknown_name_suggests_a_similar_one() {
    assert_eq!(
        expect_refusal(LocalTargetChoice::Stage("stagin"), &[]),
        "there is no stage `stagin`; did you mean `staging`?"
    );
    assert_eq!(
        expect_refusal(LocalTargetChoice::Stage("qa-1"), &[]),
        "`qa-1` is an environment, not a stage: run it with `--env qa-1`"
    );
    assert_eq!(
        expect_refusal(LocalTargetChoice::Environment("qa-7"), &[]),
        "there is no environment `qa-7`; did you mean `qa-1`?"
    );
    assert_eq!(
        expect_refusal(LocalTargetChoice::Any, &["smok"]),
        "there is no step `smok`; did you mean `smoke`?"
    );
    assert_eq!(expect_refusal(LocalTargetChoice::Any, &["wipe"]), "staging skips the step `wipe`");
}

#[test]
fn local_run_refuses_custom_steps() {
    let told = expect_refusal(LocalTargetChoice::Stage("production"), &[]);
    assert!(told.starts_with("the step wipe is from a registry, which only a server has"), "{told}");
}
