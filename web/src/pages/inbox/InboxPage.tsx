import { Button, Card, Group, Stack, Text } from "@mantine/core";
import { IconInbox } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import type { Notification } from "@/api/types";
import { useOrg } from "@/data/me";
import { notificationsQuery, useReadAllNotifications, useReadNotification } from "@/data/notifications";
import { EmptyState } from "@/ui/EmptyState";
import { Link } from "@/ui/Link";
import { Page } from "@/ui/Page";
import { QueryResult } from "@/ui/QueryResult";
import { RelativeTime } from "@/ui/RelativeTime";

/** The notifications of the user, newest first. */
export function InboxPage() {
  const org = useOrg();
  const notifications = useQuery(notificationsQuery(org, false));
  const readAll = useReadAllNotifications(org);
  const hasUnread = notifications.data?.data.some(each => each.readAt === null) ?? false;
  return (
    <Page
      title="Inbox"
      lead="Events that concern you"
      actions={
        <Button
          variant="default"
          disabled={!hasUnread}
          loading={readAll.isPending}
          onClick={() => readAll.mutate(undefined)}
        >
          Mark all as read
        </Button>
      }
    >
      <QueryResult of={notifications}>
        {({ data }) =>
          data.length === 0 ? (
            <EmptyState icon={IconInbox} title="No notifications">
              Takeovers, queues, failed deployments and pending approvals that concern you appear here.
            </EmptyState>
          ) : (
            <Stack gap="sm">
              {data.map(each => (
                <NotificationCard key={each.id} notification={each} />
              ))}
            </Stack>
          )
        }
      </QueryResult>
    </Page>
  );
}

function NotificationCard({ notification }: { notification: Notification }) {
  const org = useOrg();
  const read = useReadNotification(org);
  const isUnread = notification.readAt === null;
  return (
    <Card component="article" aria-label={notification.summary}>
      <Group justify="space-between" align="flex-start" gap="sm">
        <Stack gap={4} style={{ flex: "1 1 16rem", minWidth: 0 }}>
          <Text fw={isUnread ? 600 : 400} className="wrap">
            <NotificationLink notification={notification} />
          </Text>
          <RelativeTime at={notification.createdAt} size="sm" c="dimmed" />
        </Stack>
        {isUnread && (
          <Button
            size="xs"
            variant="default"
            loading={read.isPending}
            onClick={() => read.mutate(notification.id)}
          >
            Mark as read
          </Button>
        )}
      </Group>
    </Card>
  );
}

/** The summary, as a link to the page where the user can act. */
function NotificationLink({ notification }: { notification: Notification }) {
  const org = useOrg();
  const { summary, approvalId, deploymentId, pipeline, environment } = notification;
  const style = { inherit: true, c: "inherit", underline: "hover" } as const;
  if (approvalId)
    return (
      <Link to="/o/$org/approvals" params={{ org }} search={{ approval: approvalId }} {...style}>
        {summary}
      </Link>
    );
  if (deploymentId)
    return (
      <Link to="/o/$org/deployments/$deploymentId" params={{ org, deploymentId }} {...style}>
        {summary}
      </Link>
    );
  if (pipeline && environment)
    return (
      <Link
        to="/o/$org/environments/$pipelineId/$envName"
        params={{ org, pipelineId: pipeline, envName: environment }}
        {...style}
      >
        {summary}
      </Link>
    );
  return <>{summary}</>;
}
