# A step that asks people first. It is called once to say what it would do, and again when somebody has agreed.

table=$(param table)
if [ -z "$approver" ]; then
  # This is what they are shown. Look here how much it would be.
  ask_people "empties the table $table"
else
  log "empties $table: $approver has agreed"
  succeed "$(jq -nc --arg table "$table" '{table: $table}')"
fi
