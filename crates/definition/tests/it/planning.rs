//! Tests the plans that are made from definitions.

use std::fmt::Write as _;

use berth_core::deployment::run::{Plan, Run, StepActivation, StepRun, StepRunStatus, secrets_used};
use berth_core::id::{DeploymentId, PipelineId, StepRunId};
use berth_core::name::EnvName;
use berth_core::registry::AvailableSteps;
use berth_core::step::NetworkAccess;
use berth_core::time::Timestamp;
use berth_definition::parse;
use berth_definition::planning::{EntityNames, PlanInputs, PlanTarget, obstacles, plan, preview};
use expect_test::{Expect, expect};
use serde_json::json;

use crate::pipeline_source;

pub(crate) fn plan_inputs() -> PlanInputs {
    let named =
        |id: &str, name: &str| EntityNames { id: id.into(), slug: name.to_lowercase(), name: name.into() };
    PlanInputs {
        organization: named("org_1", "Acme"),
        pipeline: named("pl_1", "Shop"),
        commit: "9fceb02".into(),
        source: None,
        trigger: json!({ "kind": "manual" }).as_object().cloned().unwrap_or_default(),
        session: json!({ "id": "ses_1", "holder": "ada@acme.test" }).as_object().cloned(),
        environment: json!({ "id": "env_1" }).as_object().cloned(),
        default_network: NetworkAccess::Host,
        offers: AvailableSteps::new(),
    }
}

/// Plans the pipeline. `target` is `all` for the stages, or the name of an environment.
pub(crate) fn make_plan(lines: &str, target: &str) -> Result<Plan, String> {
    let source = pipeline_source(lines);
    let parsed = parse(&source);
    let definition = parsed.definition.unwrap_or_else(|| panic!("{:?}", parsed.diagnostics));
    let environment = EnvName::parse(target).expect("a name");
    let target = if target == "all" { PlanTarget::Stages } else { PlanTarget::Environment(&environment) };
    plan(&definition, &target, &plan_inputs())
        .map_err(|failure| format!("{}: {}", failure.cause.as_str(), failure.detail))
}

/// Formats one line per step: position, needs, and condition.
fn render_plan(plan: &Plan) -> String {
    let mut text = String::new();
    for stage in &plan.stages {
        let _ = writeln!(text, "{} ({:?}) vars {}", stage.name, stage.kind, stage.contexts["vars"]);
        for (index, step) in stage.steps.iter().enumerate() {
            let kind = String::from(step.kind.clone());
            let when = match &step.when {
                StepActivation::Always => String::new(),
                StepActivation::Never => " never".into(),
                StepActivation::If(condition) => format!(" if {condition}"),
            };
            let _ = writeln!(text, "  {index} {} {kind} needs {:?}{when}", step.id, step.needs);
        }
    }
    text
}

fn check_plan(lines: &str, target: &str, expected: &Expect) {
    expected.assert_eq(&make_plan(lines, target).map_or_else(|error| error, |plan| render_plan(&plan)));
}

#[test]
fn plan_has_the_build_and_then_every_stage_in_order() {
    let lines = "build: [{ name: Compile, type: dummy }, { name: Pack, type: dummy, needs: [] }]
stages: [{ name: staging, vars: { n: 1 } }, { name: production, vars: { n: 2 } }]
ephemeral_environments: { qa-1: { vars: { n: 3 } } }
steps:
    - { name: A, type: dummy }
    - { name: B, type: dummy }
    - { name: C, type: dummy, needs: [a] }
    - { name: D, type: dummy, needs: [b, c] }";
    check_plan(
        lines,
        "all",
        &expect![[r#"
        build (Build) vars {}
          0 compile dummy needs []
          1 pack dummy needs []
        staging (Stage) vars {"n":1}
          0 a dummy needs []
          1 b dummy needs [0]
          2 c dummy needs [0]
          3 d dummy needs [1, 2]
        production (Stage) vars {"n":2}
          0 a dummy needs []
          1 b dummy needs [0]
          2 c dummy needs [0]
          3 d dummy needs [1, 2]
    "#]],
    );
    check_plan(
        lines,
        "qa-1",
        &expect![[r#"
        build (Build) vars {}
          0 compile dummy needs []
          1 pack dummy needs []
        qa-1 (Environment) vars {"n":3}
          0 a dummy needs []
          1 b dummy needs [0]
          2 c dummy needs [0]
          3 d dummy needs [1, 2]
    "#]],
    );
    check_plan(lines, "qa-2", &expect!["not_runnable: the definition has no environment `qa-2`"]);
    check_plan(
        "build: [{ name: Compile, type: dummy }]\nstages: [{ name: build }]",
        "all",
        &expect![
            "not_runnable: `build` is the name of the build itself; give the stage or environment another one"
        ],
    );
    check_plan(
        "ephemeral_environments: { qa-1: }",
        "all",
        &expect!["not_runnable: the definition has no stages; name one of its environments"],
    );
}

#[test]
fn skipped_step_passes_its_needs_on() {
    let lines = "stages: [{ name: a, skip: [two, three] }, { name: b, skip: [one, two, three, four] }, { name: c, skip: [one] }]
steps:
    - { name: One, type: dummy }
    - { name: Two, type: dummy }
    - { name: Three, type: dummy }
    - { name: Four, type: dummy }
    - { name: Five, type: dummy, needs: [two, three, one] }
    - { name: Six, type: dummy, needs: [seven] }
    - { name: Seven, type: dummy, needs: [three] }";
    check_plan(
        lines,
        "all",
        &expect![[r#"
        a (Stage) vars {}
          0 one dummy needs []
          1 four dummy needs [0]
          2 five dummy needs [0]
          3 six dummy needs [4]
          4 seven dummy needs [0]
        b (Stage) vars {}
          0 five dummy needs []
          1 six dummy needs [2]
          2 seven dummy needs []
        c (Stage) vars {}
          0 two dummy needs []
          1 three dummy needs [0]
          2 four dummy needs [1]
          3 five dummy needs [0, 1]
          4 six dummy needs [5]
          5 seven dummy needs [1]
    "#]],
    );
}

#[test]
fn condition_is_decided_once_all_its_values_are_known() {
    let lines = "build: [{ name: Compile, type: dummy, outputs: [image] }]
stages: [{ name: staging }, { name: production }]
ephemeral_environments: { qa-1: }
steps:
    - { name: A, type: dummy, outputs: [x], if: stage.name == 'production' }
    - { name: B, type: dummy, if: session.holder == 'ADA@acme.test' }
    - { name: C, type: dummy, if: environment.name == 'qa-1' || stage.kind == 'stage' }
    - { name: D, type: dummy, if: '${{ steps.a.x == 1 }}' }
    - { name: E, type: dummy, if: build.image && trigger.commit }
    - { name: F, type: dummy, if: true }
    - { name: G, type: dummy, if: \"format('{0}', pipeline.slug) == 'shop' && organization.id == 'org_1'\" }";
    check_plan(
        lines,
        "all",
        &expect![[r#"
        build (Build) vars {}
          0 compile dummy needs []
        staging (Stage) vars {}
          0 a dummy needs [] never
          1 b dummy needs [0] never
          2 c dummy needs [1]
          3 d dummy needs [2] if steps.a.x == 1
          4 e dummy needs [3] if build.image && trigger.commit
          5 f dummy needs [4]
          6 g dummy needs [5]
        production (Stage) vars {}
          0 a dummy needs []
          1 b dummy needs [0] never
          2 c dummy needs [1]
          3 d dummy needs [2] if steps.a.x == 1
          4 e dummy needs [3] if build.image && trigger.commit
          5 f dummy needs [4]
          6 g dummy needs [5]
    "#]],
    );
    check_plan(
        lines,
        "qa-1",
        &expect![[r#"
        build (Build) vars {}
          0 compile dummy needs []
        qa-1 (Environment) vars {}
          0 a dummy needs [] never
          1 b dummy needs [0]
          2 c dummy needs [1]
          3 d dummy needs [2] if steps.a.x == 1
          4 e dummy needs [3] if build.image && trigger.commit
          5 f dummy needs [4]
          6 g dummy needs [5]
    "#]],
    );
    let wrong = "steps:\n    - { name: A, type: dummy, if: fromJSON(stage.name) }";
    check_plan(
        wrong,
        "all",
        &expect![
            "not_runnable: the condition of the step `a` cannot be evaluated: `fromJSON(stage.name)` gives `fromJSON` a text that is not JSON, at line 1, column 1"
        ],
    );
}

#[test]
fn unresolved_step_type_is_refused_unless_skipped() {
    let steps = "steps:
    - { name: Ask, type: approval }
    - { name: Wait, type: soak, params: { duration: 10m } }
    - { name: Own, type: tools/deploy@v2 }
    - { name: Done, type: dummy }";
    check_plan(
        steps,
        "all",
        &expect![
            "not_runnable: the step `own` is of the type `tools/deploy@v2`, and custom steps are only known to a server"
        ],
    );
    let skipped = format!("stages: [{{ name: a, skip: [ask, wait, own] }}]\n{steps}");
    check_plan(
        &skipped,
        "all",
        &expect![[r#"
        a (Stage) vars {}
          0 done dummy needs []
    "#]],
    );
    let definition = parse(&pipeline_source(steps)).definition.expect("valid");
    let plan = preview(&definition, &PlanTarget::Stages, &plan_inputs()).expect("can be looked at");
    expect!["the step `own` is of the type `tools/deploy@v2`, and custom steps are only known to a server"]
        .assert_eq(&obstacles(&plan, &AvailableSteps::new()).join("\n"));
}

#[test]
fn stage_context_has_everything_but_outputs_and_secrets() {
    let lines = "stages: [{ name: staging, vars: { url: https://a.test, n: 1.5, on: true } }]
ephemeral_environments: { qa-1: }
steps: [{ name: A, type: dummy }]";
    let contexts = |target| {
        let plan = make_plan(lines, target).expect("a plan");
        plan.stages[0].contexts.iter().map(|(name, value)| format!("{name}: {value}\n")).collect::<String>()
    };
    expect![[r#"
        environment: null
        organization: {"id":"org_1","slug":"acme","name":"Acme"}
        pipeline: {"id":"pl_1","slug":"shop","name":"Shop"}
        session: null
        stage: {"name":"staging","kind":"stage"}
        trigger: {"kind":"manual","commit":"9fceb02"}
        vars: {"n":1.5,"on":true,"url":"https://a.test"}
    "#]]
    .assert_eq(&contexts("all"));
    expect![[r#"
        environment: {"id":"env_1","name":"qa-1"}
        organization: {"id":"org_1","slug":"acme","name":"Acme"}
        pipeline: {"id":"pl_1","slug":"shop","name":"Shop"}
        session: {"id":"ses_1","holder":"ada@acme.test"}
        stage: {"name":"qa-1","kind":"environment"}
        trigger: {"kind":"manual","commit":"9fceb02"}
        vars: {}
    "#]]
    .assert_eq(&contexts("qa-1"));
}

#[test]
fn plan_above_the_size_limit_is_refused() {
    let stages: Vec<String> = (0..100).map(|index| format!("{{ name: s{index} }}")).collect();
    let lines = format!(
        "stages: [{}]\nsteps:\n    - {{ name: A, type: script, params: {{ run: \"{}\" }} }}",
        stages.join(", "),
        "x".repeat(200_000)
    );
    let refused = make_plan(&lines, "all").expect_err("too large");
    assert!(refused.contains("split the pipeline"), "{refused}");
}

fn run_with_outcomes(
    plan: &Plan,
    outcome: impl Fn(&str) -> (StepRunStatus, Option<(&'static str, &'static str)>),
) -> Run {
    let now = Timestamp::from_micros(1);
    let mut steps = Vec::new();
    for (stage, planned) in plan.stages.iter().enumerate() {
        for (index, step) in planned.steps.iter().enumerate() {
            let (status, output) = outcome(step.id.as_str());
            steps.push(std::sync::Arc::new(StepRun {
                id: StepRunId::from_parts(now, [0; 10]),
                stage,
                index,
                step: step.id.clone(),
                status,
                tries: 1,
                failures: 0,
                losses: 0,
                false_starts: 0,
                not_before: None,
                live: None,
                memory: None,
                outputs: output.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
                artifacts: std::collections::BTreeMap::new(),
                failure: None,
                started_at: None,
                finished_at: None,
            }));
        }
    }
    Run {
        deployment: DeploymentId::from_parts(now, [0; 10]),
        pipeline: PipelineId::from_parts(now, [0; 10]),
        version: 1,
        stages: Vec::new(),
        steps,
    }
}

#[test]
fn outputs_of_succeeded_steps_decide_later_conditions() {
    let lines = "build: [{ name: Compile, type: dummy, outputs: [image] }, { name: Pack, type: dummy, if: build.image == 'app:1' }]
stages: [{ name: staging }]
steps:
    - { name: A, type: dummy, outputs: [x] }
    - { name: B, type: dummy, outputs: [x] }
    - { name: C, type: dummy, if: \"steps.a.x == 'yes' && !steps.b.x && build.image == 'app:1'\" }
    - { name: D, type: dummy, if: steps.b.x }";
    let plan = make_plan(lines, "all").expect("a plan");
    let run = run_with_outcomes(&plan, |id| match id {
        "compile" => (StepRunStatus::Succeeded, Some(("image", "app:1"))),
        "a" => (StepRunStatus::Succeeded, Some(("x", "yes"))),
        // The output comes from an attempt before the one that failed.
        "b" => (StepRunStatus::Failed, Some(("x", "old"))),
        _ => (StepRunStatus::Pending, None),
    });
    assert_eq!(plan.contexts_for(&run, 0)["build"], json!({ "image": "app:1" }));
    assert_eq!(plan.contexts_for(&run, 0)["steps"], json!({ "compile": { "image": "app:1" } }));
    assert_eq!(plan.contexts_for(&run, 1)["steps"], json!({ "a": { "x": "yes" } }));
    assert!(!plan.contexts_for(&run, 1).contains_key("secrets"));
    let decided = |stage, index| plan.decide_when(&run, stage, index);
    assert_eq!(decided(0, 1), Ok(true));
    assert_eq!((decided(1, 0), decided(1, 2), decided(1, 3)), (Ok(true), Ok(true), Ok(false)));
    assert!(decided(1, 9).is_err() && decided(9, 0).is_err());
}

#[test]
fn planned_step_lists_the_secrets_it_uses() {
    let lines = "steps:
    - name: A
      type: http_check
      env: { T: \"a ${{ secrets.ONE }} ${{ format('{0}', secrets.TWO) }}\", U: plain }
      secret_files: { F: FILE }
      params: { url: \"https://${{ secrets.THREE }}/\" }";
    let plan = make_plan(lines, "all").expect("a plan");
    let used: Vec<String> = secrets_used(&plan.stages[0].steps[0]).iter().map(ToString::to_string).collect();
    assert_eq!(used, ["FILE", "ONE", "THREE", "TWO"]);
}
