import { Button, Checkbox, Group, NativeSelect, Stack, Text, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import type { components } from "@/api/schema.gen";
import { useMe } from "@/data/me";
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
  const hasFactor = useMe().secondFactor.status === "enabled";
  const isOwner = organization.role === "owner";
  const form = useForm({
    initialValues: {
      name: organization.name,
      defaultNetwork: organization.defaultNetwork,
      requireSecondFactor: organization.requireSecondFactor,
    },
    validate: { name: name => (name.trim() === "" ? "Enter a name" : null) },
  });
  const submit = form.onSubmit(({ name, ...values }) =>
    save.mutate({ ...values, name: name.trim() }, { onSuccess: () => toast.success("Saved") }),
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
        <Checkbox
          label="Require a second factor"
          description={
            isOwner && !hasFactor && !organization.requireSecondFactor
              ? "To require one, first set up a second factor in your own profile."
              : "People who log in with a password need a second factor. Members without one lose access, also with their API tokens, until they set one up. Only owners can change this."
          }
          disabled={!isOwner || (!hasFactor && !organization.requireSecondFactor)}
          {...form.getInputProps("requireSecondFactor", { type: "checkbox" })}
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
