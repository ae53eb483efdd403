import { Card, Switch, Text, Title } from "@mantine/core";
import {
  type DesktopNotificationState,
  setDesktopNotifications,
  useDesktopNotificationState,
} from "@/data/desktopNotifications";

const LEADS: Record<DesktopNotificationState, string> = {
  on: "Applies to this browser, while the dashboard is open",
  off: "Applies to this browser, while the dashboard is open",
  denied: "Your browser blocks notifications from this site. Allow them in the settings of the browser.",
  unsupported: "Your browser does not support notifications from this site",
};

/** Turns desktop notifications on and off in this browser. */
export function DesktopNotificationsCard() {
  const state = useDesktopNotificationState();
  return (
    <Card component="section" aria-label="Desktop notifications">
      <Title order={2} mb={4}>
        Desktop notifications
      </Title>
      <Text c="dimmed" size="sm" mb="sm">
        {LEADS[state]}
      </Text>
      <Switch
        label="Show new messages in your inbox"
        checked={state === "on"}
        disabled={state === "denied" || state === "unsupported"}
        onChange={event => setDesktopNotifications(event.currentTarget.checked)}
      />
    </Card>
  );
}
