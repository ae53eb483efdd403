import { Avatar, Badge, Button, Group, NativeSelect, Table, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { Member, Role } from "@/api/types";
import { useAccess, useMe, useOrg, usePermission } from "@/data/me";
import { membersQuery } from "@/data/members";
import { roleIncludes } from "@/data/permissions";
import { roleOptions } from "@/format/access";
import { Link } from "@/ui/Link";
import { ActionsCell, LabelledCell } from "@/ui/lists/ResponsiveTable";
import { SettingsList } from "@/ui/lists/SettingsList";
import { RelativeTime } from "@/ui/RelativeTime";
import { InviteDialog } from "../dialogs/InviteDialog";
import { ChangeRoleDialog, LogOutMemberDialog, RemoveMemberDialog } from "../dialogs/memberDialogs";
import { NewServiceAccountDialog } from "../dialogs/NewServiceAccountDialog";
import { PendingInvitations } from "./PendingInvitations";

type MemberDialog =
  | { of: "invite" }
  | { of: "service" }
  | { of: "logout"; member: Member }
  | { of: "remove"; member: Member }
  | { of: "role"; member: Member; role: Role };

export function MembersPage() {
  const mayWrite = usePermission("members:write");
  const members = useQuery(membersQuery(useOrg()));
  const [dialog, setDialog] = useState<MemberDialog | null>(null);
  const close = () => setDialog(null);
  return (
    <SettingsList
      title="Members"
      lead="People and service accounts with access to this organization"
      add={mayWrite && { label: "Invite member", onClick: () => setDialog({ of: "invite" }) }}
      actions={
        <Button variant="default" onClick={() => setDialog({ of: "service" })}>
          Add service account
        </Button>
      }
      query={members}
      columns={["Name", "Role", "Joined"]}
      row={member => (
        <MemberRow
          member={member}
          mayWrite={mayWrite}
          changeRole={role => setDialog({ of: "role", member, role })}
          logOut={() => setDialog({ of: "logout", member })}
          remove={() => setDialog({ of: "remove", member })}
        />
      )}
    >
      {mayWrite && <PendingInvitations />}
      {dialog?.of === "invite" && <InviteDialog onClose={close} />}
      {dialog?.of === "service" && <NewServiceAccountDialog onClose={close} />}
      {dialog?.of === "role" && (
        <ChangeRoleDialog member={dialog.member} role={dialog.role} onClose={close} />
      )}
      {dialog?.of === "logout" && <LogOutMemberDialog member={dialog.member} onClose={close} />}
      {dialog?.of === "remove" && <RemoveMemberDialog member={dialog.member} onClose={close} />}
    </SettingsList>
  );
}

type RowProps = {
  member: Member;
  mayWrite: boolean;
  changeRole: (role: Role) => void;
  logOut: () => void;
  remove: () => void;
};

function MemberRow({ member, mayWrite, changeRole, logOut, remove }: RowProps) {
  const org = useOrg();
  const isMe = member.id === useMe().user.id;
  const mine = useAccess().role;
  const mayChange = mayWrite && !isMe && roleIncludes(mine, member.role);
  return (
    <Table.Tr>
      <Table.Td>
        <Group gap="sm" wrap="nowrap">
          <Avatar name={member.name} color="tide" size={32} radius="xl" />
          <div>
            <Text fw={550}>
              <Link to="/o/$org/settings/members/$userId" params={{ org, userId: member.id }} inherit>
                {member.name}
              </Link>{" "}
              {isMe && "(you)"}{" "}
              {member.kind !== "person" && (
                <Badge color="gray" c="inherit" ml={4}>
                  {member.kind === "agent" ? "agent" : "service account"}
                </Badge>
              )}
            </Text>
            <Text size="sm" c="dimmed">
              {member.email}
            </Text>
          </div>
        </Group>
      </Table.Td>
      <LabelledCell of="Role">
        {mayChange ? (
          <NativeSelect
            aria-label={`Role of ${member.name}`}
            data={roleOptions(mine)}
            value={member.role}
            onChange={event => changeRole(event.currentTarget.value as Role)}
            w="min(16rem, 100%)"
          />
        ) : (
          member.role
        )}
      </LabelledCell>
      <LabelledCell of="Joined">
        <RelativeTime at={member.createdAt} />
      </LabelledCell>
      <ActionsCell>
        {mayChange && member.kind === "person" && (
          <Button size="xs" variant="default" onClick={logOut} aria-label={`Log out ${member.name}`}>
            Log out
          </Button>
        )}
        {mayChange && (
          <Button size="xs" variant="default" onClick={remove} aria-label={`Remove ${member.name}`}>
            Remove
          </Button>
        )}
      </ActionsCell>
    </Table.Tr>
  );
}
