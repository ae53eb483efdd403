# A step for something that takes its time: the first call begins it, later ones look how far it is.
#
# Between two calls there is no process. The machine may die then, and another one goes on with what is remembered.

version=$(param version)
replicas=$(param replicas 2)
if [ -z "$state" ]; then
  # Begin it here, once, and remember its id: an id is small, and no secret. Berth never repeats this call by itself
  # when its end is not known.
  log "begins the rollout of $version"
  begun "$(jq -nc --arg id "rollout-$version" '{id: $id, ready: 0}')"
else
  # Ask here how far it is. This call may be repeated, so it must change nothing.
  ready=$(printf '%s' "$state" | jq '.ready + 1')
  log "$ready of $replicas are there"
  state=$(printf '%s' "$state" | jq -c --argjson ready "$ready" '.ready = $ready')
  if [ "$ready" -lt "$replicas" ]; then
    look_again "$state" 1000
  else
    succeed "$state"
  fi
fi
