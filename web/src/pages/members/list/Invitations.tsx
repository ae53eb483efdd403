import { Button, Card, Table, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { Invitation } from "@/api/types";
import { invitationsQuery, useRevokeInvitation } from "@/data/invitations";
import { useOrg } from "@/data/me";
import { Confirm } from "@/ui/Confirm";
import { ActionsCell, Cell, Rows } from "@/ui/lists/Rows";
import { Query } from "@/ui/Query";
import { When } from "@/ui/When";

/** Pending invitations. */
export function Invitations() {
  const invitations = useQuery(invitationsQuery(useOrg()));
  const [revoking, setRevoking] = useState<Invitation | null>(null);
  return (
    <>
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
            </section>
          )
        }
      </Query>
      {revoking && <RevokeInvitation invitation={revoking} onClose={() => setRevoking(null)} />}
    </>
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
      <ActionsCell>
        <Button
          size="xs"
          variant="default"
          onClick={revoke}
          aria-label={`Revoke invitation for ${invitation.email}`}
        >
          Revoke
        </Button>
      </ActionsCell>
    </Table.Tr>
  );
}

type RevokeProps = { invitation: Invitation; onClose: () => void };

function RevokeInvitation({ invitation, onClose }: RevokeProps) {
  return (
    <Confirm
      onClose={onClose}
      title={`Revoke the invitation for ${invitation.email}?`}
      action="Revoke"
      danger
      mutation={useRevokeInvitation(useOrg())}
      input={invitation.id}
      success={() => `Invitation for ${invitation.email} revoked`}
    >
      <Text size="sm">The link stops working immediately.</Text>
    </Confirm>
  );
}
