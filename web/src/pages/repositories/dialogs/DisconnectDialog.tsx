import { Text } from "@mantine/core";
import type { RepositoryConnection } from "@/api/types";
import { useDisconnectRepository } from "@/data/connections";
import { useOrg } from "@/data/me";
import { ConfirmDialog } from "@/ui/ConfirmDialog";
import { FORGE_LABELS } from "../forgeLabels";

type Props = { repositoryId: string; connection: RepositoryConnection; onClose: () => void };

export function DisconnectDialog({ repositoryId, connection, onClose }: Props) {
  const forge = FORGE_LABELS[connection.forge];
  return (
    <ConfirmDialog
      onClose={onClose}
      title={`Disconnect from ${forge}?`}
      action="Disconnect"
      danger
      mutation={useDisconnectRepository(useOrg(), repositoryId)}
      input={undefined}
      success={() => `Disconnected from ${forge}`}
    >
      <Text size="sm">
        Berth no longer accepts deliveries. New commits are found by polling, and new pull requests get no
        environments.
      </Text>
    </ConfirmDialog>
  );
}
