import { NativeSelect, Text } from "@mantine/core";
import { useState } from "react";
import type { Role } from "@/api/types";
import { useCreateGrant } from "@/data/grants";
import { useAccess, useOrg } from "@/data/me";
import { formatGrantSentence, grantRoleOptions } from "@/format/access";
import { ConfirmDialog } from "../ConfirmDialog";
import { EMPTY_SCOPE, ScopePicker, toScopeText } from "./ScopePicker";

/** The member or team that a grant is for, as in `user:ID` or `team:ID`. */
export type GrantSubject = { key: string; name: string };

type Props = { subject: GrantSubject; onClose: () => void };

/** Gives a member or a team a role on a part of the organization. */
export function NewGrantDialog({ subject, onClose }: Props) {
  const create = useCreateGrant(useOrg());
  const mine = useAccess().role;
  const [role, setRole] = useState<Role>("tester");
  const [draft, setDraft] = useState(EMPTY_SCOPE);
  const scope = toScopeText(draft);
  return (
    <ConfirmDialog
      onClose={onClose}
      title={`Add grant for ${subject.name}`}
      action="Add grant"
      mutation={create}
      input={scope === null ? null : { subject: subject.key, role, scope }}
      success={() => `Grant for ${subject.name} added`}
    >
      <NativeSelect
        label="Role"
        data={grantRoleOptions(mine)}
        value={role}
        data-autofocus
        onChange={event => setRole(event.currentTarget.value as Role)}
      />
      <ScopePicker label="On" of="scope" value={draft} onChange={setDraft} />
      <Text size="sm" role="status" c={scope ? undefined : "dimmed"} className="wrap">
        {scope
          ? formatGrantSentence(subject.name, role, scope)
          : "Enter names in lower case. The summary of the grant appears here."}
      </Text>
    </ConfirmDialog>
  );
}
