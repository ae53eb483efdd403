import { Button, Table, Text } from "@mantine/core";
import { IconKey } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { ApiToken } from "@/api/types";
import { useMay, useMe, useOrg } from "@/data/me";
import { membersQuery } from "@/data/members";
import { useNow } from "@/data/now";
import { tokensQuery } from "@/data/tokens";
import { Empty } from "@/ui/Empty";
import { ActionsCell, Cell } from "@/ui/lists/Rows";
import { SettingsList } from "@/ui/lists/SettingsList";
import { When } from "@/ui/When";
import { NewToken } from "../dialogs/NewToken";
import { RevokeToken } from "../dialogs/RevokeToken";

export function Tokens() {
  const org = useOrg();
  const me = useMe().user;
  const mayManage = useMay("tokens:manage");
  const tokens = useQuery({
    ...tokensQuery(org),
    select: ({ data }) => ({ data: data.filter(each => !each.revokedAt) }),
  });
  const members = useQuery({ ...membersQuery(org), enabled: mayManage }).data?.data ?? [];
  const [isAdding, setAdding] = useState(false);
  const [revoking, setRevoking] = useState<ApiToken | null>(null);
  const ownerOf = (token: ApiToken) =>
    token.ownerId === me.id
      ? "you"
      : (members.find(each => each.id === token.ownerId)?.name ?? token.ownerId);
  return (
    <SettingsList
      title="API Tokens"
      lead="Tokens for CI and the command line. A token has the permissions of its owner in this organization."
      add={{ label: "Create token", onClick: () => setAdding(true) }}
      query={tokens}
      columns={["Name", "Owner", "Prefix", "Last used", "Expires"]}
      row={token => <Row token={token} owner={ownerOf(token)} revoke={() => setRevoking(token)} />}
      empty={
        <Empty icon={IconKey} title="No tokens yet">
          Create one for CI or the command line.
        </Empty>
      }
    >
      {isAdding && <NewToken onClose={() => setAdding(false)} members={members} />}
      {revoking && <RevokeToken token={revoking} onClose={() => setRevoking(null)} />}
    </SettingsList>
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
      <Cell of="Prefix">
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
      <ActionsCell>
        <Button size="xs" variant="default" onClick={revoke} aria-label={`Revoke ${token.name}`}>
          Revoke
        </Button>
      </ActionsCell>
    </Table.Tr>
  );
}
