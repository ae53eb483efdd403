import { Table, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { hookDeliveriesQuery } from "@/data/connections";
import { useOrg } from "@/data/me";
import { ActionsCell, LabelledCell, ResponsiveTable } from "@/ui/lists/ResponsiveTable";
import { QueryResult } from "@/ui/QueryResult";
import { RelativeTime } from "@/ui/RelativeTime";

/** Deliveries of the forge with a valid signature, newest first. */
export function HookDeliveryTable({ repositoryId }: { repositoryId: string }) {
  const deliveries = useQuery(hookDeliveriesQuery(useOrg(), repositoryId));
  return (
    <QueryResult of={deliveries}>
      {({ data }) =>
        data.length === 0 ? (
          <Text c="dimmed">No deliveries yet. Push a commit, or send a test delivery.</Text>
        ) : (
          <ResponsiveTable of={["Event", "Result", "Received"]}>
            {data.map(each => (
              <Table.Tr key={each.id}>
                <Table.Td className="wrap">{each.kind}</Table.Td>
                <LabelledCell of="Result">{each.outcome}</LabelledCell>
                <LabelledCell of="Received">
                  <RelativeTime at={each.receivedAt} />
                </LabelledCell>
                <ActionsCell />
              </Table.Tr>
            ))}
          </ResponsiveTable>
        )
      }
    </QueryResult>
  );
}
