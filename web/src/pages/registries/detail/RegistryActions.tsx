import { Button, Group } from "@mantine/core";
import { IconRefresh } from "@tabler/icons-react";
import { useState } from "react";
import type { StepRegistry } from "@/api/types";
import { usePermission } from "@/data/me";
import { useSyncRegistry } from "@/data/registries";
import { toast } from "@/ui/toast";
import { EditRegistryDialog } from "../dialogs/EditRegistryDialog";
import { RemoveRegistryDialog } from "../dialogs/RemoveRegistryDialog";

type Props = { org: string; registry: StepRegistry };

export function RegistryActions({ org, registry }: Props) {
  const mayWrite = usePermission("registries:write");
  const sync = useSyncRegistry(org, registry.name);
  const [open, setOpen] = useState<"change" | "delete" | null>(null);
  if (!mayWrite) return null;
  return (
    <Group gap="xs">
      <Button
        variant="default"
        leftSection={<IconRefresh size={16} />}
        loading={sync.isPending}
        onClick={() =>
          sync.mutate(undefined, {
            onSuccess: () => toast.success("Sync started"),
            onError: toast.problem,
          })
        }
      >
        {registry.status === "failed" ? "Rebuild" : "Sync now"}
      </Button>
      <Button variant="default" onClick={() => setOpen("change")}>
        Edit
      </Button>
      <Button variant="default" onClick={() => setOpen("delete")}>
        Remove
      </Button>
      {open === "change" && (
        <EditRegistryDialog org={org} registry={registry} onClose={() => setOpen(null)} />
      )}
      {open === "delete" && (
        <RemoveRegistryDialog org={org} registry={registry} onClose={() => setOpen(null)} />
      )}
    </Group>
  );
}
