import { Button, Table, Text } from "@mantine/core";
import { IconKey } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { Fragment, useState } from "react";
import type { ApiToken } from "@/api/types";
import { useNow } from "@/data/clock";
import { useMe, useOrg, usePermission } from "@/data/me";
import { membersQuery } from "@/data/members";
import { tokensQuery } from "@/data/tokens";
import { formatScopeName } from "@/format/access";
import { EmptyState } from "@/ui/EmptyState";
import { ActionsCell, LabelledCell } from "@/ui/lists/ResponsiveTable";
import { SettingsList } from "@/ui/lists/SettingsList";
import { RelativeTime } from "@/ui/RelativeTime";
import { RevokeTokenDialog } from "@/ui/tokens/RevokeTokenDialog";
import { NewTokenDialog } from "../dialogs/NewTokenDialog";

export function TokensPage() {
  const org = useOrg();
  const me = useMe().user;
  const mayManage = usePermission("tokens:manage");
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
      lead="Tokens for CI and the command line. A token has the permissions of its owner in this organization, or fewer."
      add={{ label: "Create token", onClick: () => setAdding(true) }}
      query={tokens}
      columns={["Name", "Owner", "Access", "Prefix", "Last used", "Expires"]}
      row={token => <TokenRow token={token} owner={ownerOf(token)} revoke={() => setRevoking(token)} />}
      empty={
        <EmptyState icon={IconKey} title="No tokens yet">
          Create one for CI or the command line.
        </EmptyState>
      }
    >
      {isAdding && <NewTokenDialog onClose={() => setAdding(false)} members={members} />}
      {revoking && <RevokeTokenDialog token={revoking} onClose={() => setRevoking(null)} />}
    </SettingsList>
  );
}

type RowProps = { token: ApiToken; owner: string; revoke: () => void };

function TokenRow({ token, owner, revoke }: RowProps) {
  const now = useNow();
  const isExpired = token.expiresAt != null && new Date(token.expiresAt).getTime() < now;
  return (
    <Table.Tr>
      <Table.Td fw={550}>{token.name}</Table.Td>
      <LabelledCell of="Owner">{owner}</LabelledCell>
      <LabelledCell of="Access">
        <TokenAccess token={token} />
      </LabelledCell>
      <LabelledCell of="Prefix">
        <code>{token.prefix}…</code>
      </LabelledCell>
      <LabelledCell of="Last used">
        {token.lastUsedAt ? (
          <TokenUse at={token.lastUsedAt} by={token} />
        ) : (
          <Text inherit c="dimmed">
            never
          </Text>
        )}
      </LabelledCell>
      <LabelledCell of="Expires">
        {token.expiresAt ? (
          <Text span inherit c={isExpired ? "var(--berth-bad)" : undefined}>
            {isExpired && "expired "}
            <RelativeTime at={token.expiresAt} />
          </Text>
        ) : (
          <Text inherit c="dimmed">
            never
          </Text>
        )}
      </LabelledCell>
      <ActionsCell>
        <Button size="xs" variant="default" onClick={revoke} aria-label={`Revoke ${token.name}`}>
          Revoke
        </Button>
      </ActionsCell>
    </Table.Tr>
  );
}

function TokenUse({ at, by }: { at: string; by: ApiToken }) {
  const source = [by.lastUsedClient, by.lastUsedAddress].filter(each => each !== null).join(", ");
  return (
    <>
      <RelativeTime at={at} />
      {source && (
        <Text size="sm" c="dimmed">
          {source}
        </Text>
      )}
    </>
  );
}

function TokenAccess({ token }: { token: ApiToken }) {
  if (!token.restrictTo) return <>full access of the owner</>;
  return (
    <>
      {token.restrictTo.map(each => (
        <div key={`${each.scope} ${each.permissions.join()}`}>
          {each.permissions.map((permission, index) => (
            <Fragment key={permission}>
              {index > 0 && ", "}
              <code>{permission}</code>
            </Fragment>
          ))}{" "}
          in {formatScopeName(each.scope)}
        </div>
      ))}
    </>
  );
}
