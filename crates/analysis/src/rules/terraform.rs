//! Rules for Terraform and OpenTofu.

use crate::category::Category::{Credentials, Terraform};
use crate::rule::{CAUSE, GENERAL, Rule};

/// Output that only Terraform and OpenTofu print.
const SIGNS: &[&str] = &[r"\bon \S+\.tf(?:\.json)? line \d+", r"(?i)\bterraform\b", r"\btofu\b"];

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "terraform-lock",
        category: Terraform,
        patterns: &[r"Error: (?P<what>Error acquiring the state lock)", r"Error (?P<what>locking state)"],
        after: 4,
        says: "The state is locked by another run ({what}).",
        advice: "Wait for the other run; use `terraform force-unlock` only if it is certain to have ended.",
        ..CAUSE
    },
    Rule {
        id: "terraform-init",
        category: Terraform,
        patterns: &[
            r"Error: (?P<what>Module not installed|Inconsistent dependency lock file|Backend initialization required.*|Missing required provider|Required plugins are not installed)",
            r"(?P<what>please run \x22terraform init\x22)",
        ],
        after: 2,
        says: "The working directory is not initialized: {what}.",
        advice: "Run `terraform init` first, in this step, and commit `.terraform.lock.hcl`.",
        ..CAUSE
    },
    Rule {
        id: "terraform-provider",
        category: Terraform,
        patterns: &[
            r"Error: (?P<what>Failed to query available provider packages|Failed to install provider|Incompatible provider version)",
        ],
        after: 4,
        says: "A provider cannot be installed: {what}.",
        advice: "Fix source and version in required_providers, and check the connection to the registry.",
        ..CAUSE
    },
    Rule {
        id: "terraform-module",
        category: Terraform,
        patterns: &[
            r"Error: (?P<what>Unreadable module directory|Failed to download module|Invalid module source address|Module not found)",
        ],
        after: 4,
        says: "A module was not found: {what}.",
        advice: "Fix its `source`; the path is relative to the file that names it.",
        ..CAUSE
    },
    Rule {
        id: "terraform-credentials",
        category: Credentials,
        patterns: &[
            r"Error: (?P<what>.*No valid credential sources found.*)",
            r"Error: (?P<what>.*(?:could not find default credentials|building AzureRM Client|Invalid provider configuration).*)",
        ],
        says: "The provider has no credentials: {what}.",
        advice: "Pass the provider's credentials to the step as secrets.",
        ..CAUSE
    },
    Rule {
        id: "terraform-configuration",
        category: Terraform,
        patterns: &[
            r"Error: (?P<what>Unsupported argument|Unsupported block type|Missing required argument|Reference to undeclared .+|Invalid reference|Unsupported attribute|Invalid function argument|Invalid expression|Argument or block definition required|Duplicate .+|No value for required variable|Incorrect attribute value type|Invalid value for .*variable|Missing item separator|Unclosed configuration block|Call to unknown function|Cycle: .+)",
        ],
        after: 4,
        says: "Invalid Terraform configuration: {what}.",
        advice: "Fix the location that the next lines name; `terraform validate` checks the configuration.",
        ..CAUSE
    },
    Rule {
        id: "terraform-error",
        category: Terraform,
        patterns: &[r"^(?:[│|╷] ?)?Error: (?P<what>.+)"],
        with: SIGNS,
        after: 4,
        says: "Terraform failed: {what}.",
        advice: "The next lines name the file and the resource.",
        ..GENERAL
    },
];
