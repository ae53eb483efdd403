import { Text, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import type { InstanceOrganization } from "@/api/types";
import { useCreateOrganization, useDeleteOrganization, useRenameOrganization } from "@/data/instance";
import { ConfirmDialog } from "@/ui/ConfirmDialog";

const NAME_CHARS_MAX = 120;
const SLUG_CHARS_MAX = 63;

export function NewOrganizationDialog({ onClose }: { onClose: () => void }) {
  const form = useForm({ initialValues: { slug: "", name: "" } });
  const slug = form.values.slug.trim();
  const name = form.values.name.trim();
  return (
    <ConfirmDialog
      onClose={onClose}
      title="Create organization"
      action="Create"
      mutation={useCreateOrganization()}
      input={slug === "" ? null : { slug, name: name || undefined }}
      success={made => `Organization ${made.name} created. You are its owner`}
    >
      <TextInput
        label="Slug"
        description="Name in URLs"
        placeholder="globex"
        required
        data-autofocus
        spellCheck={false}
        maxLength={SLUG_CHARS_MAX}
        {...form.getInputProps("slug")}
      />
      <TextInput
        label="Name"
        description="Optional. Defaults to the slug."
        placeholder="Globex"
        maxLength={NAME_CHARS_MAX}
        {...form.getInputProps("name")}
      />
    </ConfirmDialog>
  );
}

type OrganizationDialogProps = {
  organization: Pick<InstanceOrganization, "id" | "slug" | "name">;
  onClose: () => void;
  onSuccess?: (slug: string) => void;
};

export function RenameOrganizationDialog({ organization, onClose, onSuccess }: OrganizationDialogProps) {
  const form = useForm({ initialValues: { slug: organization.slug, name: organization.name } });
  const slug = form.values.slug.trim();
  const name = form.values.name.trim();
  return (
    <ConfirmDialog
      onClose={onClose}
      title={`Rename ${organization.name}`}
      action="Rename"
      mutation={useRenameOrganization(organization.id)}
      input={slug === "" || name === "" ? null : { slug, name }}
      success={renamed => `Organization renamed to ${renamed.name}`}
      onSuccess={renamed => onSuccess?.(renamed.slug)}
    >
      <TextInput
        label="Slug"
        description="The old slug keeps working and is not given to another organization. The subject of ID tokens changes."
        data-autofocus
        spellCheck={false}
        maxLength={SLUG_CHARS_MAX}
        {...form.getInputProps("slug")}
      />
      <TextInput label="Name" maxLength={NAME_CHARS_MAX} {...form.getInputProps("name")} />
    </ConfirmDialog>
  );
}

export function DeleteOrganizationDialog({ organization, onClose, onSuccess }: OrganizationDialogProps) {
  const form = useForm({ initialValues: { confirm: "" } });
  const confirm = form.values.confirm.trim();
  return (
    <ConfirmDialog
      onClose={onClose}
      title={`Delete ${organization.name}?`}
      action="Delete organization"
      danger
      mutation={useDeleteOrganization(organization.id)}
      input={confirm === organization.slug ? confirm : null}
      success={() => `Organization ${organization.name} deleted`}
      onSuccess={() => onSuccess?.(organization.slug)}
    >
      <Text size="sm">
        Its pipelines, deployments, secrets, logs and audit log are deleted. This cannot be undone. Accounts
        of its members remain.
      </Text>
      <TextInput
        label={`Enter ${organization.slug} to confirm`}
        data-autofocus
        spellCheck={false}
        autoComplete="off"
        {...form.getInputProps("confirm")}
      />
    </ConfirmDialog>
  );
}
