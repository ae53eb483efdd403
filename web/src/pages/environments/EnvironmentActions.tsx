import { Button, Group, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { lazy, Suspense, useState } from "react";
import type { Environment } from "@/api/types";
import { queueQuery, useLeaveQueue, type Where } from "@/data/environments";
import { useMay, useMe } from "@/data/me";
import { toast } from "@/ui/toast";

const Dialogs = lazy(() => import("./dialogs/Dialogs"));

export type Doing = "claim" | "queue" | "take-over" | "deploy" | "extend" | "hand-over" | "release";

type Props = { where: Where; environment: Environment };

/** Actions on an environment that the user may take in its current state. */
export function EnvironmentActions({ where, environment }: Props) {
  const me = useMe().user.id;
  const mayClaim = useMay("environments:claim");
  const mayTake = useMay("environments:force_claim");
  const [doing, setDoing] = useState<Doing | null>(null);
  const { lock } = environment;
  const isMine = lock?.holder.id === me;
  if (!mayClaim) {
    return (
      <Text size="sm" c="dimmed">
        You need the deployer role to claim environments.
      </Text>
    );
  }
  return (
    <Group gap="xs">
      {!lock && <Button onClick={() => setDoing("claim")}>Claim</Button>}
      {isMine && (
        <>
          <Button onClick={() => setDoing("deploy")}>Deploy</Button>
          <Button variant="default" onClick={() => setDoing("extend")}>
            Extend
          </Button>
          <Button variant="default" onClick={() => setDoing("hand-over")}>
            Hand over
          </Button>
          <Button variant="default" onClick={() => setDoing("release")}>
            Release
          </Button>
        </>
      )}
      {lock && !isMine && (
        <>
          <QueueButton where={where} hasQueue={environment.queueLength > 0} join={() => setDoing("queue")} />
          {mayTake && (
            <Button variant="default" c="var(--berth-bad)" onClick={() => setDoing("take-over")}>
              Take over
            </Button>
          )}
        </>
      )}
      {doing && (
        <Suspense fallback={null}>
          <Dialogs doing={doing} where={where} environment={environment} onClose={() => setDoing(null)} />
        </Suspense>
      )}
    </Group>
  );
}

type QueueButtonProps = { where: Where; hasQueue: boolean; join: () => void };

/** Joins or leaves the queue. */
function QueueButton({ where, hasQueue, join }: QueueButtonProps) {
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
          onSuccess: () => toast.success("Left the queue"),
          onError: toast.problem,
        })
      }
    >
      Leave queue{mine.position ? ` (position ${mine.position})` : ""}
    </Button>
  );
}
