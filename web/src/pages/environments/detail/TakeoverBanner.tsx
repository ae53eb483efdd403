import { Alert, Button, Group, Text } from "@mantine/core";
import { IconBolt } from "@tabler/icons-react";
import { lazy, Suspense, useState } from "react";
import type { Environment } from "@/api/types";
import type { EnvironmentKey } from "@/data/environments";
import { useMe } from "@/data/me";
import { TakeoverText } from "@/ui/TakeoverText";

const EnvironmentDialog = lazy(() => import("../dialogs/EnvironmentDialog"));

type Props = { where: EnvironmentKey; environment: Environment };

/** An announced takeover. The holder can reply by releasing the environment at once. */
export function TakeoverBanner({ where, environment }: Props) {
  const me = useMe().user.id;
  const [releases, setReleases] = useState(false);
  const { lock } = environment;
  const takeover = lock?.takeover;
  if (!lock || !takeover) return null;
  return (
    <Alert color="lantern" icon={<IconBolt />} title={<TakeoverText takeover={takeover} />} role="status">
      {lock.holder.id === me && (
        <Group justify="space-between" gap="sm">
          <Text>Your session ends then, and its deployments are cancelled.</Text>
          <Button size="compact-sm" onClick={() => setReleases(true)}>
            Release to {takeover.by.name} now
          </Button>
        </Group>
      )}
      {releases && (
        <Suspense fallback={null}>
          <EnvironmentDialog
            action="release"
            where={where}
            environment={environment}
            onClose={() => setReleases(false)}
          />
        </Suspense>
      )}
    </Alert>
  );
}
