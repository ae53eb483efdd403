//! Tests of custom steps, with real shell registries and the real protocol.

mod build;
mod call;
mod hostile;
mod node;
mod secrets;

use berth_api::runner::{AttemptAssignment, CallInput, CustomCall, StepRunOutcome};
use serde_json::{Value, json};

use crate::fixture::{StepRunnerFixture, step};

/// Shell code that parses the arguments into `$input` (and `$file`), `$output`, `$logs` and `$id`. Its function
/// `answer` writes its argument to the answer file.
pub(crate) const ARGUMENTS: &str = r#"
while [ $# -gt 0 ]; do
  case "$1" in
    --input) input=$2 ;;
    --input-file) file=$2; input=$(cat "$2") ;;
    --output) output=$2 ;;
    --log-dir) logs=$2 ;;
    --execution-id) id=$2 ;;
  esac
  shift 2
done
answer() { printf '%s' "$1" > "$output"; }
log() { printf '%s\n' "$1" >> "$logs/$id.jsonl"; }
"#;

/// Offers a registry whose only program consists of this shell code.
pub(crate) fn offer_script(fixture: &StepRunnerFixture, digest: &str, body: &str) {
    let text = format!("{ARGUMENTS}\n{body}\n");
    fixture.link.offer_registry(digest, &[("run.sh", &text)]);
}

pub(crate) fn custom_step(id: &str, digest: &str, params: Value) -> AttemptAssignment {
    let mut assignment = step(id, "tools/deploy", params);
    assignment.custom = Some(CustomCall {
        digest: digest.into(),
        start: "sh ./run.sh".into(),
        input: CallInput::Argument,
        step_type: "DEPLOY".into(),
        polling_state: None,
        approved_by: None,
        log_bytes: 0,
    });
    assignment
}

/// Makes one call of a step that consists of this shell code.
pub(crate) fn call_step(fixture: &StepRunnerFixture, id: &str, body: &str) -> StepRunOutcome {
    offer_script(fixture, id, body);
    fixture.run(custom_step(id, id, json!({})))
}

pub(crate) fn expect_unanswered(outcome: &StepRunOutcome) -> &str {
    match outcome {
        StepRunOutcome::Unanswered { detail } => detail,
        other => panic!("wanted no answer, got {other:?}"),
    }
}
