import { Button, Group, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { lazy, Suspense, useState } from "react";
import type { Environment } from "@/api/types";
import { queueQuery, useLeaveQueue, type Where } from "@/data/environments";
import { useMay, useMe } from "@/data/me";
import { toast } from "@/ui/toast";

const Dialogs = lazy(() => import("./dialogs/Dialogs"));

export type Doing = "claim" | "wait" | "take-over" | "deploy" | "extend" | "hand-over" | "release";

type Props = { where: Where; environment: Environment };

/** What the reader can do with an environment as it is now. */
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
        You may look. Deployers may claim.
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
          <QueueTicket where={where} isLine={environment.queueLength > 0} wait={() => setDoing("wait")} />
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

type PlaceProps = { where: Where; isLine: boolean; wait: () => void };

function QueueTicket({ where, isLine, wait }: PlaceProps) {
  const me = useMe().user.id;
  const line = useQuery({ ...queueQuery(where), enabled: isLine });
  const leave = useLeaveQueue(where);
  const mine = isLine ? line.data?.find(each => each.holder.id === me) : undefined;
  if (!mine) return <Button onClick={wait}>Wait in line</Button>;
  return (
    <Button
      variant="default"
      loading={leave.isPending}
      onClick={() =>
        leave.mutate(mine.ticketId, {
          onSuccess: () => toast.success("You left the line."),
          onError: toast.problem,
        })
      }
    >
      Leave the line{mine.position ? ` (you are no. ${mine.position})` : ""}
    </Button>
  );
}
