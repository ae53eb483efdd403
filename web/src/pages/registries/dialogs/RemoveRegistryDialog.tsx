import { Checkbox, List, Text } from "@mantine/core";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { problemMember, toProblem } from "@/api/problem";
import type { StepRegistry } from "@/api/types";
import { useDeleteRegistry } from "@/data/registries";
import { ConfirmDialog } from "@/ui/ConfirmDialog";

type Props = { org: string; registry: StepRegistry; onClose: () => void };

type RegistryUser = StepRegistry["usedBy"][number];

export function RemoveRegistryDialog({ org, registry, onClose }: Props) {
  const navigate = useNavigate();
  const remove = useDeleteRegistry(org, registry.name);
  const [isForced, setForced] = useState(false);
  // The list of users may be stale; the server's error has the current one.
  const refused = remove.error ? problemMember<RegistryUser[]>(toProblem(remove.error), "usedBy") : undefined;
  const usedBy = refused ?? registry.usedBy;
  return (
    <ConfirmDialog
      onClose={onClose}
      title={`Remove ${registry.name}?`}
      action="Remove"
      danger
      mutation={remove}
      input={{ force: isForced }}
      success={() => `${registry.name} removed`}
      onSuccess={() => navigate({ to: "/o/$org/settings/custom-steps", params: { org } })}
    >
      {usedBy.length === 0 ? (
        <Text size="sm">No pipeline uses its steps. Running deployments are not affected.</Text>
      ) : (
        <>
          <Text size="sm">These pipelines use its steps and will fail without them:</Text>
          <List size="sm">
            {usedBy.map(each => (
              <List.Item key={each.id}>{each.slug}</List.Item>
            ))}
          </List>
          <Checkbox
            label="Remove it anyway"
            checked={isForced}
            onChange={event => setForced(event.currentTarget.checked)}
          />
        </>
      )}
    </ConfirmDialog>
  );
}
