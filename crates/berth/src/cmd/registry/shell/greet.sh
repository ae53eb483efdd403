# The simplest step: one call, one answer.

text="$(param greeting Hello), $(param who)!"
log "$text"
# Pass secrets with `env` in the pipeline: `env: { TOKEN: "${{ secrets.TOKEN }}" }`, here "$TOKEN".
succeed "$(jq -nc --arg text "$text" '{text: $text}')"
