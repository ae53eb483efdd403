import { Button, Group } from "@mantine/core";
import { IconRefresh } from "@tabler/icons-react";
import { useState } from "react";
import type { StepRegistry } from "@/api/types";
import { useMay } from "@/data/me";
import { useSyncRegistry } from "@/data/registries";
import { toast } from "@/ui/toast";
import { ChangeRegistry } from "../dialogs/ChangeRegistry";
import { RemoveRegistry } from "../dialogs/RemoveRegistry";

type Props = { org: string; registry: StepRegistry };

export function Actions({ org, registry }: Props) {
  const mayWrite = useMay("registries:write");
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
      {open === "change" && <ChangeRegistry org={org} registry={registry} onClose={() => setOpen(null)} />}
      {open === "delete" && <RemoveRegistry org={org} registry={registry} onClose={() => setOpen(null)} />}
    </Group>
  );
}
