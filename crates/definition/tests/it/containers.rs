//! Tests of containers, services and image builds in definitions.

use berth_core::pipeline::PipelineDefinition;
use berth_core::pipeline::container::{CpuLimit, MemoryLimit};
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
    assert_eq!(container.memory.map(MemoryLimit::as_bytes), Some(2 << 30));
    assert_eq!(container.cpus.map(CpuLimit::as_milli), Some(1500));
    assert_eq!(container.user.as_deref(), Some("1000"));
    let uses: Vec<String> =
        definition.secrets_used().into_iter().map(|it| format!("{} {}", it.name, it.pointer)).collect();
    assert_eq!(
        uses,
        [
            "DB /pipeline/steps/0/services/db/env/POSTGRES_PASSWORD",
            "REGISTRY /pipeline/steps/1/params/credential",
            "REGISTRY /pipeline/steps/0/container/credential",
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
    assert!(found.len() == 2 && found[0].contains("`test` has services"), "{found:?}");
    assert!(found[1].contains("`image` needs the network"), "{found:?}");
}

#[test]
fn container_mistakes_are_reported() {
    check_step(
        "params: { run: a }\ncontainer: { image: --privileged, user: -u, memory: 1M, cpus: 0, pull: sometimes, network: container:x, privileged: true }",
        &expect![[r#"
            8:27: error: `--privileged` begins with `-`; image names begin with a letter or digit [bad_image]
            8:47: error: `-u` is not a user; write a name such as `node`, or ids such as `1000:1000` [bad_user]
            8:59: error: `1M` is not a memory limit; write it like 512MiB or 2GiB, from 8MiB to 65536GiB [bad_memory]
            8:69: error: must be a number of CPUs from 0.01 to 1024 [out_of_range]
            8:78: error: `sometimes` is not known here; there are if_missing, always and never [unknown_value]
            8:98: error: `container:x` is not known here; there are bridge, none and host [unknown_value]
            8:111: error: unknown field `privileged`; there are image, user, network, memory, cpus, pull and credential [unknown_field]
        "#]],
    );
    check_step(
        "params: { run: a }\ncontainer: { image: 'Node:22', env: { A: b } }\nnetwork: none",
        &expect![[r#"
            8:38: error: variables of a container are set in the step's `env` [unused_env]
            9:7: error: the network of a step in a container is set in its `container`: `container: { network: … }` [unused_network]
        "#]],
    );
    check_step(
        "params: { run: a }\ncontainer: { image: node, network: none }\nservices: { DB: { image: a }, db: { image: '', ready: { tcp: 0 } }, cache: { ready: { within: 2h } } }",
        &expect![[r#"
            9:19: error: `DB` is not a service name; use 1 to 63 of a-z, 0-9 and -, beginning with a letter, such as `db` [invalid_name]
            9:50: error: `` is empty; write an image such as `node:22` [bad_image]
            9:68: error: must be a whole number from 1 to 65535 [out_of_range]
            9:75: error: `image` is missing [missing_field]
            9:84: error: `tcp` is missing [missing_field]
        "#]],
    );
    check_step(
        "params: { run: a }\nservices: { db: { image: a } }",
        &expect![[r#"
        8:7: error: services need a step in a container; add `container: { image: … }` to the step [services_without_container]
    "#]],
    );
    check_step(
        "params: { run: a }\ncontainer: { image: '${{ secrets.HOST }}/a:1' }\nservices: { db: { image: 'a:${{ secrets.TAG }}' } }",
        &expect![[r#"
            8:27: error: the name of an image must not contain a secret, because the audit log shows it; use `credential` for the registry [secret_in_image]
            9:32: error: the name of an image must not contain a secret, because the audit log shows it; use `credential` for the registry [secret_in_image]
        "#]],
    );
    check_step(
        "params: { run: a }\ncontainer: { image: '${{ steps.none.digest }}', user: '${{ vars.a }}' }",
        &expect![[r#"
            8:32: error: there is no step `none`; did you mean `steps.a.digest`? [unknown_step]
            8:61: error: expressions work in `env`, `params` and `if` only; write the value itself [expression_not_allowed]
        "#]],
    );
    crate::check_pipeline(
        "steps:\n    - { name: A, type: http_check, params: { url: 'http://a.test' }, container: { image: a } }\n    - { name: B, type: wait_for, params: { url: 'http://a.test' }, container: { image: a } }\n    - { name: C, type: image_build, params: { tags: ['-x', 'a:b:c'], context: ../x, file: /etc/passwd, credential: a-b } }",
        &expect![[r#"
            5:70: error: only steps that run a command run in a container: `script`, and `wait_for` with `run` [unused_container]
            6:68: error: only steps that run a command run in a container: `script`, and `wait_for` with `run` [unused_container]
            7:54: error: `-x` begins with `-`; image names begin with a letter or digit (step type `image_build`) [bad_image]
            7:60: error: `a:b:c` has an invalid tag; a tag has letters, digits, `.`, `_`, `-` (step type `image_build`) [bad_image]
            7:79: error: must be a path inside the workspace, like `services/shop` (step type `image_build`) [bad_path]
            7:91: error: must be a path inside the workspace, like `services/shop` (step type `image_build`) [bad_path]
            7:116: error: "a-b" does not match "^[A-Za-z_][A-Za-z0-9_]*$" (step type `image_build`) [bad_param]
        "#]],
    );
}

#[test]
fn kubernetes_apply_uses_a_secret_or_a_runner_that_lends_its_credentials() {
    let definition = parse(&pipeline_source(
        "steps:
    - { name: A, id: a, type: kubernetes_apply, params: { manifests: [deploy], kubeconfig: PROD } }
    - { name: B, id: b, type: kubernetes_apply, params: { manifests: [deploy] } }",
    ))
    .definition
    .expect("a definition");
    let uses: Vec<String> =
        definition.secrets_used().into_iter().map(|it| format!("{} {}", it.name, it.pointer)).collect();
    assert_eq!(uses, ["PROD /pipeline/steps/0/params/kubeconfig"]);
    let plan = preview(&definition, &PlanTarget::Stages, &plan_inputs()).expect("a plan");
    let labels =
        plan.stages[0].steps.iter().map(|step| step.runs_on.iter().map(ToString::to_string).collect());
    assert_eq!(labels.collect::<Vec<Vec<String>>>(), [vec![], vec!["kubernetes".to_owned()]]);
}
