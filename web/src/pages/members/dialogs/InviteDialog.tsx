import { NativeSelect, Text, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import type { Role } from "@/api/types";
import { useInviteMember } from "@/data/invitations";
import { useAccess, useOrg } from "@/data/me";
import { roleOptions } from "@/format/access";
import { ConfirmDialog } from "@/ui/ConfirmDialog";
import { OneTimeSecretDialog } from "@/ui/OneTimeSecretDialog";

type Values = { email: string; name: string; role: Role };

/** Invites a person and shows the link once. */
export function InviteDialog({ onClose }: { onClose: () => void }) {
  const invite = useInviteMember(useOrg());
  const mine = useAccess().role;
  const form = useForm<Values>({ initialValues: { email: "", name: "", role: "deployer" } });
  const made = invite.data;
  if (made?.url) {
    return (
      <OneTimeSecretDialog
        title={`Send this link to ${made.email}`}
        note="The link works once and expires in 7 days. Berth does not send email: share the link privately. For a new link, invite the same address again."
        label="Invitation link"
        text={made.url}
        copy="Copy link"
        done="Done"
        onClose={onClose}
      />
    );
  }
  return (
    <ConfirmDialog
      onClose={onClose}
      title="Invite member"
      action="Invite"
      mutation={invite}
      input={{ ...form.values, name: form.values.name.trim() || undefined }}
    >
      <Text size="sm" c="dimmed">
        Creates a link to share. They accept with a new or an existing account.
      </Text>
      <TextInput label="Email" type="email" required data-autofocus {...form.getInputProps("email")} />
      <TextInput
        label="Name"
        description="Optional. They can change it."
        maxLength={120}
        {...form.getInputProps("name")}
      />
      <NativeSelect label="Role" data={roleOptions(mine)} {...form.getInputProps("role")} />
    </ConfirmDialog>
  );
}
