import { Button, Table, Text } from "@mantine/core";
import { IconCheck, IconClock, IconX } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { Fragment, useState } from "react";
import type { Delivery, Webhook } from "@/api/types";
import { useOrg, usePermission } from "@/data/me";
import { deliveriesQuery, useRedeliverWebhook } from "@/data/webhooks";
import type { StatusStyle } from "@/theme/status";
import { formatEventKind } from "@/ui/events/eventKind";
import { ActionsCell, LabelledCell, ResponsiveTable } from "@/ui/lists/ResponsiveTable";
import { QueryResult } from "@/ui/QueryResult";
import { RelativeTime } from "@/ui/RelativeTime";
import { StatusText } from "@/ui/StatusBadge";
import { toast } from "@/ui/toast";
import { DeliveryDetails } from "./DeliveryDetails";

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
          , next attempt <RelativeTime at={nextTryAt} />
        </>
      )}
    </>
  );
}

/** Deliveries of a webhook, newest first. */
export function DeliveryTable({ webhook }: { webhook: Webhook }) {
  const org = useOrg();
  const webhookId = webhook.id;
  const [opened, setOpened] = useState<string | null>(null);
  const mayWrite = usePermission("webhooks:write");
  const deliveries = useQuery(deliveriesQuery(org, webhookId));
  const redeliver = useRedeliverWebhook(org, webhookId);
  const again = (id: string) =>
    redeliver.mutate(id, { onSuccess: () => toast.success("Redelivery queued"), onError: toast.problem });
  return (
    <QueryResult of={deliveries}>
      {({ data }) =>
        data.length === 0 ? (
          <Text c="dimmed">No deliveries yet. The next matching event creates one.</Text>
        ) : (
          <ResponsiveTable of={["Event", "Status", "Result"]}>
            {data.map(each => (
              <Fragment key={each.id}>
                <Table.Tr>
                  <Table.Td>
                    {formatEventKind(each.kind)}
                    <Text size="sm" c="dimmed">
                      <RelativeTime at={each.createdAt} />
                    </Text>
                  </Table.Td>
                  <LabelledCell of="Status">
                    <StatusText status={DELIVERY_STATUS_STYLE[each.status]} />
                  </LabelledCell>
                  <LabelledCell of="Result">{formatOutcome(each)}</LabelledCell>
                  <ActionsCell>
                    <Button
                      size="xs"
                      variant="subtle"
                      aria-expanded={opened === each.id}
                      aria-label={`Details of ${formatEventKind(each.kind)}, event ${each.sequence}`}
                      onClick={() => setOpened(opened === each.id ? null : each.id)}
                    >
                      {opened === each.id ? "Hide" : "Details"}
                    </Button>
                    {mayWrite && each.status !== "pending" && (
                      <Button size="xs" variant="default" onClick={() => again(each.id)}>
                        Redeliver
                      </Button>
                    )}
                  </ActionsCell>
                </Table.Tr>
                {opened === each.id && (
                  <Table.Tr>
                    <Table.Td colSpan={4}>
                      <DeliveryDetails webhook={webhook} delivery={each} />
                    </Table.Td>
                  </Table.Tr>
                )}
              </Fragment>
            ))}
          </ResponsiveTable>
        )
      }
    </QueryResult>
  );
}
