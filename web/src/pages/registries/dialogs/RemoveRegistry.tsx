import { Checkbox, List, Text } from "@mantine/core";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { member, problemOf } from "@/api/problem";
import type { StepRegistry } from "@/api/types";
import { useDeleteRegistry } from "@/data/registries";
import { Confirm } from "@/ui/Confirm";

type Props = { org: string; registry: StepRegistry; onClose: () => void };

type User = StepRegistry["usedBy"][number];

export function RemoveRegistry({ org, registry, onClose }: Props) {
  const navigate = useNavigate();
  const remove = useDeleteRegistry(org, registry.name);
  const [isForced, setForced] = useState(false);
  // Who uses it may have changed since this page was drawn: the refusal knows.
  const refused = remove.error ? member<User[]>(problemOf(remove.error), "usedBy") : undefined;
  const usedBy = refused ?? registry.usedBy;
  return (
    <Confirm
      onClose={onClose}
      title={`Remove ${registry.name}`}
      action="Remove"
      danger
      mutation={remove}
      input={{ force: isForced }}
      success={() => `${registry.name} is removed.`}
      onSuccess={() => navigate({ to: "/o/$org/settings/custom-steps", params: { org } })}
    >
      {usedBy.length === 0 ? (
        <Text size="sm">No pipeline uses its steps. Deployments that have begun with one go on.</Text>
      ) : (
        <>
          <Text size="sm">These pipelines name its steps, and will fail without them:</Text>
          <List size="sm">
            {usedBy.map(each => (
              <List.Item key={each.id}>{each.slug}</List.Item>
            ))}
          </List>
          <Checkbox
            label="Remove it all the same"
            checked={isForced}
            onChange={event => setForced(event.currentTarget.checked)}
          />
        </>
      )}
    </Confirm>
  );
}
