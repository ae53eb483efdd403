import { Text } from "@mantine/core";
import type { Repository } from "@/api/types";
import { useOrg } from "@/data/me";
import { useRemoveRepository } from "@/data/repositories";
import { Confirm } from "@/ui/Confirm";

export function RemoveRepository({ repository, onClose }: { repository: Repository; onClose: () => void }) {
  return (
    <Confirm
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
    </Confirm>
  );
}
