import { Button, Card, Group, Stack, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import type { Organization } from "@/api/types";
import { forgeAccountsQuery, useCreateForgeCode, useUnlinkForgeAccount } from "@/data/forgeAccounts";
import { useMe } from "@/data/me";
import { lacksSecondFactor } from "@/data/secondFactor";
import { Snippet } from "@/ui/Copy";
import { QueryResult } from "@/ui/QueryResult";
import { RelativeTime } from "@/ui/RelativeTime";
import { toast } from "@/ui/toast";

/** Accounts on forges and in Slack that act with the user's permissions, per organization. */
export function ForgeAccountsCard() {
  const me = useMe();
  const organizations = me.organizations.filter(each => !lacksSecondFactor(me, each));
  if (organizations.length === 0) return null;
  return (
    <Card component="section" aria-label="Forge and Slack accounts">
      <Title order={2} mb={4}>
        Forge and Slack accounts
      </Title>
      <Text c="dimmed" size="sm" mb="sm">
        Comments such as /berth claim on pull requests, and commands and buttons in Slack, act with your
        permissions
      </Text>
      <Stack>
        {organizations.map(each => (
          <OrganizationAccounts key={each.id} organization={each} isNamed={organizations.length > 1} />
        ))}
      </Stack>
    </Card>
  );
}

type Props = { organization: Pick<Organization, "slug" | "name">; isNamed: boolean };

function OrganizationAccounts({ organization, isNamed }: Props) {
  const org = organization.slug;
  const connect = useCreateForgeCode(org);
  const unlink = useUnlinkForgeAccount(org);
  const accounts = useQuery(forgeAccountsQuery(org, connect.isSuccess));
  const label = isNamed ? `Connect in ${organization.name}` : "Connect";
  return (
    <Stack gap="xs">
      {isNamed && (
        <Title order={3} fz="md">
          {organization.name}
        </Title>
      )}
      <QueryResult of={accounts}>
        {found => (
          <>
            {found.length === 0 && <Text c="dimmed">No account connected</Text>}
            {found.map(each => (
              <Group key={`${each.host} ${each.accountId}`} justify="space-between">
                <div>
                  <Text fw={600}>{each.name}</Text>
                  <Text size="sm" c="dimmed">
                    {each.host}, connected <RelativeTime at={each.linkedAt} />
                  </Text>
                </div>
                <Button
                  variant="default"
                  loading={unlink.isPending && unlink.variables.accountId === each.accountId}
                  onClick={() =>
                    unlink.mutate(each, {
                      onSuccess: () => toast.success("Account unlinked"),
                      onError: toast.problem,
                    })
                  }
                >
                  Unlink
                </Button>
              </Group>
            ))}
          </>
        )}
      </QueryResult>
      {connect.data?.comment ? (
        <>
          <Text size="sm">
            Post this comment on a pull request of a connected repository, or send it as a command in Slack,
            from the account to connect. It works once and expires{" "}
            <RelativeTime at={connect.data.expiresAt} />.
          </Text>
          <Snippet label="Comment that connects your account" text={connect.data.comment} />
        </>
      ) : (
        <Group justify="flex-end">
          <Button
            aria-label={label}
            loading={connect.isPending}
            onClick={() => connect.mutate(undefined, { onError: toast.problem })}
          >
            Connect
          </Button>
        </Group>
      )}
    </Stack>
  );
}
