import { Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { lineQuery, useRelease } from "@/data/environments";
import { Confirm } from "@/ui/Confirm";
import { tell } from "@/ui/notify";
import type { HoldDialogProps } from "./Dialogs";

export function ReleaseDialog({ where, environment, lock, onClose }: HoldDialogProps) {
  const release = useRelease(where, lock.sessionId);
  const next = useQuery({ ...lineQuery(where), enabled: environment.queueLength > 0 }).data?.[0];
  const resets = environment.configuration.onRelease === "deploy_tracked";
  return (
    <Confirm
      opened
      onClose={onClose}
      title={`Release ${where.envName}`}
      action="Release"
      pending={release.isPending}
      error={release.error}
      onConfirm={() =>
        release.mutate(undefined, {
          onSuccess: () => {
            tell(`${where.envName} is given back.`);
            onClose();
          },
        })
      }
    >
      <Text size="sm">
        {next ? `${next.holder.name} is next and gets it at once.` : "It becomes free for everybody."}{" "}
        {resets && "The head of the tracked branch is deployed there again."}
      </Text>
    </Confirm>
  );
}
