import { Badge, Button, Card, Group, Stack, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useMe } from "@/data/me";
import {
  identitiesQuery,
  loginOptionsQuery,
  useStartProviderLink,
  useUnlinkIdentity,
} from "@/data/providers";
import { LoadingRows } from "@/ui/LoadingRows";
import { ProblemPanel } from "@/ui/ProblemPanel";
import { RelativeTime } from "@/ui/RelativeTime";
import { toast } from "@/ui/toast";

const STATUS_TEXT = { active: "Active", refused: "Refused by the provider", dormant: "Not in use" };
const STATUS_COLOR = { active: "kelp", refused: "red", dormant: "gray" };

/** Accounts at identity providers that the user can log in with. Nothing on servers without providers. */
export function LinkedAccountsCard() {
  const { user } = useMe();
  const options = useQuery(loginOptionsQuery);
  const identities = useQuery(identitiesQuery);
  const link = useStartProviderLink();
  const unlink = useUnlinkIdentity();
  const providers = options.data?.providers ?? [];
  const linked = identities.data ?? [];
  if (providers.length === 0 && linked.length === 0) return null;
  const labelOf = (name: string) => providers.find(each => each.name === name)?.label ?? name;
  const unlinked = providers.filter(each => !linked.some(it => it.provider === each.name));
  return (
    <Card component="section" aria-label="Linked accounts">
      <Title order={2} mb={4}>
        Linked accounts
      </Title>
      <Text c="dimmed" size="sm" mb="sm">
        Log in with an account at an identity provider
      </Text>
      <Stack>
        {identities.isPending && <LoadingRows />}
        {identities.isError && (
          <ProblemPanel error={identities.error} retry={() => identities.refetch()} compact />
        )}
        {linked.map(each => (
          <Group key={each.id} justify="space-between">
            <div>
              <Group gap="xs">
                <Text fw={600}>{labelOf(each.provider)}</Text>
                <Badge variant="light" color={STATUS_COLOR[each.status]}>
                  {STATUS_TEXT[each.status]}
                </Badge>
              </Group>
              <Text size="sm" c="dimmed">
                {each.email ?? each.issuer}, last login <RelativeTime at={each.lastLoginAt} />
              </Text>
            </div>
            {user.hasPassword && (
              <Button
                variant="default"
                loading={unlink.isPending && unlink.variables === each.id}
                onClick={() =>
                  unlink.mutate(each.id, {
                    onSuccess: () => toast.success("Account unlinked"),
                    onError: toast.problem,
                  })
                }
              >
                Unlink
              </Button>
            )}
          </Group>
        ))}
        {unlinked.map(each => (
          <Group key={each.name} justify="space-between">
            <Text>{each.label}</Text>
            <Button
              variant="default"
              loading={link.isPending && link.variables.provider === each.name}
              onClick={() =>
                link.mutate({ provider: each.name, next: "/profile" }, { onError: toast.problem })
              }
            >
              Link
            </Button>
          </Group>
        ))}
      </Stack>
    </Card>
  );
}
