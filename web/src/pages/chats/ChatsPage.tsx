import { Button, Group, Table, Text } from "@mantine/core";
import { IconMessages } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { type ChatDestination, chatsQuery, slackQuery, useDeleteChat, useTestChat } from "@/data/chats";
import { useOrg, useOrganization, usePermission } from "@/data/me";
import { chatStatusStyle } from "@/theme/status";
import { ConfirmDialog } from "@/ui/ConfirmDialog";
import { EmptyState } from "@/ui/EmptyState";
import { ActionsCell, LabelledCell } from "@/ui/lists/ResponsiveTable";
import { SettingsList } from "@/ui/lists/SettingsList";
import { NotificationRules } from "@/ui/notificationRules/NotificationRules";
import { RelativeTime } from "@/ui/RelativeTime";
import { StatusBadge } from "@/ui/StatusBadge";
import { toast } from "@/ui/toast";
import { NewChatDialog } from "./NewChatDialog";

const TYPES: Record<ChatDestination["type"], string> = {
  slack_webhook: "Slack webhook",
  teams_webhook: "Microsoft Teams",
  slack_channel: "Slack channel",
};

/** Chat destinations of the organization, and its rules about what is sent to them. */
export function ChatsPage() {
  const org = useOrg();
  const organization = useOrganization();
  const mayWrite = usePermission("webhooks:write");
  const mayWriteRules = usePermission("members:write");
  const slack = useQuery(slackQuery(org));
  const [isAdding, setAdding] = useState(false);
  const [deleting, setDeleting] = useState<ChatDestination | null>(null);
  const workspace = slack.data?.connection?.workspace;
  return (
    <SettingsList
      title="Chats"
      lead={
        workspace ? `Connected to the Slack workspace ${workspace}` : "Channels in Slack and Microsoft Teams"
      }
      add={mayWrite && { label: "Add destination", onClick: () => setAdding(true) }}
      query={useQuery(chatsQuery(org))}
      columns={["Name", "Type", "Status"]}
      row={chat => <ChatRow chat={chat} mayWrite={mayWrite} remove={() => setDeleting(chat)} />}
      empty={
        <EmptyState icon={IconMessages} title="No chat destinations yet">
          Add one to send deployments, takeovers or approvals to a channel.
        </EmptyState>
      }
    >
      {organization && (
        <NotificationRules scope={{ kind: "organization" }} org={organization} mayWrite={mayWriteRules} />
      )}
      {isAdding && <NewChatDialog hasSlackApp={workspace !== undefined} onClose={() => setAdding(false)} />}
      {deleting && <DeleteChatDialog chat={deleting} onClose={() => setDeleting(null)} />}
    </SettingsList>
  );
}

type RowProps = { chat: ChatDestination; mayWrite: boolean; remove: () => void };

function ChatRow({ chat, mayWrite, remove }: RowProps) {
  const { id, name, type, host, channel, pending, error, deliveredAt } = chat;
  const test = useTestChat(useOrg());
  return (
    <Table.Tr aria-label={name}>
      <Table.Td>
        <Text fw={550}>{name}</Text>
        <Text size="sm" c="dimmed" className="wrap">
          {host ?? channel}
        </Text>
      </Table.Td>
      <LabelledCell of="Type">{TYPES[type]}</LabelledCell>
      <LabelledCell of="Status">
        <StatusBadge status={chatStatusStyle(chat)} />
        <Text size="sm" c="dimmed" className="wrap">
          {error}
          {!error && deliveredAt && (
            <>
              delivered <RelativeTime at={deliveredAt} />
            </>
          )}
          {pending > 0 && `${error || deliveredAt ? ", " : ""}${pending} pending`}
        </Text>
      </LabelledCell>
      <ActionsCell>
        {mayWrite && (
          <Group gap="xs" justify="flex-end" wrap="nowrap">
            <Button
              size="xs"
              variant="default"
              loading={test.isPending}
              onClick={() =>
                test.mutate(id, {
                  onSuccess: () => toast.success("Sending a test message"),
                  onError: toast.problem,
                })
              }
            >
              Test
            </Button>
            <Button size="xs" variant="default" onClick={remove}>
              Delete
            </Button>
          </Group>
        )}
      </ActionsCell>
    </Table.Tr>
  );
}

function DeleteChatDialog({ chat, onClose }: { chat: ChatDestination; onClose: () => void }) {
  return (
    <ConfirmDialog
      onClose={onClose}
      title={`Delete ${chat.name}?`}
      action="Delete destination"
      danger
      mutation={useDeleteChat(useOrg())}
      input={chat.id}
      success={() => `${chat.name} deleted`}
    >
      <Text size="sm">
        Messages that wait for it are discarded. Rules that name it send nothing any more.
      </Text>
    </ConfirmDialog>
  );
}
