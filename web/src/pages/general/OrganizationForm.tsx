import { Button, Group, NativeSelect, Stack, Text, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import type { components } from "@/api/schema.gen";
import type { useChangeOrganization } from "@/data/organization";
import { ProblemPanel } from "@/ui/ProblemPanel";
import { toast } from "@/ui/toast";

type Organization = components["schemas"]["Organization"];

const NETWORKS: { value: Organization["defaultNetwork"]; label: string }[] = [
  { value: "host", label: "Host network of the runner" },
  { value: "none", label: "No network" },
];

type Props = {
  organization: Organization;
  save: ReturnType<typeof useChangeOrganization>;
  mayWrite: boolean;
};

export function OrganizationForm({ organization, save, mayWrite }: Props) {
  const form = useForm({
    initialValues: { name: organization.name, defaultNetwork: organization.defaultNetwork },
    validate: { name: name => (name.trim() === "" ? "Enter a name" : null) },
  });
  const submit = form.onSubmit(({ name, defaultNetwork }) =>
    save.mutate({ name: name.trim(), defaultNetwork }, { onSuccess: () => toast.success("Saved") }),
  );
  return (
    <form onSubmit={submit}>
      <Stack>
        <TextInput label="Name" disabled={!mayWrite} {...form.getInputProps("name")} />
        <NativeSelect
          label="Default network of steps"
          description="Used by steps that do not set a network. Applies to new deployments."
          data={NETWORKS}
          disabled={!mayWrite}
          {...form.getInputProps("defaultNetwork")}
        />
        {save.error != null && <ProblemPanel error={save.error} compact />}
        {mayWrite ? (
          <Group>
            <Button type="submit" loading={save.isPending} disabled={!form.isDirty()}>
              Save
            </Button>
          </Group>
        ) : (
          <Text size="sm" c="dimmed">
            Only admins can change these settings
          </Text>
        )}
      </Stack>
    </form>
  );
}
