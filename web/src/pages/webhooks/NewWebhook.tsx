import {
  Alert,
  Button,
  Checkbox,
  Group,
  Modal,
  NativeSelect,
  SimpleGrid,
  Stack,
  Text,
  TextInput,
} from "@mantine/core";
import { useForm } from "@mantine/form";
import { IconEyeOff } from "@tabler/icons-react";
import { useOrg } from "@/data/me";
import { useCreateWebhook } from "@/data/webhooks";
import { Snippet } from "@/ui/Copy";
import { ProblemPanel } from "@/ui/Problem";

/** What people usually want to hear of; every other kind can be set by API. */
const USUAL = [
  { value: "deployment_succeeded", label: "Deployment succeeded" },
  { value: "deployment_failed", label: "Deployment failed" },
  { value: "deployment_rolled_back", label: "Rolled back" },
  { value: "approval_requested", label: "Approval asked for" },
  { value: "session_claimed", label: "Environment claimed" },
  { value: "session_overridden", label: "Environment taken over" },
  { value: "session_released", label: "Environment released" },
  { value: "session_expiring", label: "Hold ends soon" },
];

type Values = { name: string; url: string; format: "standard" | "slack"; kinds: string[] };

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
      <Modal
        opened
        onClose={onClose}
        title={<Text fw={650}>Copy its secret now</Text>}
        closeOnClickOutside={false}
      >
        <Stack>
          <Alert icon={<IconEyeOff />} color="lantern" title="This is the only time you see it">
            The receiver checks signatures with it.
          </Alert>
          <Snippet label="The webhook's secret" text={create.data.secret ?? ""} />
          <Group justify="flex-end">
            <Button onClick={onClose}>I have it</Button>
          </Group>
        </Stack>
      </Modal>
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
          <Checkbox.Group label="Told of" {...form.getInputProps("kinds")}>
            <SimpleGrid cols={{ base: 1, xs: 2 }} mt={6} spacing="xs">
              {USUAL.map(kind => (
                <Checkbox key={kind.value} {...kind} />
              ))}
            </SimpleGrid>
          </Checkbox.Group>
          {create.isError && <ProblemPanel error={create.error} compact />}
          <Group justify="flex-end">
            <Button variant="default" onClick={onClose}>
              Not now
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
