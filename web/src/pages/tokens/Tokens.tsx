import { Button, Card, Group, Table, Text } from "@mantine/core";
import { IconKey, IconPlus } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { ApiToken } from "@/api/types";
import { useMay, useMe, useOrg } from "@/data/me";
import { membersQuery } from "@/data/members";
import { useNow } from "@/data/now";
import { tokensQuery, useRevokeToken } from "@/data/tokens";
import { Confirm } from "@/ui/Confirm";
import { Empty } from "@/ui/Empty";
import { tell } from "@/ui/notify";
import { Page } from "@/ui/Page";
import { Query } from "@/ui/Query";
import { When } from "@/ui/When";
import { Cell, Rows } from "../settings/Rows";
import { NewToken } from "./NewToken";

/** Tokens for programs. */
export function Tokens() {
  const org = useOrg();
  const me = useMe().user;
  const mayManage = useMay("tokens:manage");
  const tokens = useQuery(tokensQuery(org));
  const members = useQuery({ ...membersQuery(org), enabled: mayManage }).data?.data ?? [];
  const [isMaking, setMaking] = useState(false);
  const [revoking, setRevoking] = useState<ApiToken | null>(null);
  const revoke = useRevokeToken(org);
  const ownerOf = (token: ApiToken) =>
    token.ownerId === me.id
      ? "you"
      : (members.find(each => each.id === token.ownerId)?.name ?? token.ownerId);
  return (
    <Page
      title="API Tokens"
      lead="A token belongs to one person and one organization, and may do what that person may do."
      actions={
        <Button leftSection={<IconPlus size={16} />} onClick={() => setMaking(true)}>
          Create a token
        </Button>
      }
    >
      <Query of={tokens}>
        {({ data }) => {
          const valid = data.filter(each => !each.revokedAt);
          return valid.length === 0 ? (
            <Empty icon={IconKey} title="No tokens yet">
              Create one for your terminal or for CI.
            </Empty>
          ) : (
            <Card padding={0}>
              <Rows of={["Name", "Owner", "Begins with", "Last used", "Expires"]}>
                {valid.map(each => (
                  <Row key={each.id} token={each} owner={ownerOf(each)} revoke={() => setRevoking(each)} />
                ))}
              </Rows>
            </Card>
          );
        }}
      </Query>
      {isMaking && <NewToken onClose={() => setMaking(false)} members={members} />}
      <Confirm
        opened={revoking !== null}
        onClose={() => setRevoking(null)}
        title={`Revoke ${revoking?.name ?? ""}`}
        action="Revoke"
        danger
        pending={revoke.isPending}
        error={revoke.error}
        onConfirm={() =>
          revoking &&
          revoke.mutate(revoking.id, {
            onSuccess: () => {
              tell(`${revoking.name} is revoked.`);
              setRevoking(null);
            },
          })
        }
      >
        <Text size="sm">Whatever uses it is refused from now on. This cannot be undone.</Text>
      </Confirm>
    </Page>
  );
}

type RowProps = { token: ApiToken; owner: string; revoke: () => void };

function Row({ token, owner, revoke }: RowProps) {
  const now = useNow();
  const isOver = token.expiresAt != null && new Date(token.expiresAt).getTime() < now;
  return (
    <Table.Tr>
      <Table.Td fw={550}>{token.name}</Table.Td>
      <Cell of="Owner">{owner}</Cell>
      <Cell of="Begins with">
        <code>{token.prefix}…</code>
      </Cell>
      <Cell of="Last used">
        {token.lastUsedAt ? (
          <When at={token.lastUsedAt} />
        ) : (
          <Text inherit c="dimmed">
            never
          </Text>
        )}
      </Cell>
      <Cell of="Expires">
        {token.expiresAt ? (
          <Text span inherit c={isOver ? "var(--berth-bad)" : undefined}>
            {isOver && "expired "}
            <When at={token.expiresAt} />
          </Text>
        ) : (
          <Text inherit c="dimmed">
            never
          </Text>
        )}
      </Cell>
      <Table.Td>
        <Group justify="flex-end">
          <Button size="xs" variant="default" onClick={revoke} aria-label={`Revoke ${token.name}`}>
            Revoke
          </Button>
        </Group>
      </Table.Td>
    </Table.Tr>
  );
}
