import { Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { queueQuery, useReleaseSession } from "@/data/environments";
import { useMe } from "@/data/me";
import { formatHolder } from "@/format/holder";
import { ConfirmDialog } from "@/ui/ConfirmDialog";
import type { SessionDialogProps } from "./EnvironmentDialog";

export function ReleaseDialog({ where, environment, lock, onClose }: SessionDialogProps) {
  const release = useReleaseSession(where, lock.sessionId);
  const isMine = lock.holder.id === useMe().user.id;
  const next = useQuery({ ...queueQuery(where), enabled: environment.queueLength > 0 }).data?.[0];
  const resets = environment.configuration.onRelease === "deploy_tracked";
  return (
    <ConfirmDialog
      onClose={onClose}
      title={`Release ${where.envName}?`}
      action="Release"
      mutation={release}
      input={undefined}
      success={() => `${where.envName} released`}
    >
      <Text size="sm">
        {!isMine && `${formatHolder(lock)} holds it. Their session ends and its deployments are cancelled. `}
        {next ? `${formatHolder(next)} is next in the queue and gets it.` : "Anyone can claim it then."}{" "}
        {resets && "The tracked branch is redeployed."}
      </Text>
    </ConfirmDialog>
  );
}
