# A long-running step: the first call starts it, later calls poll it.
#
# No process runs between calls. If the machine is lost, another one continues with the stored state.

version=$(param version)
replicas=$(param replicas 2)
if [ -z "$state" ]; then
  # Start it here and store its id. Berth never repeats this call on its own if its outcome is unknown.
  log "starting the rollout of $version"
  start_polling "$(jq -nc --arg id "rollout-$version" '{id: $id, ready: 0}')"
else
  # Check the progress here. This call may be repeated, so it must not change anything.
  ready=$(printf '%s' "$state" | jq '.ready + 1')
  log "$ready of $replicas are ready"
  state=$(printf '%s' "$state" | jq -c --argjson ready "$ready" '.ready = $ready')
  if [ "$ready" -lt "$replicas" ]; then
    poll_again "$state" 1000
  else
    succeed "$state"
  fi
fi
