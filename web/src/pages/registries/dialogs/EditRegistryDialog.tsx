import { TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import type { StepRegistry } from "@/api/types";
import { useChangeRegistry } from "@/data/registries";
import { ConfirmDialog } from "@/ui/ConfirmDialog";
import { SecretSelect } from "@/ui/fields/SecretSelect";

type Props = { org: string; registry: StepRegistry; onClose: () => void };

export function EditRegistryDialog({ org, registry, onClose }: Props) {
  const change = useChangeRegistry(org, registry.name);
  const form = useForm({
    initialValues: { ref: registry.ref ?? "", credential: registry.credential ?? "" },
  });
  return (
    <ConfirmDialog
      onClose={onClose}
      title={`Edit ${registry.name}`}
      action="Save"
      mutation={change}
      disabled={!form.isDirty()}
      input={{ ref: form.values.ref.trim(), credential: form.values.credential }}
      success={() => "Saved. Sync started."}
    >
      <TextInput
        label="Branch, tag or commit"
        placeholder="Default branch"
        maxLength={255}
        data-autofocus
        {...form.getInputProps("ref")}
      />
      <SecretSelect known={registry.credential} {...form.getInputProps("credential")} />
    </ConfirmDialog>
  );
}
