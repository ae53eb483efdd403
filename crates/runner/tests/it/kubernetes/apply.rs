//! `kubernetes_apply`: server-side apply, fences, pruning and rollouts.

use std::collections::BTreeMap;

use berth_api::runner::{
    AttemptAssignment, AttemptOrder, FailureCause, HolderFence, SecretText, StepRunOutcome,
};
use serde_json::{Value, json};

use super::ClusterFixture;
use super::double::{JOB_NAMESPACE, KubernetesDouble, NAMESPACE, kubeconfig};
use crate::fixture::{StepRunnerFixture, expect_failure, expect_success, step};

const WEB: &str = "apiVersion: apps/v1\nkind: Deployment\nmetadata: { name: web }\nspec:\n  replicas: 2\n  selector: { matchLabels: { app: web } }\n  template:\n    metadata: { labels: { app: web } }\n    spec: { containers: [{ name: web, image: \"registry.test/web:1\" }] }\n";
const CONFIG: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: { name: web }\ndata: { color: blue }\n";

/// A runner that lends its credentials for other namespaces than that of its Jobs.
fn lending() -> ClusterFixture {
    ClusterFixture::with_options(|options| {
        options.allows_apply = true;
        options.namespace = JOB_NAMESPACE.to_owned();
    })
}

/// A step whose workspace has the manifest as an artifact.
fn apply(it: &StepRunnerFixture, id: &str, manifest: &str, params: Value) -> AttemptAssignment {
    let name = format!("{id}.yaml");
    it.link.store_artifact(&name, manifest.as_bytes());
    let mut params = params;
    params["manifests"] = json!([name]);
    if params.get("namespace").is_none() {
        params["namespace"] = json!(NAMESPACE);
    }
    let mut step = step(id, "kubernetes_apply", params);
    step.needs_artifacts = vec![name];
    step.facts = BTreeMap::from([
        ("BERTH_PIPELINE_ID".to_owned(), "pipe_1".to_owned()),
        ("BERTH_ENVIRONMENT".to_owned(), "prod".to_owned()),
    ]);
    step.holder = holder("env_1", 5);
    step
}

fn holder(environment: &str, fence: i64) -> Option<HolderFence> {
    Some(HolderFence { environment_id: environment.to_owned(), fence, session_id: None })
}

fn find(it: &ClusterFixture, resource: &str, name: &str) -> Option<Value> {
    it.cluster.objects(resource).into_iter().find(|object| object["metadata"]["name"] == name)
}

#[test]
fn manifests_are_applied_labelled_and_rolled_out() {
    let it = lending();
    let manifests = format!("{WEB}---\n{CONFIG}---\n");
    let outcome = it.fixture.run(apply(&it.fixture, "a", &manifests, json!({})));
    let log = it.fixture.link.text_of("a");
    assert!(expect_success(&outcome).is_empty(), "{log}");
    for line in ["Deployment/web created", "ConfigMap/web created", "Deployment/web is rolled out"] {
        assert!(log.contains(&format!("[berth] {line}\n")), "{line}: {log}");
    }
    let web = find(&it, "deployments", "web").expect("a Deployment");
    assert_eq!(
        web["metadata"]["labels"],
        json!({ "berth.io/pipeline": "pipe_1", "berth.io/environment": "prod" })
    );
    assert_eq!(
        web["metadata"]["annotations"],
        json!({ "berth.io/environment-id": "env_1", "berth.io/fence": "5" })
    );
    assert_eq!(web["spec"]["template"]["spec"]["containers"][0]["image"], "registry.test/web:1");
    let changed = CONFIG.replace("blue", "green");
    expect_success(&it.fixture.run(apply(&it.fixture, "b", &changed, json!({}))));
    assert!(it.fixture.link.text_of("b").contains("ConfigMap/web configured\n"));
    expect_success(&it.fixture.run(apply(&it.fixture, "c", &changed, json!({}))));
    assert!(it.fixture.link.text_of("c").contains("ConfigMap/web unchanged\n"));
    assert_eq!(find(&it, "configmaps", "web").expect("a ConfigMap")["data"]["color"], "green");
    it.cluster.check_no_faults();
}

#[test]
fn lower_fence_is_refused_by_the_record_and_by_the_object() {
    let it = lending();
    expect_success(&it.fixture.run(apply(&it.fixture, "new", CONFIG, json!({}))));
    let changed = CONFIG.replace("blue", "green");
    let mut stale = apply(&it.fixture, "stale", &changed, json!({}));
    stale.holder = holder("env_1", 4);
    let outcome = it.fixture.run(stale);
    let (cause, detail) = expect_failure(&outcome);
    assert!(
        cause == FailureCause::Invalid && detail.contains("under fence 5, and refuses the lower fence 4"),
        "{detail}"
    );
    // Without the record, the annotation of the object still refuses.
    for name in it.cluster.names("configmaps").into_iter().filter(|name| name.starts_with("berth-fence-")) {
        it.cluster.remove("configmaps", &name);
    }
    let mut stale = apply(&it.fixture, "again", &changed, json!({ "force": true }));
    stale.holder = holder("env_1", 4);
    let outcome = it.fixture.run(stale);
    assert!(
        expect_failure(&outcome)
            .1
            .contains("ConfigMap/web was applied by a later holder of the environment, under fence 5")
    );
    assert_eq!(find(&it, "configmaps", "web").expect("a ConfigMap")["data"]["color"], "blue");
    // Fences of another environment are not comparable.
    let mut other = apply(&it.fixture, "other", &changed, json!({}));
    other.holder = holder("env_2", 1);
    expect_success(&it.fixture.run(other));
    it.cluster.check_no_faults();
}

#[test]
fn fields_of_another_client_are_only_changed_with_force() {
    let it = lending();
    let fields =
        json!([{ "manager": "kubectl", "operation": "Update", "fieldsV1": { "f:data": { "f:color": {} } } }]);
    let theirs = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "managedFields": fields }, "data": { "color": "red" } });
    it.cluster.create("configmaps", "web", theirs);
    let outcome = it.fixture.run(apply(&it.fixture, "a", CONFIG, json!({})));
    let (_, detail) = expect_failure(&outcome);
    assert!(
        detail.contains("conflict with \"kubectl\": .data.color") && detail.contains("set `force: true`"),
        "{detail}"
    );
    expect_success(&it.fixture.run(apply(&it.fixture, "b", CONFIG, json!({ "force": true }))));
    assert_eq!(find(&it, "configmaps", "web").expect("a ConfigMap")["data"]["color"], "blue");
}

#[test]
fn prune_deletes_only_what_the_pipeline_applied_to_the_environment() {
    let it = lending();
    let old = CONFIG.replace("name: web", "name: old");
    expect_success(&it.fixture.run(apply(&it.fixture, "a", &format!("{CONFIG}---\n{old}"), json!({}))));
    let labels =
        |environment: &str| json!({ "berth.io/pipeline": "pipe_1", "berth.io/environment": environment });
    it.cluster.create("configmaps", "staging", json!({ "metadata": { "labels": labels("staging") } }));
    it.cluster.create("services", "foreign", json!({ "metadata": { "labels": {} } }));
    it.cluster.create("services", "gone", json!({ "metadata": { "labels": labels("prod") } }));
    expect_success(&it.fixture.run(apply(&it.fixture, "b", CONFIG, json!({ "prune": true }))));
    let log = it.fixture.link.text_of("b");
    assert!(
        log.contains("[berth] ConfigMap/old pruned\n") && log.contains("[berth] Service/gone pruned\n"),
        "{log}"
    );
    let left = it.cluster.names("configmaps");
    assert!(
        left.contains(&"web".to_owned())
            && left.contains(&"staging".to_owned())
            && !left.contains(&"old".to_owned()),
        "{left:?}"
    );
    assert_eq!(it.cluster.names("services"), ["foreign"]);
    // Not without knowing whose objects they are.
    let mut unknown = apply(&it.fixture, "c", CONFIG, json!({ "prune": true }));
    unknown.facts.clear();
    assert!(expect_failure(&it.fixture.run(unknown)).1.contains("`prune` needs a pipeline"));
    it.cluster.check_no_faults();
}

#[test]
fn rollout_that_is_late_fails_and_one_that_is_cancelled_stops() {
    let it = lending();
    it.cluster.change(|cluster| cluster.blocks_rollouts = true);
    let outcome = it.fixture.run(apply(&it.fixture, "late", WEB, json!({ "within": "1s" })));
    let (cause, detail) = expect_failure(&outcome);
    assert!(
        cause == FailureCause::TimedOut && detail.starts_with("Deployment/web was not rolled out within 1s"),
        "{detail}"
    );
    it.fixture.link.enqueue(apply(&it.fixture, "cancelled", WEB, json!({})));
    it.fixture.link.wait_for_log("cancelled", "waiting for Deployment/web: its controller has not seen");
    it.fixture.link.set_order("cancelled", AttemptOrder::Cancel, None);
    assert_eq!(it.fixture.link.wait_for_report("cancelled").outcome, StepRunOutcome::Stopped);
    expect_success(&it.fixture.run(apply(&it.fixture, "impatient", WEB, json!({ "wait": false }))));
}

#[test]
fn credentials_come_from_a_secret_or_from_a_runner_that_allows_it() {
    let it = ClusterFixture::start();
    let outcome = it.fixture.run(apply(&it.fixture, "none", CONFIG, json!({})));
    assert!(expect_failure(&outcome).1.contains("this runner does not lend its credentials"));
    let lending = lending();
    let mut fork = apply(&lending.fixture, "fork", CONFIG, json!({}));
    fork.is_untrusted = true;
    let outcome = lending.fixture.run(fork);
    assert!(expect_failure(&outcome).1.contains("steps that run the commit of a fork"));
    let own = std::fs::read_to_string(it.cluster.kubeconfig()).expect("kubeconfig");
    let mut with_secret = apply(&it.fixture, "secret", CONFIG, json!({ "kubeconfig": "PROD" }));
    with_secret.kubeconfig = Some(SecretText::new(own));
    expect_success(&it.fixture.run(with_secret));
    let marker = it.cluster.volume().join("executed");
    let hostile = [
        (
            format!(
                "exec: {{ apiVersion: client.authentication.k8s.io/v1, command: touch, args: [\"{}\"] }}",
                marker.display()
            ),
            "`exec`",
        ),
        ("tokenFile: /etc/shadow".to_owned(), "names a file"),
        ("client-key: /etc/shadow, client-certificate: /etc/shadow".to_owned(), "names a file"),
        ("auth-provider: { name: gcp, config: { cmd-path: touch } }".to_owned(), "auth-provider"),
    ];
    for (index, (user, why)) in hostile.iter().enumerate() {
        let mut step =
            apply(&it.fixture, &format!("hostile-{index}"), CONFIG, json!({ "kubeconfig": "PROD" }));
        step.kubeconfig = Some(SecretText::new(kubeconfig("http://127.0.0.1:1", user)));
        let outcome = it.fixture.run(step);
        let (cause, detail) = expect_failure(&outcome);
        assert!(cause == FailureCause::Invalid && detail.contains(why), "{user}: {detail}");
    }
    assert!(!marker.exists());
}

#[test]
fn response_that_is_too_long_fails_the_step() {
    let it = ClusterFixture::start();
    let hostile = KubernetesDouble::start();
    for code in [200, 500] {
        hostile.change(|cluster| cluster.long_responses = Some(code));
        let id = format!("long-{code}");
        let mut step = apply(&it.fixture, &id, CONFIG, json!({ "kubeconfig": "PROD" }));
        step.kubeconfig = Some(SecretText::new(std::fs::read_to_string(hostile.kubeconfig()).expect("file")));
        let outcome = it.fixture.run(step);
        let (cause, detail) = expect_failure(&outcome);
        assert!(
            cause == FailureCause::Invalid
                && detail
                    == "cannot look up v1 ConfigMap: the response of the API server is longer than 16 MiB",
            "{code}: {detail}"
        );
    }
    it.cluster.check_no_faults();
}

#[test]
fn runners_own_namespace_is_refused_for_its_credentials() {
    let it = lending();
    let unset = {
        let mut step = apply(&it.fixture, "unset", CONFIG, json!({}));
        step.params.remove("namespace");
        step
    };
    let foreign = CONFIG.replace("name: web", &format!("name: web, namespace: {JOB_NAMESPACE}"));
    let list = format!("apiVersion: v1\nkind: List\nitems:\n- {}", foreign.trim().replace('\n', "\n  "));
    let itself = format!("apiVersion: v1\nkind: Namespace\nmetadata: {{ name: {JOB_NAMESPACE} }}\n");
    for step in [
        unset,
        apply(&it.fixture, "param", CONFIG, json!({ "namespace": JOB_NAMESPACE })),
        apply(&it.fixture, "object", &foreign, json!({})),
        apply(&it.fixture, "list", &list, json!({})),
        apply(&it.fixture, "namespace", &itself, json!({})),
    ] {
        let id = step.attempt.step_id.clone();
        let outcome = it.fixture.run(step);
        let (cause, detail) = expect_failure(&outcome);
        assert!(
            cause == FailureCause::Invalid
                && detail.contains("the namespace runners, which is the runner's own"),
            "{id}: {detail}"
        );
    }
    // Credentials of the pipeline may do what the cluster allows them.
    let mut own = apply(&it.fixture, "secret", &foreign, json!({ "kubeconfig": "PROD" }));
    own.kubeconfig = Some(SecretText::new(std::fs::read_to_string(it.cluster.kubeconfig()).expect("file")));
    expect_success(&it.fixture.run(own));
    it.cluster.check_no_faults();
}

#[test]
fn hostile_manifests_are_refused() {
    let it = lending();
    let bad = |name: &str, namespace: &str| {
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{ name: \"{name}\", namespace: \"{namespace}\" }}\n"
        )
    };
    let cases = [
        (bad("../secrets/x", "ci"), "is not a name of an object"),
        (bad("..", "ci"), "is not a name of an object"),
        (bad("a", "../kube-system"), "is not the name of a namespace"),
        (bad("a", "other"), "cannot use the namespace"),
        ("apiVersion: ../v1\nkind: ConfigMap\nmetadata: { name: a }\n".to_owned(), "is not a kind of object"),
        (
            "apiVersion: v1\nkind: Missing\nmetadata: { name: a }\n".to_owned(),
            "the cluster has no v1 Missing",
        ),
        (
            "apiVersion: v1\nkind: ConfigMap\nmetadata: { generateName: a- }\n".to_owned(),
            "generated names are not supported",
        ),
        (CONFIG.replace("\ndata:", "\ndota:"), "unknown field \".dota\""),
        ("a: [".to_owned(), "hostile-8.yaml: "),
        ("# nothing\n".to_owned(), "contain no objects"),
    ];
    for (index, (manifest, why)) in cases.iter().enumerate() {
        let outcome = it.fixture.run(apply(&it.fixture, &format!("hostile-{index}"), manifest, json!({})));
        let detail = match &outcome {
            StepRunOutcome::Failed { detail, .. } | StepRunOutcome::NeverStarted { detail, .. } => {
                detail.clone()
            }
            other => panic!("{manifest}: {other:?}"),
        };
        assert!(detail.contains(why), "{manifest}: {detail}");
    }
    let outside = step("outside", "kubernetes_apply", json!({ "manifests": ["../../../../etc/hostname"] }));
    assert!(expect_failure(&it.fixture.run(outside)).1.contains("which is not in the workspace"));
    assert!(it.cluster.names("configmaps").iter().all(|name| name.starts_with("berth-fence-")));
}
