import { Alert, Button, Group, Modal, NativeSelect, Stack, Text, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { IconEyeOff } from "@tabler/icons-react";
import type { Role } from "@/api/types";
import { useInvite } from "@/data/invitations";
import { useOrg } from "@/data/me";
import { CopyText, Snippet } from "@/ui/Copy";
import { ProblemPanel } from "@/ui/Problem";
import { ROLES } from "./roles";

type Values = { email: string; name: string; role: Role };

/** Invites a person, and shows the link the only time it can be seen. */
export function Invite({ onClose }: { onClose: () => void }) {
  const invite = useInvite(useOrg());
  const form = useForm<Values>({ initialValues: { email: "", name: "", role: "deployer" } });
  const made = invite.data;
  if (made?.url) {
    return (
      <Modal
        opened
        onClose={onClose}
        title={<Text fw={650}>Send this link to {made.email}</Text>}
        closeOnClickOutside={false}
      >
        <Stack>
          <Alert icon={<IconEyeOff />} color="lantern" title="This is the only time you see it">
            It works once, for 7 days. Berth sends no mail: give it to the person in private. To get a new
            link, invite the same address again.
          </Alert>
          <Snippet label="The invitation link" text={made.url} />
          <Group justify="flex-end">
            <CopyText value={made.url} label="Copy link" />
            <Button variant="default" onClick={onClose}>
              Done
            </Button>
          </Group>
        </Stack>
      </Modal>
    );
  }
  return (
    <Modal opened onClose={onClose} title={<Text fw={650}>Invite a person</Text>}>
      <form
        onSubmit={form.onSubmit(({ name, ...invitation }) =>
          invite.mutate({ ...invitation, name: name.trim() || undefined }),
        )}
      >
        <Stack>
          <Text size="sm" c="dimmed">
            You get a link for them. They choose their own password, or accept with the account they have.
          </Text>
          <TextInput label="Email" type="email" required data-autofocus {...form.getInputProps("email")} />
          <TextInput
            label="Name"
            description="They can choose another"
            maxLength={120}
            {...form.getInputProps("name")}
          />
          <NativeSelect label="Role" data={ROLES} {...form.getInputProps("role")} />
          {invite.isError && <ProblemPanel error={invite.error} compact />}
          <Group justify="flex-end">
            <Button variant="default" onClick={onClose}>
              Cancel
            </Button>
            <Button type="submit" loading={invite.isPending}>
              Invite
            </Button>
          </Group>
        </Stack>
      </form>
    </Modal>
  );
}
