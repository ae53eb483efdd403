//! Tests the network access of steps, set by the step or by the organization's default.

use berth_core::step::NetworkAccess;
use berth_definition::parse;
use berth_definition::planning::{PlanInputs, PlanTarget, plan};

use crate::pipeline_source;
use crate::planning::plan_inputs;

const REACHING: &str = "stages: [{ name: staging }]
steps:
    - { name: Plain, type: script, params: { run: ./plain } }
    - { name: Open, type: script, network: host, params: { run: ./open } }
    - { name: Shut, type: script, network: none, params: { run: ./shut } }
";

#[test]
fn network_of_a_step_defaults_to_the_organizations() {
    let source = pipeline_source(REACHING);
    let definition = parse(&source).definition.expect("a definition");
    let networks = |default_network| {
        let facts = PlanInputs { default_network, ..plan_inputs() };
        let plan = plan(&definition, &PlanTarget::Stages, &facts).expect("a plan");
        plan.stages[0].steps.iter().map(|step| step.network).collect::<Vec<_>>()
    };
    assert_eq!(
        networks(NetworkAccess::Host),
        [NetworkAccess::Host, NetworkAccess::Host, NetworkAccess::None]
    );
    assert_eq!(
        networks(NetworkAccess::None),
        [NetworkAccess::None, NetworkAccess::Host, NetworkAccess::None]
    );
}

#[test]
fn http_check_without_network_is_an_obstacle() {
    let check = |more: &str| {
        let source = pipeline_source(&format!(
            "stages: [{{ name: staging }}]
steps:
    - {{ name: Smoke, type: http_check, {more} params: {{ url: https://shop.test }} }}
"
        ));
        let definition = parse(&source).definition.expect("a definition");
        let facts = PlanInputs { default_network: NetworkAccess::None, ..plan_inputs() };
        plan(&definition, &PlanTarget::Stages, &facts).map(|_| ()).map_err(|failure| failure.detail)
    };
    assert_eq!(check("network: host,"), Ok(()));
    let detail = check("").expect_err("refused");
    assert!(detail.contains("add `network: host` to it"), "{detail}");
}

#[test]
fn image_build_without_network_is_an_obstacle() {
    let source = pipeline_source(
        "stages: [{ name: staging }]
steps:
    - { name: Image, type: image_build, params: { tags: [registry.test/shop] } }
",
    );
    let definition = parse(&source).definition.expect("a definition");
    let facts = PlanInputs { default_network: NetworkAccess::None, ..plan_inputs() };
    let failure = plan(&definition, &PlanTarget::Stages, &facts).expect_err("refused");
    assert!(failure.detail.contains("`image` needs the network"), "{}", failure.detail);
}

#[test]
fn network_none_on_an_http_check_is_an_error() {
    for step in [
        "{ name: A, type: http_check, network: none, params: { url: https://shop.test } }",
        "{ name: A, type: wait_for, network: none, params: { url: https://shop.test } }",
        "{ name: A, type: image_build, network: none, params: { tags: [registry.test/shop] } }",
        "{ name: A, type: script, network: some, params: { run: ./a } }",
    ] {
        let parsed = parse(&pipeline_source(&format!("stages: [{{ name: staging }}]\nsteps: [{step}]\n")));
        assert!(parsed.definition.is_none(), "{step}");
        assert!(parsed.diagnostics[0].pointer.ends_with("/steps/0/network"), "{:?}", parsed.diagnostics);
    }
    let good = "{ name: A, type: wait_for, network: none, params: { run: ./ready } }";
    assert!(
        parse(&pipeline_source(&format!("stages: [{{ name: staging }}]\nsteps: [{good}]\n")))
            .definition
            .is_some()
    );
}
