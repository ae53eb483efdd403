import { Table, Text } from "@mantine/core";
import { IconUsersGroup } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { Team } from "@/api/types";
import { useOrg, usePermission } from "@/data/me";
import { teamsQuery } from "@/data/teams";
import { EmptyState } from "@/ui/EmptyState";
import { Link } from "@/ui/Link";
import { ActionsCell, LabelledCell } from "@/ui/lists/ResponsiveTable";
import { SettingsList } from "@/ui/lists/SettingsList";
import { RelativeTime } from "@/ui/RelativeTime";
import { NewTeamDialog } from "../dialogs/teamDialogs";

export function TeamsPage() {
  const mayWrite = usePermission("members:write");
  const teams = useQuery(teamsQuery(useOrg()));
  const [isAdding, setAdding] = useState(false);
  return (
    <SettingsList
      title="Teams"
      lead="Groups of members. Grants of a team apply to all of its members."
      add={mayWrite && { label: "Create team", onClick: () => setAdding(true) }}
      query={teams}
      columns={["Name", "Members", "Created"]}
      row={team => <TeamRow team={team} />}
      empty={
        <EmptyState icon={IconUsersGroup} title="No teams yet">
          Create one to give several members the same access, or to ask a team for approvals.
        </EmptyState>
      }
    >
      {isAdding && <NewTeamDialog onClose={() => setAdding(false)} />}
    </SettingsList>
  );
}

function TeamRow({ team }: { team: Team }) {
  const org = useOrg();
  return (
    <Table.Tr>
      <Table.Td>
        <Link to="/o/$org/settings/teams/$teamId" params={{ org, teamId: team.slug }} fw={550}>
          {team.name}
        </Link>
        <Text size="sm" c="dimmed">
          <code>team:{team.slug}</code>
        </Text>
      </Table.Td>
      <LabelledCell of="Members">{team.memberCount}</LabelledCell>
      <LabelledCell of="Created">
        <RelativeTime at={team.createdAt} />
      </LabelledCell>
      <ActionsCell />
    </Table.Tr>
  );
}
