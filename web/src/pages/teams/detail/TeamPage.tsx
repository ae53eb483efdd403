import { Button, Group } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useParams } from "@tanstack/react-router";
import { useState } from "react";
import type { Team } from "@/api/types";
import { useOrganization, usePermission } from "@/data/me";
import { teamQuery } from "@/data/teams";
import { GrantList } from "@/ui/access/GrantList";
import { NotificationRules } from "@/ui/notificationRules/NotificationRules";
import { Page } from "@/ui/Page";
import { QueryResult } from "@/ui/QueryResult";
import { DeleteTeamDialog, RenameTeamDialog } from "../dialogs/teamDialogs";
import { TeamMembers } from "./TeamMembers";

/** One team: its members, grants and notification rules. */
export function TeamPage() {
  const { org, teamId } = useParams({ from: "/o/$org/settings/teams/$teamId" });
  const team = useQuery(teamQuery(org, teamId));
  return (
    <QueryResult of={team}>
      {found => (
        <Page title={found.name} lead={<code>team:{found.slug}</code>} actions={<TeamActions team={found} />}>
          <TeamMembers team={found} />
          <GrantList
            subject={{ key: `team:${found.id}`, name: found.name }}
            none="This team has no grants. Its members have only their own access."
          />
          <TeamRules team={found} />
        </Page>
      )}
    </QueryResult>
  );
}

function TeamRules({ team }: { team: Team }) {
  const organization = useOrganization();
  const mayWrite = usePermission("members:write");
  if (!organization) return null;
  return (
    <NotificationRules scope={{ kind: "team", teamId: team.id }} org={organization} mayWrite={mayWrite} />
  );
}

function TeamActions({ team }: { team: Team }) {
  const mayWrite = usePermission("members:write");
  const [open, setOpen] = useState<"rename" | "delete" | null>(null);
  const close = () => setOpen(null);
  if (!mayWrite) return null;
  return (
    <Group gap="xs">
      <Button variant="default" onClick={() => setOpen("rename")}>
        Rename
      </Button>
      <Button variant="default" onClick={() => setOpen("delete")}>
        Delete
      </Button>
      {open === "rename" && <RenameTeamDialog team={team} onClose={close} />}
      {open === "delete" && <DeleteTeamDialog team={team} onClose={close} />}
    </Group>
  );
}
