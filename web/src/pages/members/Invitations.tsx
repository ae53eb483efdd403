import { Button, Card, Group, Table, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { Invitation } from "@/api/types";
import { invitationsQuery, useRevokeInvitation } from "@/data/invitations";
import { useOrg } from "@/data/me";
import { Confirm } from "@/ui/Confirm";
import { tell } from "@/ui/notify";
import { Query } from "@/ui/Query";
import { When } from "@/ui/When";
import { Cell, Rows } from "../settings/Rows";

/** Invitations that were neither accepted nor revoked. */
export function Invitations() {
  const org = useOrg();
  const invitations = useQuery(invitationsQuery(org));
  const [revoking, setRevoking] = useState<Invitation | null>(null);
  const revoke = useRevokeInvitation(org);
  return (
    <Query of={invitations}>
      {({ data }) =>
        data.length > 0 && (
          <section aria-label="Pending invitations">
            <Title order={2} mb="sm">
              Pending invitations
            </Title>
            <Card padding={0}>
              <Rows of={["Email", "Role", "Invited by", "Expires"]}>
                {data.map(each => (
                  <Row key={each.id} invitation={each} revoke={() => setRevoking(each)} />
                ))}
              </Rows>
            </Card>
            <Confirm
              opened={revoking !== null}
              onClose={() => setRevoking(null)}
              title={`Revoke the invitation of ${revoking?.email ?? ""}?`}
              action="Revoke"
              danger
              pending={revoke.isPending}
              error={revoke.error}
              onConfirm={() =>
                revoking &&
                revoke.mutate(revoking.id, {
                  onSuccess: () => {
                    tell(`Invitation of ${revoking.email} revoked`);
                    setRevoking(null);
                  },
                })
              }
            >
              <Text size="sm">Its link stops working at once.</Text>
            </Confirm>
          </section>
        )
      }
    </Query>
  );
}

type RowProps = { invitation: Invitation; revoke: () => void };

function Row({ invitation, revoke }: RowProps) {
  return (
    <Table.Tr>
      <Table.Td>
        <Text fw={550} className="wrap">
          {invitation.name ?? invitation.email}
        </Text>
        {invitation.name && (
          <Text size="sm" c="dimmed" className="wrap">
            {invitation.email}
          </Text>
        )}
      </Table.Td>
      <Cell of="Role">{invitation.role}</Cell>
      <Cell of="Invited by">{invitation.invitedBy.name}</Cell>
      <Cell of="Expires">
        <When at={invitation.expiresAt} />
      </Cell>
      <Table.Td>
        <Group justify="flex-end">
          <Button
            size="xs"
            variant="default"
            onClick={revoke}
            aria-label={`Revoke the invitation of ${invitation.email}`}
          >
            Revoke
          </Button>
        </Group>
      </Table.Td>
    </Table.Tr>
  );
}
