import { Button, Card, Group, Table, Text, Title } from "@mantine/core";
import { IconPlus } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { Team, TeamMember } from "@/api/types";
import { useOrg, usePermission } from "@/data/me";
import { teamMembersQuery } from "@/data/teams";
import { Link } from "@/ui/Link";
import { ActionsCell, LabelledCell, ResponsiveTable } from "@/ui/lists/ResponsiveTable";
import { QueryResult } from "@/ui/QueryResult";
import { RelativeTime } from "@/ui/RelativeTime";
import { AddTeamMemberDialog, RemoveTeamMemberDialog } from "../dialogs/teamDialogs";

/** Members of a team. Memberships from an identity provider are changed there. */
export function TeamMembers({ team }: { team: Team }) {
  const members = useQuery(teamMembersQuery(useOrg(), team.id));
  const mayWrite = usePermission("members:write");
  const [isAdding, setAdding] = useState(false);
  const [removing, setRemoving] = useState<TeamMember | null>(null);
  return (
    <section aria-label="Members">
      <Group justify="space-between" mb="sm">
        <Title order={2}>Members</Title>
        {mayWrite && (
          <Button
            variant="default"
            size="xs"
            leftSection={<IconPlus size={14} />}
            onClick={() => setAdding(true)}
          >
            Add member
          </Button>
        )}
      </Group>
      <QueryResult of={members}>
        {data =>
          data.length === 0 ? (
            <Text c="dimmed">This team has no members.</Text>
          ) : (
            <Card padding={0}>
              <ResponsiveTable of={["Name", "Source", "Added"]}>
                {data.map(member => (
                  <TeamMemberRow
                    key={member.id}
                    member={member}
                    mayRemove={mayWrite && member.source === "manual"}
                    remove={() => setRemoving(member)}
                  />
                ))}
              </ResponsiveTable>
            </Card>
          )
        }
      </QueryResult>
      {isAdding && (
        <AddTeamMemberDialog team={team} current={members.data ?? []} onClose={() => setAdding(false)} />
      )}
      {removing && <RemoveTeamMemberDialog team={team} member={removing} onClose={() => setRemoving(null)} />}
    </section>
  );
}

type RowProps = { member: TeamMember; mayRemove: boolean; remove: () => void };

function TeamMemberRow({ member, mayRemove, remove }: RowProps) {
  const org = useOrg();
  return (
    <Table.Tr>
      <Table.Td>
        <Link to="/o/$org/settings/members/$userId" params={{ org, userId: member.id }} fw={550}>
          {member.name}
        </Link>
        <Text size="sm" c="dimmed">
          {member.email}
        </Text>
      </Table.Td>
      <LabelledCell of="Source">
        {member.source === "manual" ? "added by hand" : `identity provider ${member.source}`}
      </LabelledCell>
      <LabelledCell of="Added">
        <RelativeTime at={member.addedAt} />
      </LabelledCell>
      <ActionsCell>
        {mayRemove && (
          <Button size="xs" variant="default" onClick={remove} aria-label={`Remove ${member.name}`}>
            Remove
          </Button>
        )}
      </ActionsCell>
    </Table.Tr>
  );
}
