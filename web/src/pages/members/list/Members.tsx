import { Avatar, Badge, Button, Group, NativeSelect, Table, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { Member, Role } from "@/api/types";
import { useMay, useMe, useOrg } from "@/data/me";
import { membersQuery } from "@/data/members";
import { ActionsCell, Cell } from "@/ui/lists/Rows";
import { SettingsList } from "@/ui/lists/SettingsList";
import { When } from "@/ui/When";
import { ChangeRole, RemoveMember } from "../dialogs/ChangeMember";
import { Invite } from "../dialogs/Invite";
import { NewServiceAccount } from "../dialogs/NewServiceAccount";
import { ROLES } from "../dialogs/roles";
import { Invitations } from "./Invitations";

type Dialog =
  | { of: "invite" }
  | { of: "service" }
  | { of: "remove"; member: Member }
  | { of: "role"; member: Member; role: Role };

export function Members() {
  const mayWrite = useMay("members:write");
  const members = useQuery(membersQuery(useOrg()));
  const [dialog, setDialog] = useState<Dialog | null>(null);
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
      columns={["Name", "Role", "Member since"]}
      row={member => (
        <Row
          member={member}
          mayWrite={mayWrite}
          changeRole={role => setDialog({ of: "role", member, role })}
          remove={() => setDialog({ of: "remove", member })}
        />
      )}
    >
      {mayWrite && <Invitations />}
      {dialog?.of === "invite" && <Invite onClose={close} />}
      {dialog?.of === "service" && <NewServiceAccount onClose={close} />}
      {dialog?.of === "role" && <ChangeRole member={dialog.member} role={dialog.role} onClose={close} />}
      {dialog?.of === "remove" && <RemoveMember member={dialog.member} onClose={close} />}
    </SettingsList>
  );
}

type RowProps = {
  member: Member;
  mayWrite: boolean;
  changeRole: (role: Role) => void;
  remove: () => void;
};

function Row({ member, mayWrite, changeRole, remove }: RowProps) {
  const isMe = member.id === useMe().user.id;
  return (
    <Table.Tr>
      <Table.Td>
        <Group gap="sm" wrap="nowrap">
          <Avatar name={member.name} color="tide" size={32} radius="xl" />
          <div>
            <Text fw={550}>
              {member.name} {isMe && "(you)"}{" "}
              {member.kind === "service" && (
                <Badge color="gray" c="inherit" ml={4}>
                  service account
                </Badge>
              )}
            </Text>
            <Text size="sm" c="dimmed">
              {member.email}
            </Text>
          </div>
        </Group>
      </Table.Td>
      <Cell of="Role">
        {mayWrite && !isMe ? (
          <NativeSelect
            aria-label={`Role of ${member.name}`}
            data={ROLES.map(role => role.value)}
            value={member.role}
            onChange={event => changeRole(event.currentTarget.value as Role)}
            w={130}
          />
        ) : (
          member.role
        )}
      </Cell>
      <Cell of="Member since">
        <When at={member.createdAt} />
      </Cell>
      <ActionsCell>
        {mayWrite && !isMe && (
          <Button size="xs" variant="default" onClick={remove} aria-label={`Remove ${member.name}`}>
            Remove
          </Button>
        )}
      </ActionsCell>
    </Table.Tr>
  );
}
