#!/bin/sh
# What is started for every call. One process per call; nothing lives between calls.
#
#   sh ./registry.sh --input-file <file> --output <file> --log-dir <dir> --execution-id <id>
#
# The file named by --output is the answer. The exit code says nothing: a step that failed writes FAILED into the file.
# Needs jq on the runner.
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

# Written beside it first: a file that is there is whole.
answer() { printf '%s\n' "$1" > "$output.new" && mv "$output.new" "$output"; }
succeed() { answer "$(jq -nc --argjson data "$1" '{status: "SUCCESS", data: $data}')"; }
fail() { answer "$(jq -nc --arg error "$1" --arg code "${2:-}" '{status: "FAILED", error: $error}
  + if $code == "" then {} else {errorCode: $code} end')"; }
ask_people() { answer "$(jq -nc --arg context "$1" '{status: "APPROVAL_REQUIRED", approvalRequest: {context: $context}}')"; }
# What is remembered is stored before the next call, and is `$state` there. Keep it small, and no secrets in it.
begun() { answer "$(jq -nc --argjson state "$1" '{status: "TRIGGERED", pollingState: $state}')"; }
look_again() { answer "$(jq -nc --argjson state "$1" --argjson ms "$2" '{status: "POLL_AGAIN", pollingState: $state, retryAfterMs: $ms}')"; }
log() { jq -nc --arg message "$1" '{timestamp: (now | todate), level: "info", message: $message}' \
  >> "$log_dir/$execution_id.jsonl"; }

if [ "$(printf '%s' "$task" | jq -r .job)" = SYNTHESIZE-METADATA ]; then
  # steps/*.json say what there is: type, description, and the schema of the params.
  answer "$(jq -sc '{status: "SUCCESS", data: {metadata: .}}' steps/*.json)"
  exit 0
fi

step_type=$(printf '%s' "$task" | jq -r .type)
# Empty when this is the first call, and as long as nobody had to agree.
state=$(printf '%s' "$task" | jq -c '.pollingState // empty')
approver=$(printf '%s' "$task" | jq -r '.approvalContext.approverId // empty')
param() { printf '%s' "$task" | jq -r --arg name "$1" --arg default "${2:-}" '.params[$name] // $default'; }

# The type has to match exactly, so it is looked up and not made into a path.
case "$step_type" in
  GREET) . ./steps/greet.sh ;;
  ROLLOUT) . ./steps/rollout.sh ;;
  WIPE) . ./steps/wipe.sh ;;
  *) fail "there is no step of the type $step_type" STEP_NOT_FOUND ;;
esac
