//! Rules for kubectl, Helm and the state of workloads.

use crate::category::Category::{Credentials, Kubernetes, Memory, Timeout};
use crate::rule::{CAUSE, REPORT, Rule};

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "cluster-unreachable",
        category: Kubernetes,
        patterns: &[
            r"The connection to the server (?P<what>\S+) was refused",
            r"Unable to connect to the server: (?P<what>.+)",
            r"Kubernetes cluster unreachable: (?P<what>.+)",
            r"couldn't get current server API group list: (?P<what>.+)",
        ],
        says: "The cluster cannot be reached: {what}.",
        advice: "Check the server address in the kubeconfig, and whether this machine can reach it.",
        ..CAUSE
    },
    Rule {
        id: "cluster-context",
        category: Kubernetes,
        patterns: &[
            r"(?P<what>context (?:was not found for specified context: \S+|\x22[^\x22]+\x22 does not exist))",
            r"(?P<what>no context exists with the name.*)",
            r"(?P<what>invalid configuration: no configuration has been provided)",
            r"(?P<what>error loading config file .+)",
        ],
        says: "The kubeconfig is missing or incomplete: {what}.",
        advice: "Pass the right kubeconfig to the step (`secret_files`), and fix the context name.",
        ..CAUSE
    },
    Rule {
        id: "cluster-credentials",
        category: Credentials,
        patterns: &[
            r"(?P<what>You must be logged in to the server)",
            r"Error from server \((?P<what>Forbidden|Unauthorized)\)",
            r"(?P<what>User \x22[^\x22]+\x22 cannot \w+ resource)",
        ],
        says: "The cluster denies access: {what}.",
        advice: "Renew the credentials, or grant their role the verb and resource that the line names.",
        ..CAUSE
    },
    Rule {
        id: "cluster-kind",
        category: Kubernetes,
        patterns: &[
            r"no matches for kind (?P<what>\x22[^\x22]+\x22 in version \x22[^\x22]+\x22)",
            r"the server doesn't have a resource type (?P<what>\x22[^\x22]+\x22)",
        ],
        says: "The cluster does not know the resource kind: {what}.",
        advice: "Install its CRD first, or use an apiVersion that the cluster supports.",
        ..CAUSE
    },
    Rule {
        id: "manifest-invalid",
        category: Kubernetes,
        patterns: &[
            r"(?P<what>The \w+ \x22[^\x22]+\x22 is invalid.*)",
            r"error validating (?P<what>\S+):",
            r"(?P<what>ValidationError\([^)]+\).*)",
            r"(?P<what>field is immutable)",
            r"strict decoding error: (?P<what>unknown field .+)",
            r"admission webhook \x22(?P<what>[^\x22]+)\x22 denied the request",
        ],
        after: 1,
        says: "The cluster rejects a manifest: {what}.",
        advice: "Fix the field that the line names; `kubectl apply --dry-run=server` checks a manifest.",
        ..CAUSE
    },
    Rule {
        id: "cluster-not-found",
        category: Kubernetes,
        patterns: &[
            r"Error from server \(NotFound\): (?P<what>.+)",
            r"(?P<what>namespaces \x22[^\x22]+\x22 not found)",
        ],
        says: "The resource does not exist in the cluster: {what}.",
        advice: "Check name and namespace, or create it first.",
        ..CAUSE
    },
    Rule {
        id: "image-pull",
        category: Kubernetes,
        patterns: &[
            r"(?P<what>ImagePullBackOff|ErrImagePull|InvalidImageName)",
            r"Failed to pull image (?P<what>\x22[^\x22]+\x22)",
        ],
        says: "The cluster cannot pull the image ({what}).",
        advice: "Check the name and the tag of the image, and add a pull secret to the namespace if the registry is private.",
        ..CAUSE
    },
    Rule {
        id: "pod-memory",
        category: Memory,
        patterns: &[r"(?P<what>OOMKilled)"],
        says: "A container exceeded its memory limit ({what}).",
        advice: "Raise the limit, or find the leak.",
        ..CAUSE
    },
    Rule {
        id: "pod-crash",
        category: Kubernetes,
        patterns: &[
            r"(?P<what>CrashLoopBackOff|Back-off restarting failed container|CreateContainerConfigError)",
        ],
        says: "A container of the workload keeps crashing ({what}).",
        advice: "See its log with `kubectl logs --previous`.",
        ..CAUSE
    },
    Rule {
        id: "pod-unschedulable",
        category: Kubernetes,
        patterns: &[
            r"FailedScheduling.*?(?P<what>\d+/\d+ nodes are available.*)",
            r"(?P<what>\d+/\d+ nodes are available: .+)",
        ],
        says: "No node of the cluster can run the workload: {what}.",
        advice: "Lower the requests, add nodes, or fix selectors and tolerations.",
        ..CAUSE
    },
    Rule {
        id: "rollout-timeout",
        category: Timeout,
        patterns: &[
            r"(?P<what>exceeded its progress deadline)",
            r"(?P<what>timed out waiting for the condition)(?: on \S+)?",
        ],
        says: "The workload did not become ready in time ({what}).",
        advice: "Check its pods with `kubectl describe`, then probes and limits.",
        ..CAUSE
    },
    Rule {
        id: "helm-report",
        category: Kubernetes,
        patterns: &[
            r"Error: (?P<what>(?:UPGRADE|INSTALLATION|ROLLBACK) FAILED.*)",
            r"(?P<what>another operation \(install/upgrade/rollback\) is in progress)",
            r"Error: (?P<what>failed to download \S+)",
            r"Error: (?P<what>chart \S+ .*not found.*)",
        ],
        says: "Helm failed: {what}.",
        advice: "The end of the line says why; `helm history` shows the releases.",
        ..REPORT
    },
];
