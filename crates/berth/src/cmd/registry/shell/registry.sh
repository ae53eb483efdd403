#!/bin/sh
# Entry point. Berth starts one process per call; no process runs between calls.
#
#   sh ./registry.sh --input-file <file> --output <file> --log-dir <dir> --execution-id <id>
#
# The answer is the file named by --output. The exit code is ignored: a failed step writes FAILED to the file.
# Requires jq on the runner.
set -eu

while [ $# -ge 2 ]; do
  case "$1" in
    --input) task=$2 ;;
    --input-file) task=$(cat "$2") ;;
    --output) output=$2 ;;
    --log-dir) log_dir=$2 ;;
    --execution-id) execution_id=$2 ;;
  esac
  shift 2
done

# Atomic: write to a temporary file, then rename.
answer() { printf '%s\n' "$1" > "$output.new" && mv "$output.new" "$output"; }
succeed() { answer "$(jq -nc --argjson data "$1" '{status: "SUCCESS", data: $data}')"; }
fail() { answer "$(jq -nc --arg error "$1" --arg code "${2:-}" '{status: "FAILED", error: $error}
  + if $code == "" then {} else {errorCode: $code} end')"; }
ask_for_approval() { answer "$(jq -nc --arg context "$1" '{status: "APPROVAL_REQUIRED", approvalRequest: {context: $context}}')"; }
# The state is stored and passed to the next call as `$state`. Keep it small and free of secrets.
start_polling() { answer "$(jq -nc --argjson state "$1" '{status: "TRIGGERED", pollingState: $state}')"; }
poll_again() { answer "$(jq -nc --argjson state "$1" --argjson ms "$2" '{status: "POLL_AGAIN", pollingState: $state, retryAfterMs: $ms}')"; }
log() { jq -nc --arg message "$1" '{timestamp: (now | todate), level: "info", message: $message}' \
  >> "$log_dir/$execution_id.jsonl"; }

if [ "$(printf '%s' "$task" | jq -r .job)" = SYNTHESIZE-METADATA ]; then
  # steps/*.json contain the metadata: type, description and the schema of the params.
  answer "$(jq -sc '{status: "SUCCESS", data: {metadata: .}}' steps/*.json)"
  exit 0
fi

step_type=$(printf '%s' "$task" | jq -r .type)
# Both are empty on the first call; `approver` stays empty until the step is approved.
state=$(printf '%s' "$task" | jq -c '.pollingState // empty')
approver=$(printf '%s' "$task" | jq -r '.approvalContext.approverId // empty')
param() { printf '%s' "$task" | jq -r --arg name "$1" --arg default "${2:-}" '.params[$name] // $default'; }

# Look the type up instead of building a path from it.
case "$step_type" in
  GREET) . ./steps/greet.sh ;;
  ROLLOUT) . ./steps/rollout.sh ;;
  WIPE) . ./steps/wipe.sh ;;
  *) fail "no step of type $step_type" STEP_NOT_FOUND ;;
esac
