import { Button, Card, Table, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { Invitation } from "@/api/types";
import { invitationsQuery, useRevokeInvitation } from "@/data/invitations";
import { useOrg } from "@/data/me";
import { ConfirmDialog } from "@/ui/ConfirmDialog";
import { ActionsCell, LabelledCell, ResponsiveTable } from "@/ui/lists/ResponsiveTable";
import { QueryResult } from "@/ui/QueryResult";
import { RelativeTime } from "@/ui/RelativeTime";

/** Pending invitations. */
export function PendingInvitations() {
  const invitations = useQuery(invitationsQuery(useOrg()));
  const [revoking, setRevoking] = useState<Invitation | null>(null);
  return (
    <>
      <QueryResult of={invitations}>
        {({ data }) =>
          data.length > 0 && (
            <section aria-label="Pending invitations">
              <Title order={2} mb="sm">
                Pending invitations
              </Title>
              <Card padding={0}>
                <ResponsiveTable of={["Email", "Role", "Invited by", "Expires"]}>
                  {data.map(each => (
                    <InvitationRow key={each.id} invitation={each} revoke={() => setRevoking(each)} />
                  ))}
                </ResponsiveTable>
              </Card>
            </section>
          )
        }
      </QueryResult>
      {revoking && <RevokeInvitationDialog invitation={revoking} onClose={() => setRevoking(null)} />}
    </>
  );
}

type RowProps = { invitation: Invitation; revoke: () => void };

function InvitationRow({ invitation, revoke }: RowProps) {
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
      <LabelledCell of="Role">{invitation.role}</LabelledCell>
      <LabelledCell of="Invited by">{invitation.invitedBy.name}</LabelledCell>
      <LabelledCell of="Expires">
        <RelativeTime at={invitation.expiresAt} />
      </LabelledCell>
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

function RevokeInvitationDialog({ invitation, onClose }: RevokeProps) {
  return (
    <ConfirmDialog
      onClose={onClose}
      title={`Revoke the invitation for ${invitation.email}?`}
      action="Revoke"
      danger
      mutation={useRevokeInvitation(useOrg())}
      input={invitation.id}
      success={() => `Invitation for ${invitation.email} revoked`}
    >
      <Text size="sm">The link stops working immediately.</Text>
    </ConfirmDialog>
  );
}
