import { Avatar, Badge, Button, Card, Group, NativeSelect, Table, Text } from "@mantine/core";
import { IconPlus } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { Member, Role } from "@/api/types";
import { useMay, useMe, useOrg } from "@/data/me";
import { membersQuery, useChangeRole, useRemoveMember } from "@/data/members";
import { Confirm } from "@/ui/Confirm";
import { tell } from "@/ui/notify";
import { Page } from "@/ui/Page";
import { Query } from "@/ui/Query";
import { When } from "@/ui/When";
import { Cell, Rows } from "../settings/Rows";
import { Invitations } from "./Invitations";
import { Invite } from "./Invite";
import { NewServiceAccount } from "./NewServiceAccount";
import { CONSEQUENCES, ROLES } from "./roles";

type Dialog =
  | { of: "invite" }
  | { of: "service" }
  | { of: "remove"; member: Member }
  | { of: "role"; member: Member; role: Role };

/** Who belongs here, and as what. */
export function Members() {
  const org = useOrg();
  const mayWrite = useMay("members:write");
  const members = useQuery(membersQuery(org));
  const [dialog, setDialog] = useState<Dialog | null>(null);
  const close = () => setDialog(null);
  return (
    <Page
      title="Members"
      lead="People, and service accounts for programs. A role says what they may do."
      actions={
        mayWrite && (
          <>
            <Button variant="default" onClick={() => setDialog({ of: "service" })}>
              Add service account
            </Button>
            <Button leftSection={<IconPlus size={16} />} onClick={() => setDialog({ of: "invite" })}>
              Invite
            </Button>
          </>
        )
      }
    >
      <Query of={members}>
        {({ data }) => (
          <Card padding={0}>
            <Rows of={["Name", "Role", "Member since"]}>
              {data.map(member => (
                <Row
                  key={member.id}
                  member={member}
                  mayWrite={mayWrite}
                  changeRole={role => setDialog({ of: "role", member, role })}
                  remove={() => setDialog({ of: "remove", member })}
                />
              ))}
            </Rows>
          </Card>
        )}
      </Query>
      {mayWrite && <Invitations />}
      {dialog?.of === "invite" && <Invite onClose={close} />}
      {dialog?.of === "service" && <NewServiceAccount onClose={close} />}
      {dialog?.of === "role" && <ChangeRole member={dialog.member} role={dialog.role} onClose={close} />}
      {dialog?.of === "remove" && <RemoveMember member={dialog.member} onClose={close} />}
    </Page>
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
      <Table.Td>
        {mayWrite && !isMe && (
          <Group justify="flex-end">
            <Button size="xs" variant="default" onClick={remove} aria-label={`Remove ${member.name}`}>
              Remove
            </Button>
          </Group>
        )}
      </Table.Td>
    </Table.Tr>
  );
}

type DialogProps = { member: Member; onClose: () => void };

function ChangeRole({ member, role, onClose }: DialogProps & { role: Role }) {
  const change = useChangeRole(useOrg());
  return (
    <Confirm
      opened
      onClose={onClose}
      title={`Make ${member.name} ${role}?`}
      action="Change role"
      pending={change.isPending}
      error={change.error}
      onConfirm={() =>
        change.mutate(
          { userId: member.id, role },
          {
            onSuccess: () => {
              tell(`${member.name} is ${role} now`);
              onClose();
            },
          },
        )
      }
    >
      <Text size="sm">{CONSEQUENCES[role]}</Text>
    </Confirm>
  );
}

function RemoveMember({ member, onClose }: DialogProps) {
  const remove = useRemoveMember(useOrg());
  return (
    <Confirm
      opened
      onClose={onClose}
      title={`Remove ${member.name}?`}
      action="Remove"
      danger
      pending={remove.isPending}
      error={remove.error}
      onConfirm={() =>
        remove.mutate(member.id, {
          onSuccess: () => {
            tell(`${member.name} removed`);
            onClose();
          },
        })
      }
    >
      <Text size="sm">
        Their tokens for this organization stop working at once. What they did stays in the audit log.
      </Text>
    </Confirm>
  );
}
