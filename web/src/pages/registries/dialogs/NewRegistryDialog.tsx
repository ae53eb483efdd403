import { Text, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useNavigate } from "@tanstack/react-router";
import { useOrg } from "@/data/me";
import { useAddRegistry } from "@/data/registries";
import { ConfirmDialog } from "@/ui/ConfirmDialog";
import { SecretSelect } from "@/ui/fields/SecretSelect";

const NAME_PATTERN = /^[a-z0-9][a-z0-9-]{0,62}$/;

export function NewRegistryDialog({ onClose }: { onClose: () => void }) {
  const org = useOrg();
  const navigate = useNavigate();
  const register = useAddRegistry(org);
  const form = useForm({
    initialValues: { name: "", url: "", ref: "", credential: "" },
    validateInputOnBlur: true,
    validate: {
      name: name =>
        name === "" || NAME_PATTERN.test(name) ? null : "Use lower-case letters, digits and hyphens",
    },
  });
  const { name, url, ref, credential } = form.values;
  return (
    <ConfirmDialog
      onClose={onClose}
      title="Add custom steps"
      action="Add"
      mutation={register}
      disabled={!NAME_PATTERN.test(name) || url.trim() === ""}
      input={{
        name,
        url: url.trim(),
        ref: ref.trim() || undefined,
        credential: credential || undefined,
      }}
      onSuccess={made =>
        navigate({
          to: "/o/$org/settings/custom-steps/$registryId",
          params: { org, registryId: made.name },
        })
      }
    >
      <Text size="sm" c="dimmed">
        Berth builds the repository on this server, in a sandbox and without secrets. Pipelines can then use
        its steps.
      </Text>
      <TextInput
        label="Name"
        description="Prefix of its steps in pipeline definitions (tools/deploy). Cannot be changed."
        placeholder="tools"
        required
        data-autofocus
        maxLength={63}
        {...form.getInputProps("name")}
      />
      <TextInput
        label="Repository URL"
        placeholder="https://git.acme.test/steps.git"
        required
        maxLength={1024}
        {...form.getInputProps("url")}
      />
      <TextInput
        label="Branch, tag or commit"
        placeholder="Default branch"
        maxLength={255}
        {...form.getInputProps("ref")}
      />
      <SecretSelect {...form.getInputProps("credential")} />
    </ConfirmDialog>
  );
}
