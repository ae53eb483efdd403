import { Button, Table, Text } from "@mantine/core";
import { IconCheck, IconClock, IconX } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import type { Delivery } from "@/api/types";
import { useMay, useOrg } from "@/data/me";
import { deliveriesQuery, useRedeliver } from "@/data/webhooks";
import type { StatusStyle } from "@/theme/status";
import { ActionsCell, Cell, Rows } from "@/ui/lists/Rows";
import { Query } from "@/ui/Query";
import { StatusText } from "@/ui/Status";
import { toast } from "@/ui/toast";
import { When } from "@/ui/When";

const DELIVERY_STATUS_STYLE: Record<Delivery["status"], StatusStyle> = {
  pending: { label: "pending", tone: "busy", icon: IconClock },
  delivered: { label: "delivered", tone: "good", icon: IconCheck },
  failed: { label: "failed", tone: "bad", icon: IconX },
};

function formatOutcome({ attempts, nextTryAt }: Delivery) {
  const last = attempts.at(-1);
  return (
    <>
      {last ? (last.error ?? `status ${last.status}`) : "not sent yet"}
      {attempts.length > 1 && `, ${attempts.length} attempts`}
      {nextTryAt && (
        <>
          , next attempt <When at={nextTryAt} />
        </>
      )}
    </>
  );
}

/** Deliveries of a webhook, newest first. */
export function Deliveries({ webhookId }: { webhookId: string }) {
  const org = useOrg();
  const mayWrite = useMay("webhooks:write");
  const deliveries = useQuery(deliveriesQuery(org, webhookId));
  const redeliver = useRedeliver(org, webhookId);
  const again = (id: string) =>
    redeliver.mutate(id, { onSuccess: () => toast.success("Redelivery queued"), onError: toast.problem });
  return (
    <Query of={deliveries}>
      {({ data }) =>
        data.length === 0 ? (
          <Text c="dimmed">No deliveries yet. The next matching event creates one.</Text>
        ) : (
          <Rows of={["Event", "Status", "Result"]}>
            {data.map(each => (
              <Table.Tr key={each.id}>
                <Table.Td>
                  {each.kind.replaceAll("_", " ")}
                  <Text size="sm" c="dimmed">
                    <When at={each.createdAt} />
                  </Text>
                </Table.Td>
                <Cell of="Status">
                  <StatusText status={DELIVERY_STATUS_STYLE[each.status]} />
                </Cell>
                <Cell of="Result">{formatOutcome(each)}</Cell>
                <ActionsCell>
                  {mayWrite && each.status !== "pending" && (
                    <Button size="xs" variant="default" onClick={() => again(each.id)}>
                      Redeliver
                    </Button>
                  )}
                </ActionsCell>
              </Table.Tr>
            ))}
          </Rows>
        )
      }
    </Query>
  );
}
