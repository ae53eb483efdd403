import { NativeSelect, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useQuery } from "@tanstack/react-query";
import { useOrg, usePermission } from "@/data/me";
import { pipelineTarget } from "@/data/permissions";
import { pipelineQuery } from "@/data/pipelines";
import { useCreateSecret } from "@/data/secrets";
import { ConfirmDialog } from "@/ui/ConfirmDialog";
import { PipelineSelect } from "@/ui/fields/PipelineSelect";
import { SecretValueInput } from "@/ui/fields/SecretValueInput";

const NAME_PATTERN = /^[A-Za-z_][A-Za-z0-9_]{0,127}$/;

type Values = { name: string; value: string; description: string; pipelineId: string; stage: string };

export function NewSecretDialog({ onClose }: { onClose: () => void }) {
  const org = useOrg();
  const create = useCreateSecret(org);
  const form = useForm<Values>({
    initialValues: { name: "", value: "", description: "", pipelineId: "", stage: "" },
    validateInputOnBlur: ["name"],
    validate: {
      name: name =>
        NAME_PATTERN.test(name) ? null : "Use letters, digits and underscores, and don’t start with a digit",
    },
  });
  const { name, value, description, pipelineId, stage } = form.values;
  const pipeline = useQuery({ ...pipelineQuery(org, pipelineId), enabled: pipelineId !== "" }).data;
  const mayWriteAll = usePermission("secrets:write");
  const mayWrite = usePermission("secrets:write", pipelineTarget(pipeline?.slug));
  const targets = [...(pipeline?.stages.map(each => each.name) ?? []), ...(pipeline?.environments ?? [])];
  const scope = !pipelineId
    ? ({ type: "organization" } as const)
    : stage
      ? ({ type: "stage", pipelineId, stage } as const)
      : ({ type: "pipeline", pipelineId } as const);
  return (
    <ConfirmDialog
      onClose={onClose}
      title="Create secret"
      action="Create"
      mutation={create}
      disabled={!NAME_PATTERN.test(name) || value === "" || !mayWrite}
      input={{ name, value, description: description.trim() || undefined, scope }}
      success={() => `${name} created`}
    >
      <TextInput
        label="Name"
        placeholder="DEPLOY_KEY"
        required
        data-autofocus
        autoComplete="off"
        {...form.getInputProps("name")}
      />
      <SecretValueInput {...form.getInputProps("value")} />
      <TextInput label="Description" {...form.getInputProps("description")} />
      <PipelineSelect
        label="Scope"
        by="id"
        none={mayWriteAll ? "All pipelines" : "Select a pipeline"}
        error={pipeline && !mayWrite && "You don’t have permission to create secrets of this pipeline"}
        value={pipelineId}
        onChange={id => form.setValues({ pipelineId: id, stage: "" })}
      />
      {targets.length > 0 && (
        <NativeSelect
          label="Stage or environment"
          data={[
            { value: "", label: "All stages and environments" },
            ...targets.map(each => ({ value: each, label: each })),
          ]}
          {...form.getInputProps("stage")}
        />
      )}
    </ConfirmDialog>
  );
}
