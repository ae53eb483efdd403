import { Card, Stack, Switch, Table, Text, Title } from "@mantine/core";
import { IconCheck, IconMinus } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { Member, MemberAccess } from "@/api/types";
import { memberAccessQuery } from "@/data/grants";
import { useOrg } from "@/data/me";
import { formatPermissionSource } from "@/format/access";
import { EMPTY_SCOPE, type ScopeDraft, ScopePicker, toScopeText } from "@/ui/access/ScopePicker";
import { LabelledCell, ResponsiveTable } from "@/ui/lists/ResponsiveTable";
import { QueryResult } from "@/ui/QueryResult";

/** Every permission of a member on a resource, and the role or grant it comes from. */
export function AccessExplanation({ member }: { member: Member }) {
  const [draft, setDraft] = useState<ScopeDraft>({ ...EMPTY_SCOPE, kind: "org" });
  const text = toScopeText(draft);
  const resource = text?.includes("*") ? null : text;
  return (
    <section aria-label="Access">
      <Title order={2} mb="sm">
        What may {member.name} do here, and why?
      </Title>
      <Card>
        <Stack>
          <ScopePicker label="Resource" of="resource" value={draft} onChange={setDraft} />
          {resource ? (
            <PermissionTable member={member} resource={resource} />
          ) : (
            <Text c="dimmed">Select a resource to see the permissions on it.</Text>
          )}
        </Stack>
      </Card>
    </section>
  );
}

function PermissionTable({ member, resource }: { member: Member; resource: string }) {
  const access = useQuery(memberAccessQuery(useOrg(), member.id, resource));
  const [showsAll, setShowsAll] = useState(false);
  return (
    <QueryResult of={access}>
      {found => {
        const shown = found.permissions.filter(each => showsAll || each.allowed);
        return (
          <Stack gap="sm">
            <Switch
              label="Show permissions that are not allowed"
              checked={showsAll}
              onChange={event => setShowsAll(event.currentTarget.checked)}
            />
            {shown.length === 0 ? (
              <Text>{member.name} may do nothing here.</Text>
            ) : (
              <ResponsiveTable of={["Permission", "Allowed", "Because of"]}>
                {shown.map(each => (
                  <PermissionRow key={each.permission} of={each} />
                ))}
              </ResponsiveTable>
            )}
          </Stack>
        );
      }}
    </QueryResult>
  );
}

function PermissionRow({ of }: { of: MemberAccess["permissions"][number] }) {
  return (
    <Table.Tr>
      <Table.Td>
        <code>{of.permission}</code>
        <Text size="sm" c="dimmed">
          {of.summary}
        </Text>
      </Table.Td>
      <LabelledCell of="Allowed">
        {of.allowed ? (
          <>
            <IconCheck size={14} color="var(--berth-good)" aria-hidden /> yes
          </>
        ) : (
          <>
            <IconMinus size={14} aria-hidden /> no
          </>
        )}
      </LabelledCell>
      <LabelledCell of="Because of">
        {of.grantedBy ? formatPermissionSource(of.grantedBy) : "no role or grant"}
      </LabelledCell>
      <Table.Td />
    </Table.Tr>
  );
}
