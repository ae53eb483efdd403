import { Button, Group, NativeSelect, Stack, Text, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import type { components } from "@/api/schema.gen";
import type { useChangeOrganization } from "@/data/organization";
import { ProblemPanel } from "@/ui/Problem";
import { toast } from "@/ui/toast";

type Organization = components["schemas"]["Organization"];

const NETWORKS: { value: Organization["defaultNetwork"]; label: string }[] = [
  { value: "host", label: "Network of the runner's machine" },
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
          description="For steps whose definition has no network of its own. Applies to the next deployment."
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
            Admins can change this
          </Text>
        )}
      </Stack>
    </form>
  );
}
