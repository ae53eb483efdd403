import { Badge, Button, Card, Group, NativeSelect, Stack, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useParams } from "@tanstack/react-router";
import { useState } from "react";
import type { Member, Role } from "@/api/types";
import { useAccess, useMe, useOrg, usePermission } from "@/data/me";
import { memberQuery } from "@/data/members";
import { roleIncludes } from "@/data/permissions";
import { memberTeamsQuery } from "@/data/teams";
import { ROLE_SUMMARIES, roleOptions } from "@/format/access";
import { GrantList } from "@/ui/access/GrantList";
import { Link } from "@/ui/Link";
import { Page } from "@/ui/Page";
import { QueryResult } from "@/ui/QueryResult";
import { ChangeRoleDialog, ResetSecondFactorDialog } from "../dialogs/memberDialogs";
import { AccessExplanation } from "./AccessExplanation";

/** One member: role, teams, grants, and what they may do. */
export function MemberPage() {
  const { org, userId } = useParams({ from: "/o/$org/settings/members/$userId" });
  const member = useQuery(memberQuery(org, userId));
  return (
    <QueryResult of={member}>
      {found => (
        <Page
          title={found.name}
          lead={
            found.kind === "person"
              ? found.email
              : `${found.email}, ${found.kind === "agent" ? "agent" : "service account"}`
          }
        >
          <Card component="section" aria-label="Role and teams">
            <Stack>
              <MemberRole member={found} />
              <MemberTeams member={found} />
              {found.kind === "person" && <MemberSecondFactor member={found} />}
            </Stack>
          </Card>
          <GrantList
            subject={{ key: `user:${found.id}`, name: found.name }}
            none={`${found.name} has no grants apart from those of teams.`}
          />
          <AccessExplanation member={found} />
        </Page>
      )}
    </QueryResult>
  );
}

function MemberRole({ member }: { member: Member }) {
  const isMe = member.id === useMe().user.id;
  const mine = useAccess().role;
  const mayWrite = usePermission("members:write") && !isMe && roleIncludes(mine, member.role);
  const [role, setRole] = useState<Role | null>(null);
  if (!mayWrite) {
    return (
      <div>
        <Title order={2} fz="sm">
          Role in the organization
        </Title>
        <Text>
          {member.role}: {ROLE_SUMMARIES[member.role]}
        </Text>
      </div>
    );
  }
  return (
    <>
      <NativeSelect
        label="Role in the organization"
        data={roleOptions(mine)}
        value={member.role}
        onChange={event => setRole(event.currentTarget.value as Role)}
        maw={640}
      />
      {role && <ChangeRoleDialog member={member} role={role} onClose={() => setRole(null)} />}
    </>
  );
}

function MemberSecondFactor({ member }: { member: Member }) {
  const isMe = member.id === useMe().user.id;
  const mine = useAccess().role;
  const mayReset = usePermission("members:write") && !isMe && roleIncludes(mine, member.role);
  const [isResetting, setResetting] = useState(false);
  return (
    <div>
      <Title order={2} fz="sm" mb={4}>
        Second factor
      </Title>
      <Group>
        <Text>{member.hasSecondFactor ? "On" : "Off"}</Text>
        {member.hasSecondFactor && mayReset && (
          <Button size="xs" variant="default" onClick={() => setResetting(true)}>
            Reset
          </Button>
        )}
      </Group>
      {isResetting && <ResetSecondFactorDialog member={member} onClose={() => setResetting(false)} />}
    </div>
  );
}

function MemberTeams({ member }: { member: Member }) {
  const org = useOrg();
  const teams = useQuery(memberTeamsQuery(org, member.id));
  return (
    <div>
      <Title order={2} fz="sm" mb={4}>
        Teams
      </Title>
      <QueryResult of={teams}>
        {found =>
          found.length === 0 ? (
            <Text c="dimmed">None</Text>
          ) : (
            <Group gap="xs">
              {found.map(({ team, source }) => (
                <Group key={team.id} gap={4}>
                  <Link to="/o/$org/settings/teams/$teamId" params={{ org, teamId: team.slug }}>
                    {team.name}
                  </Link>
                  {source !== "manual" && (
                    <Badge color="gray" c="inherit">
                      {source}
                    </Badge>
                  )}
                </Group>
              ))}
            </Group>
          )
        }
      </QueryResult>
    </div>
  );
}
