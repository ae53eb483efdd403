import { Button, Group, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { lazy, Suspense, useState } from "react";
import type { Environment } from "@/api/types";
import { type EnvironmentKey, queueQuery, useLeaveQueue } from "@/data/environments";
import { useMe, usePermission } from "@/data/me";
import { environmentTarget } from "@/data/permissions";
import { toast } from "@/ui/toast";

const EnvironmentDialog = lazy(() => import("./dialogs/EnvironmentDialog"));

export const ENVIRONMENT_ACTIONS = [
  "claim",
  "queue",
  "take-over",
  "deploy",
  "extend",
  "hand-over",
  "release",
] as const;

export type EnvironmentAction = (typeof ENVIRONMENT_ACTIONS)[number];

type Props = {
  where: EnvironmentKey;
  environment: Environment;
  /** The slug of the pipeline; undefined until it is loaded. */
  pipeline: string | undefined;
  /** The action whose dialog is open. By default, the buttons alone open dialogs. */
  opened?: readonly [EnvironmentAction | null, (action: EnvironmentAction | null) => void];
};

/** Actions on an environment that the user may take in its current state. */
export function EnvironmentActions({ where, environment, pipeline, opened }: Props) {
  const me = useMe().user.id;
  const target = environmentTarget(pipeline, environment.envName);
  const mayClaim = usePermission("environments:claim", target);
  const mayTakeOver = usePermission("environments:force_claim", target);
  const own = useState<EnvironmentAction | null>(null);
  const [action, setAction] = opened ?? own;
  const { lock } = environment;
  const isMine = lock?.holder.id === me;
  if (!mayClaim) {
    return (
      <Text size="sm" c="dimmed">
        You don’t have permission to claim this environment.
      </Text>
    );
  }
  return (
    <Group gap="xs">
      {!lock && <Button onClick={() => setAction("claim")}>Claim</Button>}
      {isMine && (
        <>
          <Button onClick={() => setAction("deploy")}>Deploy</Button>
          <Button variant="default" onClick={() => setAction("extend")}>
            Extend
          </Button>
          <Button variant="default" onClick={() => setAction("hand-over")}>
            Hand over
          </Button>
          <Button variant="default" onClick={() => setAction("release")}>
            Release
          </Button>
        </>
      )}
      {lock && !isMine && (
        <>
          <QueueButton
            where={where}
            hasQueue={environment.queueLength > 0}
            takesOver={lock.takeover?.by.id === me}
            join={() => setAction("queue")}
          />
          {mayTakeOver && (
            <Button variant="default" c="var(--berth-bad)" onClick={() => setAction("take-over")}>
              Take over
            </Button>
          )}
        </>
      )}
      {action && (
        <Suspense fallback={null}>
          <EnvironmentDialog
            action={action}
            where={where}
            environment={environment}
            onClose={() => setAction(null)}
          />
        </Suspense>
      )}
    </Group>
  );
}

type QueueButtonProps = {
  where: EnvironmentKey;
  hasQueue: boolean;
  /** Whether the user has announced a takeover. */
  takesOver: boolean;
  join: () => void;
};

/** Joins or leaves the queue. A takeover is announced with the user's first ticket. */
function QueueButton({ where, hasQueue, takesOver, join }: QueueButtonProps) {
  const me = useMe().user.id;
  const queue = useQuery({ ...queueQuery(where), enabled: hasQueue });
  const leave = useLeaveQueue(where);
  const mine = hasQueue ? queue.data?.find(each => each.holder.id === me) : undefined;
  if (!mine) return <Button onClick={join}>Join queue</Button>;
  return (
    <Button
      variant="default"
      loading={leave.isPending}
      onClick={() =>
        leave.mutate(mine.ticketId, {
          onSuccess: () =>
            toast.success(takesOver ? `Takeover of ${where.envName} cancelled` : "Left the queue"),
          onError: toast.problem,
        })
      }
    >
      {takesOver ? "Cancel takeover" : `Leave queue${mine.position ? ` (position ${mine.position})` : ""}`}
    </Button>
  );
}
