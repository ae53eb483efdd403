import { Button, Group, Modal, NativeSelect, Stack, Text, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import type { Role } from "@/api/types";
import { useAccess, useOrg } from "@/data/me";
import { useAddServiceAccount } from "@/data/members";
import { roleOptions } from "@/format/access";
import { ConfirmDialog } from "@/ui/ConfirmDialog";
import { LinkButton } from "@/ui/Link";

type Values = { email: string; name: string; role: Role };

/** Adds a service account. */
export function NewServiceAccountDialog({ onClose }: { onClose: () => void }) {
  const org = useOrg();
  const add = useAddServiceAccount(org);
  const mine = useAccess().role;
  const form = useForm<Values>({ initialValues: { email: "", name: "", role: "deployer" } });
  if (add.data) {
    return (
      <Modal opened onClose={onClose} title={<Text fw={650}>{add.data.name} added</Text>}>
        <Stack>
          <Text size="sm">Service accounts have no password. Create an API token for it.</Text>
          <Group justify="flex-end">
            <Button variant="default" onClick={onClose}>
              Done
            </Button>
            <LinkButton to="/o/$org/settings/tokens" params={{ org }}>
              Go to API tokens
            </LinkButton>
          </Group>
        </Stack>
      </Modal>
    );
  }
  return (
    <ConfirmDialog
      onClose={onClose}
      title="Add service account"
      action="Add"
      mutation={add}
      input={{ ...form.values, name: form.values.name.trim() || undefined }}
    >
      <Text size="sm" c="dimmed">
        For CI and other programs. Service accounts use API tokens and cannot log in.
      </Text>
      <TextInput
        label="Email"
        description="Identifies the account. No email is sent."
        type="email"
        required
        data-autofocus
        {...form.getInputProps("email")}
      />
      <TextInput label="Name" {...form.getInputProps("name")} />
      <NativeSelect label="Role" data={roleOptions(mine)} {...form.getInputProps("role")} />
    </ConfirmDialog>
  );
}
