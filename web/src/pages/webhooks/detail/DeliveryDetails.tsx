import { Box, Code, Skeleton, Stack, Table, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import type { Delivery, Webhook } from "@/api/types";
import { eventQuery } from "@/data/events";
import { useOrg } from "@/data/me";
import { formatDateTime } from "@/format/time";
import { CopyIconButton } from "@/ui/Copy";
import { Link } from "@/ui/Link";
import { ProblemPanel } from "@/ui/ProblemPanel";

type Props = { webhook: Webhook; delivery: Delivery };

/** Request and responses of a delivery. Response bodies are not stored. */
export function DeliveryDetails({ webhook, delivery }: Props) {
  return (
    <Stack gap="md" py="xs">
      <Request webhook={webhook} delivery={delivery} />
      <Responses delivery={delivery} />
    </Stack>
  );
}

function Request({ webhook, delivery }: Props) {
  const org = useOrg();
  const event = useQuery(eventQuery(org, delivery.eventId));
  const json = event.data && JSON.stringify(event.data, null, 2);
  return (
    <section aria-label="Request">
      <Title order={3} fz="sm" mb={4}>
        Request
      </Title>
      <Text size="sm" className="wrap" mb="xs">
        <code>POST {webhook.url}</code>
        <br />
        <code>webhook-id: {delivery.id}</code>
      </Text>
      <Text size="sm" c="dimmed" mb={6}>
        Sent for{" "}
        <Link to="/o/$org/events" params={{ org }} search={{ event: delivery.eventId }} inherit>
          event #{delivery.sequence}
        </Link>
        {webhook.format === "slack" ? " as a line of text" : ""}
      </Text>
      {event.isError && <ProblemPanel error={event.error} retry={() => event.refetch()} compact />}
      {event.isPending && <Skeleton height={120} />}
      {json && (
        <Box pos="relative">
          <Code block tabIndex={0} aria-label="Event" style={{ overflow: "auto", maxHeight: 320 }}>
            {json}
          </Code>
          <Box pos="absolute" top={6} right={6}>
            <CopyIconButton value={json} label="Copy event" />
          </Box>
        </Box>
      )}
    </section>
  );
}

function Responses({ delivery }: { delivery: Delivery }) {
  return (
    <section aria-label="Responses">
      <Title order={3} fz="sm" mb={4}>
        Responses
      </Title>
      {delivery.attempts.length === 0 ? (
        <Text size="sm" c="dimmed">
          Not sent yet
        </Text>
      ) : (
        <Table withRowBorders={false} verticalSpacing={2} fz="sm" w="auto">
          <Table.Thead>
            <Table.Tr>
              <Table.Th pl={0}>Attempt</Table.Th>
              <Table.Th>Sent</Table.Th>
              <Table.Th>Response</Table.Th>
              <Table.Th>Duration</Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {delivery.attempts.map(each => (
              <Table.Tr key={each.number}>
                <Table.Td pl={0}>{each.number}</Table.Td>
                <Table.Td>{formatDateTime(each.at)}</Table.Td>
                <Table.Td className="wrap">
                  {[each.status != null && `status ${each.status}`, each.error].filter(Boolean).join(": ")}
                </Table.Td>
                <Table.Td className="tabular">{each.durationMs} ms</Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      )}
      <Text size="sm" c="dimmed" mt={4}>
        Berth stores the status and duration of responses, not their bodies
      </Text>
    </section>
  );
}
