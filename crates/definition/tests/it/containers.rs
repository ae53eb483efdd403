//! Tests of containers, services and image builds in definitions.

use berth_core::pipeline::PipelineDefinition;
use berth_core::step::NetworkAccess;
use berth_definition::planning::{PlanTarget, obstacles, preview};
use berth_definition::{parse, write};
use expect_test::expect;

use crate::planning::plan_inputs;
use crate::{check_step, pipeline_source};

const SHOP: &str = "steps:
    - name: Test
      id: test
      type: script
      runs_on: [linux]
      env: { A: b }
      container: { image: 'registry.acme.test/ci/node:22', user: 1000, memory: 2GiB, cpus: 1.5, pull: always, credential: REGISTRY }
      services:
        db: { image: 'postgres:16', env: { POSTGRES_PASSWORD: '${{ secrets.DB }}' }, ready: { tcp: 5432, within: 30s } }
      params: { run: npm test }
    - name: Image
      id: image
      type: image_build
      params: { tags: ['registry.acme.test/shop:${{ trigger.commit }}'], credential: REGISTRY }
      outputs: [digest]
    - name: Use
      id: use
      type: script
      container: { image: 'registry.acme.test/shop@${{ steps.image.digest }}', network: host }
      params: { run: ./smoke }";

fn parse_shop() -> PipelineDefinition {
    let parsed = parse(&pipeline_source(SHOP));
    parsed.definition.unwrap_or_else(|| panic!("{:?}", parsed.diagnostics))
}

#[test]
fn containers_round_trip_and_list_their_secrets() {
    let definition = parse_shop();
    let text = write(&definition).expect("text");
    assert_eq!(parse(&text).definition.as_ref(), Some(&definition), "{text}");
    let container = definition.steps[0].container.as_ref().expect("a container");
    assert_eq!(container.memory.map(|it| it.as_bytes()), Some(2 << 30));
    assert_eq!(container.cpus.map(|it| it.as_milli()), Some(1500));
    assert_eq!(container.user.as_deref(), Some("1000"));
    let uses: Vec<String> =
        definition.secrets_used().into_iter().map(|it| format!("{} {}", it.name, it.pointer)).collect();
    assert_eq!(
        uses,
        [
            "DB /pipeline/steps/0/services/db/env/POSTGRES_PASSWORD",
            "REGISTRY /pipeline/steps/0/container/credential",
            "REGISTRY /pipeline/steps/1/params/credential",
        ]
    );
}

#[test]
fn container_steps_need_a_runner_with_an_engine() {
    let definition = parse_shop();
    let mut inputs = plan_inputs();
    let plan = preview(&definition, &PlanTarget::Stages, &inputs).expect("a plan");
    let steps = &plan.stages[0].steps;
    let described: Vec<(Vec<&str>, NetworkAccess)> = steps
        .iter()
        .map(|step| {
            (step.runs_on.iter().map(berth_core::pipeline::grammar::Label::as_str).collect(), step.network)
        })
        .collect();
    assert_eq!(
        described,
        [
            (vec!["linux", "container"], NetworkAccess::Bridge),
            (vec!["container"], NetworkAccess::Host),
            (vec!["container", "container-host-network"], NetworkAccess::Host),
        ]
    );
    assert_eq!(obstacles(&plan, &inputs.offers), Vec::<String>::new());
    // Without network by default, services cannot be reached.
    inputs.default_network = NetworkAccess::None;
    let plan = preview(&definition, &PlanTarget::Stages, &inputs).expect("a plan");
    assert_eq!(plan.stages[0].steps[0].network, NetworkAccess::None);
    let found = obstacles(&plan, &inputs.offers);
    assert!(found.len() == 1 && found[0].contains("`test` has services"), "{found:?}");
}

#[test]
fn container_mistakes_are_reported() {
    check_step(
        "params: { run: a }\ncontainer: { image: --privileged, user: -u, memory: 1M, cpus: 0, pull: sometimes, network: container:x, privileged: true }",
        &expect![[""]],
    );
    check_step(
        "params: { run: a }\ncontainer: { image: 'Node:22', env: { A: b } }\nnetwork: none",
        &expect![[""]],
    );
    check_step(
        "params: { run: a }\ncontainer: { image: node, network: none }\nservices: { DB: { image: a }, db: { image: '', ready: { tcp: 0 } }, cache: { ready: { within: 2h } } }",
        &expect![[""]],
    );
    check_step("params: { run: a }\nservices: { db: { image: a } }", &expect![[""]]);
    check_step(
        "params: { run: a }\ncontainer: { image: '${{ steps.none.digest }}', user: '${{ vars.a }}' }",
        &expect![[""]],
    );
    crate::check_pipeline(
        "steps:\n    - { name: A, type: http_check, params: { url: 'http://a.test' }, container: { image: a } }\n    - { name: B, type: wait_for, params: { url: 'http://a.test' }, container: { image: a } }\n    - { name: C, type: image_build, params: { tags: ['-x', 'a:b:c'], context: ../x, file: /etc/passwd, credential: a-b } }",
        &expect![[""]],
    );
}
