# A step that needs an approval: the first call describes what it would do, the second one does it.

table=$(param table)
if [ -z "$approver" ]; then
  # Shown to the approvers. Describe the effect here.
  ask_for_approval "empties the table $table"
else
  log "emptying $table, approved by $approver"
  succeed "$(jq -nc --arg table "$table" '{table: $table}')"
fi
