import { Avatar, Badge, Button, Card, Group, NativeSelect, Table, Text } from "@mantine/core";
import { IconPlus } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { Member, Role } from "@/api/types";
import { useMay, useMe, useOrg } from "@/data/me";
import { membersQuery, useChangeRole, useRemoveMember } from "@/data/members";
import { Confirm } from "@/ui/Confirm";
import { tell, tellProblem } from "@/ui/notify";
import { Page } from "@/ui/Page";
import { Query } from "@/ui/Query";
import { When } from "@/ui/When";
import { Cell, Rows } from "../settings/Rows";
import { NewMember } from "./NewMember";
import { ROLES } from "./roles";

/** Who belongs here, and as what. */
export function Members() {
  const org = useOrg();
  const mayWrite = useMay("members:write");
  const members = useQuery(membersQuery(org));
  const [isAdding, setAdding] = useState(false);
  const [removing, setRemoving] = useState<Member | null>(null);
  const remove = useRemoveMember(org);
  return (
    <Page
      title="Members"
      lead="People, and accounts for programs. A role says what they may do."
      actions={
        mayWrite && (
          <Button leftSection={<IconPlus size={16} />} onClick={() => setAdding(true)}>
            Add a member
          </Button>
        )
      }
    >
      <Query of={members}>
        {({ data }) => (
          <Card padding={0}>
            <Rows of={["Name", "Role", "Member since"]}>
              {data.map(each => (
                <Row key={each.id} member={each} mayWrite={mayWrite} remove={() => setRemoving(each)} />
              ))}
            </Rows>
          </Card>
        )}
      </Query>
      {isAdding && <NewMember onClose={() => setAdding(false)} />}
      <Confirm
        opened={removing !== null}
        onClose={() => setRemoving(null)}
        title={`Remove ${removing?.name ?? ""}`}
        action="Remove"
        danger
        pending={remove.isPending}
        error={remove.error}
        onConfirm={() =>
          removing &&
          remove.mutate(removing.id, {
            onSuccess: () => {
              tell(`${removing.name} is no longer a member.`);
              setRemoving(null);
            },
          })
        }
      >
        <Text size="sm">
          Their tokens for this organization stop working at once. What they did stays in the history.
        </Text>
      </Confirm>
    </Page>
  );
}

type RowProps = { member: Member; mayWrite: boolean; remove: () => void };

function Row({ member, mayWrite, remove }: RowProps) {
  const org = useOrg();
  const me = useMe().user.id;
  const change = useChangeRole(org);
  const isMe = member.id === me;
  const to = (role: Role) =>
    change.mutate(
      { userId: member.id, role },
      { onSuccess: () => tell(`${member.name} is ${role} now.`), onError: tellProblem },
    );
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
            disabled={change.isPending}
            onChange={event => to(event.currentTarget.value as Role)}
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
