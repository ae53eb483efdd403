import { Button, Group, Modal, NativeSelect, Stack, Text, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { type ChatDestination, useCreateChat } from "@/data/chats";
import { useOrg } from "@/data/me";
import { ProblemPanel } from "@/ui/ProblemPanel";
import { toast } from "@/ui/toast";

type Values = { name: string; type: ChatDestination["type"]; address: string };

/** `hasSlackApp`: whether messages can be sent to a channel through the organization's Slack app. */
export function NewChatDialog({ hasSlackApp, onClose }: { hasSlackApp: boolean; onClose: () => void }) {
  const create = useCreateChat(useOrg());
  const form = useForm<Values>({ initialValues: { name: "", type: "slack_webhook", address: "" } });
  const isChannel = form.values.type === "slack_channel";
  const submit = form.onSubmit(({ name, type, address }) =>
    create.mutate(isChannel ? { name, type, channel: address } : { name, type, url: address }, {
      onSuccess: () => {
        toast.success(`${name} added`);
        onClose();
      },
    }),
  );
  return (
    <Modal opened onClose={onClose} title={<Text fw={650}>Add chat destination</Text>}>
      <form onSubmit={submit}>
        <Stack>
          <TextInput
            label="Name"
            placeholder="deploys"
            required
            data-autofocus
            {...form.getInputProps("name")}
          />
          <NativeSelect
            label="Type"
            data={[
              { value: "slack_webhook", label: "Slack: incoming webhook" },
              { value: "teams_webhook", label: "Microsoft Teams: workflow with a webhook" },
              {
                value: "slack_channel",
                label: "Slack: channel, through the Slack app",
                disabled: !hasSlackApp,
              },
            ]}
            {...form.getInputProps("type")}
          />
          <TextInput
            label={isChannel ? "Channel id" : "Webhook URL"}
            description={
              isChannel ? "Slack shows it in the channel's details" : "Stored encrypted and never shown"
            }
            placeholder={isChannel ? "C024BE91L" : "https://hooks.slack.com/services/…"}
            required
            {...form.getInputProps("address")}
          />
          {create.isError && <ProblemPanel error={create.error} compact />}
          <Group justify="flex-end">
            <Button variant="default" onClick={onClose}>
              Cancel
            </Button>
            <Button type="submit" loading={create.isPending}>
              Add
            </Button>
          </Group>
        </Stack>
      </form>
    </Modal>
  );
}
