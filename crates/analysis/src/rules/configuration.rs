//! Rules for configuration: variables, and files that cannot be parsed.

use crate::category::Category::Configuration;
use crate::rule::{CAUSE, GENERAL, Rule};

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "pipeline-field",
        category: Configuration,
        patterns: &[r"unknown field `(?P<name>[^`]+)`; did you mean `[^`]+`\?"],
        says: "The pipeline definition has an unknown field: {name}.",
        advice: "Use the field that the message suggests; `berth pipeline validate` checks the file.",
        ..CAUSE
    },
    Rule {
        id: "variable-missing",
        category: Configuration,
        patterns: &[
            r"(?P<name>[A-Za-z_]\w*): (?:unbound variable|parameter (?:null or )?not set)",
            r"\b\d+: (?P<name>[A-Z_][A-Z0-9_]*): .*\b(?:set|missing|required|needed)\b",
            r"(?i)(?:environment )?variable [\x22'`$]*(?P<name>[A-Z_][A-Z0-9_]*)[\x22'`]* (?:is |was )?(?:not (?:set|found|defined)|missing|required|undefined|must be set)",
            r"(?i)missing (?:required )?(?:environment variable|env(?:ironment)? var|setting)s?:? [\x22'`$]*(?P<name>[A-Z_][A-Z0-9_]*)",
            r"\b(?P<name>[A-Z][A-Z0-9]*_[A-Z0-9_]+) (?:is |must be |was )?(?:not set|required|missing|undefined|set\b)",
            r"KeyError: '(?P<name>[A-Z][A-Z0-9]*_[A-Z0-9_]+)'",
        ],
        says: "The variable {name} is not set.",
        advice: "Pass it to the step in `env`, from `vars` or a secret. Steps only see declared variables.",
        ..CAUSE
    },
    Rule {
        id: "json-invalid",
        category: Configuration,
        patterns: &[
            r"JSONDecodeError: (?P<what>.+)",
            r"SyntaxError: (?P<what>(?:Unexpected (?:token|end of JSON|non-whitespace|string|number).* JSON\b.*|.*in JSON at position.*|Expected .* in JSON.*|\x22undefined\x22 is not valid JSON))",
            r"jq: (?P<what>(?:parse )?error.*)",
            r"^(?P<what>parse error: .+ at line \d+.*)",
            r"(?P<what>invalid character .+ looking for beginning of .+)",
            r"(?P<what>EJSONPARSE|Failed to parse (?:package\.)?json.*)",
            r"(?P<what>Unexpected end of JSON input)",
            r"(?i)(?P<what>error parsing json.*|invalid json\b.*)",
        ],
        says: "Invalid JSON: {what}.",
        advice: "Fix it at the reported position. If it came from a server, check the actual response.",
        ..CAUSE
    },
    Rule {
        id: "yaml-invalid",
        category: Configuration,
        patterns: &[
            r"(?P<what>error parsing \S+: error converting YAML to JSON.*)",
            r"(?P<what>yaml: (?:line \d+|unmarshal errors|control characters).*)",
            r"(?P<what>yaml\.\w+\.(?:Scanner|Parser|Composer|Constructor)Error.*)",
            r"(?P<what>mapping values are not allowed (?:here|in this context))",
            r"(?P<what>YAML(?:Exception|ParseError|SyntaxError|SemanticError).*)",
            r"(?P<what>did not find expected (?:key|'-' indicator|node content|',' or '\]').*)",
        ],
        says: "Invalid YAML: {what}.",
        advice: "Fix the indentation at the reported line; YAML does not allow tabs.",
        ..CAUSE
    },
    Rule {
        id: "toml-invalid",
        category: Configuration,
        patterns: &[
            r"(?P<what>TOML parse error at .+)",
            r"^\s*--> (?P<what>\S+\.toml:\d+:\d+)",
            r"(?P<what>TOMLDecodeError.*)",
            r"(?P<what>failed to parse manifest at .+)",
            r"(?P<what>configparser\.\w+Error.*)",
            r"(?P<what>xml\S*ParseError: .+|SAXParseException.*)",
        ],
        after: 4,
        says: "A configuration file cannot be parsed: {what}.",
        advice: "Fix it at the reported line.",
        ..CAUSE
    },
    Rule {
        id: "invalid-configuration",
        category: Configuration,
        patterns: &[
            r"(?i)(?P<what>\b(?:invalid|bad|malformed|broken) (?:configuration|config|settings?)\b.*)",
            r"(?i)(?P<what>\b(?:config(?:uration)?|settings?)(?: file)? (?:error|is invalid|not found|missing)\b.*)",
            r"(?P<what>nginx: \[emerg\] .+)",
        ],
        says: "Invalid configuration: {what}.",
        advice: "Fix the setting that the line names.",
        ..GENERAL
    },
];
