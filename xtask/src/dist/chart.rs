//! The Helm chart, and the plain manifests that are rendered from it.

use std::path::Path;

use super::{StagedFiles, pack};
use crate::tool::root;

/// Packs the chart as `helm package` does.
pub(super) fn build(staged: &StagedFiles, to: &Path) -> Result<String, String> {
    let name = format!("berth-helm-{}.tgz", staged.version);
    pack(&root().join("packaging/helm"), "berth", &to.join(&name), &staged.made_at)?;
    Ok(name)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::process::{Command, Output};

    use berth_testkit::outcome;
    use serde_json::{Value, json};

    use super::*;
    use crate::dist::write;
    use crate::python;

    const MANIFEST: &str = "packaging/kubernetes/berth.yaml";
    const MANIFEST_HEADER: &str = "\
# Berth with SQLite on one volume, without Helm. Change the image and the arguments of the job, then:
#
#   kubectl create namespace berth
#   kubectl --namespace berth apply -f berth.yaml
#   kubectl --namespace berth logs job/berth-init      # the first password and token; delete the job afterwards
#
# Rendered from the Helm chart by `UPDATE_EXPECT=1 cargo nextest run -p xtask chart`.
";

    /// Returns the interpreter with the Helm library and kubernetes-validate.
    fn find_python() -> Option<PathBuf> {
        let found = std::env::var_os(python::VARIABLE).map(PathBuf::from);
        if found.is_none() {
            outcome::skip("helm-sdkpy and kubernetes-validate", "cargo xtask test");
        }
        found
    }

    fn render(python: &Path, values: &Value) -> Output {
        let mut command = Command::new(python);
        command.arg(root().join("xtask/src/dist/helm_render.py")).arg(root().join("packaging/helm/berth"));
        command.args(["berth", &values.to_string()]).output().unwrap()
    }

    fn render_manifest(python: &Path, values: &Value) -> String {
        let done = render(python, values);
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    }

    /// Validates manifests with the schemas of a Kubernetes version, without unknown members.
    fn validate(python: &Path, manifest: &str) {
        let file = tempfile::Builder::new().suffix(".yaml").tempfile().unwrap();
        write(file.path(), manifest).unwrap();
        let program = python.with_file_name("kubernetes-validate");
        let done = Command::new(program).arg("--strict").arg(file.path()).output().unwrap();
        let text = String::from_utf8_lossy(&done.stdout) + String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{text}\n{manifest}");
    }

    fn shared_values() -> Value {
        json!({
            "replicas": 3,
            "publicUrl": "https://berth.acme.test",
            "trustedProxies": ["10.0.0.1", "10.0.0.2"],
            "database": {"existingSecret": "berth-database"},
            "persistence": {"accessMode": "ReadWriteMany", "storageClass": "nfs"},
            "image": {"pullSecrets": [{"name": "registry"}]},
            "ingress": {"enabled": true, "className": "nginx", "host": "berth.acme.test", "tlsSecret": "berth-tls",
                "annotations": {"a": "b"}},
            "metrics": {"enabled": true},
            "init": {"enabled": true, "organization": "acme", "email": "you@acme.test"},
            "env": [{"name": "BERTH_RETENTION__LOG_DAYS", "value": "90"}],
            "runSteps": true,
            "nodeSelector": {"disk": "ssd"},
            "tolerations": [{"key": "ci", "operator": "Exists"}],
            "affinity": {"nodeAffinity": {}},
        })
    }

    #[test]
    fn manifest_of_the_kubernetes_runner_is_valid() {
        let Some(python) = find_python() else { return };
        let manifest = std::fs::read_to_string(root().join("packaging/kubernetes/runner.yaml")).unwrap();
        validate(&python, &manifest);
    }

    #[test]
    fn chart_renders_valid_manifests_that_need_no_privileges() {
        let Some(python) = find_python() else { return };
        let single = render_manifest(&python, &json!({}));
        validate(&python, &single);
        assert!(
            single.contains("type: Recreate") && single.contains("args: [serve, --no-runner]"),
            "{single}"
        );
        let shared = render_manifest(&python, &shared_values());
        validate(&python, &shared);
        for wanted in [
            "type: RollingUpdate",
            "kind: PodDisruptionBudget",
            "kind: Ingress",
            "kind: Job",
            "value: \"10.0.0.1,10.0.0.2\"",
            "name: berth-database",
            "args: [serve]",
        ] {
            assert!(shared.contains(wanted), "{wanted}:\n{shared}");
        }
        for manifest in [&single, &shared] {
            let containers = manifest.matches("image: \"registry.example.com/berth:").count();
            for wanted in [
                "readOnlyRootFilesystem: true",
                "allowPrivilegeEscalation: false",
                "runAsNonRoot: true",
                "automountServiceAccountToken: false\n      enableServiceLinks",
            ] {
                assert_eq!(manifest.matches(wanted).count(), containers, "{wanted}:\n{manifest}");
            }
        }
    }

    #[test]
    fn chart_refuses_values_that_cannot_work() {
        let Some(python) = find_python() else { return };
        for (values, wanted) in [
            (json!({"replicas": 2}), "more than one replica needs PostgreSQL"),
            (json!({"replcas": 2}), "replcas"),
            (json!({"init": {"enabled": true}}), "init.organization is required"),
        ] {
            let done = render(&python, &values);
            let text = String::from_utf8_lossy(&done.stderr);
            assert!(!done.status.success() && text.contains(wanted), "{wanted}: {text}");
        }
    }

    #[test]
    fn plain_manifests_are_those_of_the_chart() {
        let Some(python) = find_python() else { return };
        let values = json!({"init": {"enabled": true, "organization": "acme", "email": "you@acme.test"}});
        let rendered = render_manifest(&python, &values);
        let is_kept = |line: &&str| {
            !line.is_empty()
                && !line.starts_with("# Source: ")
                && !line.contains("app.kubernetes.io/managed-by: ")
                && !line.contains("helm.sh/resource-policy: ")
                && *line != "  annotations:"
        };
        let lines: Vec<&str> = rendered.lines().filter(is_kept).collect();
        let text = format!("{MANIFEST_HEADER}{}\n", lines.join("\n"));
        let file = root().join(MANIFEST);
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            write(&file, &text).unwrap();
        }
        assert_eq!(std::fs::read_to_string(&file).unwrap_or_default(), text);
        validate(&python, &text);
    }

    #[test]
    fn chart_has_the_version_of_the_program() {
        let chart = std::fs::read_to_string(root().join("packaging/helm/berth/Chart.yaml")).unwrap();
        for line in ["version", "appVersion"] {
            assert!(chart.contains(&format!("\n{line}: {}\n", env!("CARGO_PKG_VERSION"))), "{chart}");
        }
    }
}
