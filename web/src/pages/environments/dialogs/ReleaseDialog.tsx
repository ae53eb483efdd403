import { Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { queueQuery, useRelease } from "@/data/environments";
import { Confirm } from "@/ui/Confirm";
import type { SessionDialogProps } from "./Dialogs";

export function ReleaseDialog({ where, environment, lock, onClose }: SessionDialogProps) {
  const release = useRelease(where, lock.sessionId);
  const next = useQuery({ ...queueQuery(where), enabled: environment.queueLength > 0 }).data?.[0];
  const resets = environment.configuration.onRelease === "deploy_tracked";
  return (
    <Confirm
      onClose={onClose}
      title={`Release ${where.envName}?`}
      action="Release"
      mutation={release}
      input={undefined}
      success={() => `${where.envName} released`}
    >
      <Text size="sm">
        {next ? `${next.holder.name} is next in the queue and gets it.` : "Anyone can claim it then."}{" "}
        {resets && "The tracked branch is redeployed."}
      </Text>
    </Confirm>
  );
}
