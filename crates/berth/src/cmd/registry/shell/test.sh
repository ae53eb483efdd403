#!/bin/sh
# Calls the steps as Berth does: one process per call, the answer in a file.
set -eu
cd "$(dirname "$0")"
dir=$(mktemp -d)
trap 'rm -r "$dir"' EXIT

call() {
  rm -f "$dir/answer.json"
  printf '%s' "$1" > "$dir/task.json"
  sh ./registry.sh --input-file "$dir/task.json" --output "$dir/answer.json" --log-dir "$dir" --execution-id call-1
}
expect() {
  found=$(jq -c "$1" "$dir/answer.json")
  if [ "$found" != "$2" ]; then
    echo "$1 is $found, expected $2"
    exit 1
  fi
}

call '{"job":"SYNTHESIZE-METADATA"}'
expect '[.data.metadata[].stepType]' '["GREET","ROLLOUT","WIPE"]'
call '{"job":"EXECUTE","type":"GREET","params":{"who":"world"}}'
expect . '{"status":"SUCCESS","data":{"text":"Hello, world!"}}'
call '{"job":"EXECUTE","type":"ROLLOUT","params":{"version":"v1"}}'
expect . '{"status":"TRIGGERED","pollingState":{"id":"rollout-v1","ready":0}}'
call '{"job":"EXECUTE","type":"ROLLOUT","params":{"version":"v1"},"pollingState":{"id":"rollout-v1","ready":0}}'
expect .status '"POLL_AGAIN"'
call '{"job":"EXECUTE","type":"ROLLOUT","params":{"version":"v1"},"pollingState":{"id":"rollout-v1","ready":1}}'
expect .data '{"id":"rollout-v1","ready":2}'
call '{"job":"EXECUTE","type":"WIPE","params":{"table":"sessions"}}'
expect .status '"APPROVAL_REQUIRED"'
call '{"job":"EXECUTE","type":"WIPE","params":{"table":"sessions"},"approvalContext":{"approved":true,"approverId":"ada"}}'
expect .status '"SUCCESS"'
call '{"job":"EXECUTE","type":"greet","params":{}}'
expect .errorCode '"STEP_NOT_FOUND"'
echo "all tests passed"
