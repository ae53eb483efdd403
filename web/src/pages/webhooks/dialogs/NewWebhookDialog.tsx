import { Button, Group, Modal, NativeSelect, Stack, Text, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import type { Webhook } from "@/api/types";
import { useOrg } from "@/data/me";
import { useCreateWebhook } from "@/data/webhooks";
import { EventKindPicker } from "@/ui/events/EventKindPicker";
import { OneTimeSecretDialog } from "@/ui/OneTimeSecretDialog";
import { ProblemPanel } from "@/ui/ProblemPanel";

type Values = { name: string; url: string; format: "standard" | "slack"; kinds: Webhook["kinds"] };

export function NewWebhookDialog({ onClose }: { onClose: () => void }) {
  const create = useCreateWebhook(useOrg());
  const form = useForm<Values>({
    initialValues: {
      name: "",
      url: "",
      format: "standard",
      kinds: ["deployment_failed", "session_overridden"],
    },
    validate: { kinds: kinds => (kinds.length === 0 ? "Select at least one event" : null) },
  });
  if (create.data) {
    return (
      <OneTimeSecretDialog
        title="Webhook created"
        note="Use this secret to verify signatures."
        label="Signing secret"
        text={create.data.secret ?? ""}
        onClose={onClose}
      />
    );
  }
  return (
    <Modal opened onClose={onClose} title={<Text fw={650}>Create webhook</Text>}>
      <form onSubmit={form.onSubmit(values => create.mutate(values))}>
        <Stack>
          <TextInput
            label="Name"
            placeholder="ops-chat"
            required
            data-autofocus
            {...form.getInputProps("name")}
          />
          <TextInput
            label="URL"
            type="url"
            placeholder="https://hooks.acme.test/berth"
            required
            {...form.getInputProps("url")}
          />
          <NativeSelect
            label="Format"
            data={[
              { value: "standard", label: "Standard Webhooks (signed JSON)" },
              { value: "slack", label: "Slack-compatible message" },
            ]}
            {...form.getInputProps("format")}
          />
          <EventKindPicker value={form.values.kinds} {...form.getInputProps("kinds")} />
          {create.isError && <ProblemPanel error={create.error} compact />}
          <Group justify="flex-end">
            <Button variant="default" onClick={onClose}>
              Cancel
            </Button>
            <Button type="submit" loading={create.isPending}>
              Create
            </Button>
          </Group>
        </Stack>
      </form>
    </Modal>
  );
}
