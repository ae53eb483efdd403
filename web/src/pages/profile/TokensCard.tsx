import { Button, Card, Group, Table, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { ApiToken } from "@/api/types";
import { useMe, useOrganization } from "@/data/me";
import { tokensQuery } from "@/data/tokens";
import { LinkButton } from "@/ui/Link";
import { ActionsCell, LabelledCell, ResponsiveTable } from "@/ui/lists/ResponsiveTable";
import { QueryResult } from "@/ui/QueryResult";
import { RelativeTime } from "@/ui/RelativeTime";
import { RevokeTokenDialog } from "@/ui/tokens/RevokeTokenDialog";

/** The current user's API tokens in the organization. */
export function TokensCard() {
  const organization = useOrganization();
  return organization ? <TokensOf org={organization.slug} name={organization.name} /> : null;
}

function TokensOf({ org, name }: { org: string; name: string }) {
  const me = useMe().user.id;
  const [revoking, setRevoking] = useState<ApiToken | null>(null);
  const tokens = useQuery({
    ...tokensQuery(org),
    select: ({ data }) => data.filter(each => each.ownerId === me && !each.revokedAt),
  });
  return (
    <Card component="section" aria-label="Your API tokens">
      <Group justify="space-between" mb="sm">
        <div>
          <Title order={2}>Your API tokens</Title>
          <Text c="dimmed" size="sm">
            For the command line and other programs, in {name}
          </Text>
        </div>
        <LinkButton to="/o/$org/settings/tokens" params={{ org }} variant="default">
          Create token
        </LinkButton>
      </Group>
      <QueryResult of={tokens}>
        {found =>
          found.length === 0 ? (
            <Text c="dimmed">No tokens</Text>
          ) : (
            <ResponsiveTable of={["Name", "Last used", "Expires"]}>
              {found.map(token => (
                <Table.Tr key={token.id}>
                  <Table.Td fw={550} className="wrap">
                    {token.name}
                  </Table.Td>
                  <LabelledCell of="Last used">
                    {token.lastUsedAt ? <RelativeTime at={token.lastUsedAt} /> : "never"}
                  </LabelledCell>
                  <LabelledCell of="Expires">
                    {token.expiresAt ? <RelativeTime at={token.expiresAt} /> : "never"}
                  </LabelledCell>
                  <ActionsCell>
                    <Button
                      size="xs"
                      variant="default"
                      aria-label={`Revoke ${token.name}`}
                      onClick={() => setRevoking(token)}
                    >
                      Revoke
                    </Button>
                  </ActionsCell>
                </Table.Tr>
              ))}
            </ResponsiveTable>
          )
        }
      </QueryResult>
      {revoking && <RevokeTokenDialog token={revoking} onClose={() => setRevoking(null)} />}
    </Card>
  );
}
