//! The step type `image_build`: builds a container image and pushes it to a registry.

use std::sync::LazyLock;

use berth_core::step::{BuiltinStepType, OnLost};

use super::params::ParamsSchema;
use super::spec::StepSpec;

pub(super) static SPEC: StepSpec = StepSpec {
    kind: BuiltinStepType::ImageBuild,
    name: "image_build",
    summary: "Builds a container image from a Containerfile and pushes it to a registry.",
    schema: SCHEMA,
    idempotent: true,
    on_lost: OnLost::Retry,
    compiled: LazyLock::new(|| ParamsSchema::compile(SCHEMA)),
};

const SCHEMA: &str = r#"{
  "type": "object",
  "additionalProperties": false,
  "required": ["tags"],
  "properties": {
    "context": { "type": "string", "minLength": 1, "format": "berth-path", "default": ".", "description": "Directory below the workspace that the build can read." },
    "file": { "type": "string", "minLength": 1, "format": "berth-path", "default": "Containerfile", "description": "Path of the Containerfile in the context." },
    "build_args": { "type": "object", "maxProperties": 100, "additionalProperties": { "type": "string" }, "description": "Values for `ARG` in the Containerfile. Kept in the image's history, so never secrets." },
    "tags": { "type": "array", "minItems": 1, "maxItems": 20, "items": { "type": "string", "minLength": 1, "format": "berth-image-tag" }, "description": "References to push the image to, with the registry, such as `registry.acme.test/shop:1.2`." },
    "push": { "type": "boolean", "default": true, "description": "Whether to push the tags to their registry." },
    "cache": { "type": "boolean", "default": true, "description": "Whether to reuse layers of earlier builds of this pipeline for the same environment or stage on the same runner." },
    "credential": { "type": "string", "minLength": 1, "maxLength": 128, "pattern": "^[A-Za-z_][A-Za-z0-9_]*$", "description": "Name of the secret for the registry, to push and to pull base images: `USER:PASSWORD`." }
  }
}"#;

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::{Value, json};

    use super::SPEC;
    use crate::step::params::findings;

    fn check(params: &Value, expected: &Expect) {
        expected.assert_eq(&findings(&SPEC, params));
    }

    #[test]
    fn image_build_requires_tags() {
        check(&json!({ "tags": ["registry.acme.test/shop:1"], "build_args": { "A": "b" } }), &expect![[""]]);
        check(&json!({}), &expect![" missing_param: the param `tags` is missing"]);
        check(
            &json!({ "tags": [], "push": "yes", "context": "../x" }),
            &expect![[r#"
                /tags out_of_range: must not be empty
                /push wrong_type: expected `true` or `false`, found the text `yes`
                /context bad_path: must be a path inside the workspace, like `services/shop`"#]],
        );
        check(
            &json!({ "tags": ["--all"], "credential": "a:b" }),
            &expect![[r#"
            /tags/0 bad_image: `--all` begins with `-`; image names begin with a letter or digit
            /credential bad_param: "a:b" does not match "^[A-Za-z_][A-Za-z0-9_]*$""#]],
        );
        check(
            &json!({ "tags": ["docker-archive:evil"] }),
            &expect![
                "/tags/0 bad_image: `docker-archive:evil` has no registry; write it like `registry.acme.test/shop:1.2`"
            ],
        );
    }
}
