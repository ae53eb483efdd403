import { Button, Group, Modal, NativeSelect, Stack, Text, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import type { Webhook } from "@/api/types";
import { useOrg } from "@/data/me";
import { useCreateWebhook } from "@/data/webhooks";
import { ProblemPanel } from "@/ui/Problem";
import { ShownOnce } from "@/ui/ShownOnce";
import { Kinds } from "./Kinds";

type Values = { name: string; url: string; format: "standard" | "slack"; kinds: Webhook["kinds"] };

export function NewWebhook({ onClose }: { onClose: () => void }) {
  const create = useCreateWebhook(useOrg());
  const form = useForm<Values>({
    initialValues: {
      name: "",
      url: "",
      format: "standard",
      kinds: ["deployment_failed", "session_overridden"],
    },
    validate: { kinds: kinds => (kinds.length === 0 ? "Choose at least one" : null) },
  });
  if (create.data) {
    return (
      <ShownOnce
        title="Copy its secret now"
        note="The receiver checks signatures with it."
        label="The webhook's secret"
        text={create.data.secret ?? ""}
        onClose={onClose}
      />
    );
  }
  return (
    <Modal opened onClose={onClose} title={<Text fw={650}>Create a webhook</Text>}>
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
            label="Address"
            type="url"
            placeholder="https://hooks.acme.test/berth"
            required
            {...form.getInputProps("url")}
          />
          <NativeSelect
            label="Form"
            data={[
              { value: "standard", label: "Standard Webhooks, signed" },
              { value: "slack", label: "A line of text for Slack and its like" },
            ]}
            {...form.getInputProps("format")}
          />
          <Kinds value={form.values.kinds} {...form.getInputProps("kinds")} />
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
