import { Text } from "@mantine/core";
import type { Repository } from "@/api/types";
import { useOrg } from "@/data/me";
import { useRemoveRepository } from "@/data/repositories";
import { ConfirmDialog } from "@/ui/ConfirmDialog";

export function RemoveRepositoryDialog({
  repository,
  onClose,
}: {
  repository: Repository;
  onClose: () => void;
}) {
  return (
    <ConfirmDialog
      onClose={onClose}
      title="Remove repository?"
      action="Remove"
      danger
      mutation={useRemoveRepository(useOrg())}
      input={repository.id}
      success={() => "Repository removed"}
    >
      <Text size="sm" className="wrap">
        {repository.url} is no longer synced. Its deployments stay in the audit log.
      </Text>
    </ConfirmDialog>
  );
}
