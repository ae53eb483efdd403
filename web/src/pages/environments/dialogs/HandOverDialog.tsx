import { NativeSelect, Text } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useQuery } from "@tanstack/react-query";
import { useHandOverSession } from "@/data/environments";
import { claimersQuery } from "@/data/grants";
import { useMe } from "@/data/me";
import { environmentTarget } from "@/data/permissions";
import { pipelineQuery } from "@/data/pipelines";
import { ConfirmDialog } from "@/ui/ConfirmDialog";
import type { SessionDialogProps } from "./EnvironmentDialog";

export function HandOverDialog({ where, lock, onClose }: SessionDialogProps) {
  const me = useMe().user.id;
  const handOver = useHandOverSession(where, lock.sessionId);
  const slug = useQuery(pipelineQuery(where.org, where.pipelineId)).data?.slug;
  const claimers = useQuery({
    ...claimersQuery(where.org, environmentTarget(slug, where.envName)),
    enabled: slug !== undefined,
  });
  const form = useForm({ initialValues: { to: "" } });
  const others = claimers.data?.filter(each => each.id !== me) ?? [];
  const chosen = others.find(each => each.id === form.values.to);
  return (
    <ConfirmDialog
      onClose={onClose}
      title={`Hand over ${where.envName}`}
      action="Hand over"
      mutation={handOver}
      disabled={!chosen}
      input={form.values.to}
      success={() => `${where.envName} handed over to ${chosen?.name ?? "the new holder"}`}
    >
      <Text size="sm" c="dimmed">
        The new holder’s session starts immediately. The queue is unchanged.
      </Text>
      <NativeSelect
        label="New holder"
        data={[
          { value: "", label: "Select a member" },
          ...others.map(each => ({ value: each.id, label: `${each.name} (${each.email})` })),
        ]}
        data-autofocus
        {...form.getInputProps("to")}
      />
    </ConfirmDialog>
  );
}
