import { NativeSelect, PasswordInput, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useQuery } from "@tanstack/react-query";
import { useOrg } from "@/data/me";
import { pipelineQuery } from "@/data/pipelines";
import { useCreateSecret } from "@/data/secrets";
import { ConfirmDialog } from "@/ui/ConfirmDialog";
import { PipelineSelect } from "@/ui/fields/PipelineSelect";

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
      disabled={!NAME_PATTERN.test(name) || value === ""}
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
      <PasswordInput label="Value" required autoComplete="off" {...form.getInputProps("value")} />
      <TextInput label="Description" {...form.getInputProps("description")} />
      <PipelineSelect
        label="Scope"
        by="id"
        none="All pipelines"
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
