import { Button, Card, Group, Table, Text, Title } from "@mantine/core";
import { IconPlus } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { Grant } from "@/api/types";
import { grantsQuery, useDeleteGrant } from "@/data/grants";
import { useAccess, useOrg, usePermission } from "@/data/me";
import { roleIncludes } from "@/data/permissions";
import { formatScopeName } from "@/format/access";
import { ConfirmDialog } from "../ConfirmDialog";
import { ActionsCell, LabelledCell, ResponsiveTable } from "../lists/ResponsiveTable";
import { QueryResult } from "../QueryResult";
import { RelativeTime } from "../RelativeTime";
import { type GrantSubject, NewGrantDialog } from "./NewGrantDialog";

type Props = { subject: GrantSubject; none: string };

/** The grants of a member or a team. */
export function GrantList({ subject, none }: Props) {
  const grants = useQuery(grantsQuery(useOrg(), subject.key));
  const mayWrite = usePermission("members:write");
  const [isAdding, setAdding] = useState(false);
  const [deleting, setDeleting] = useState<Grant | null>(null);
  return (
    <section aria-label="Grants">
      <Group justify="space-between" mb="sm">
        <Title order={2}>Grants</Title>
        {mayWrite && (
          <Button
            variant="default"
            size="xs"
            leftSection={<IconPlus size={14} />}
            onClick={() => setAdding(true)}
          >
            Add grant
          </Button>
        )}
      </Group>
      <QueryResult of={grants}>
        {({ data }) =>
          data.length === 0 ? (
            <Text c="dimmed">{none}</Text>
          ) : (
            <Card padding={0}>
              <ResponsiveTable of={["Role", "Scope", "Added"]}>
                {data.map(grant => (
                  <GrantRow
                    key={grant.id}
                    grant={grant}
                    mayWrite={mayWrite}
                    remove={() => setDeleting(grant)}
                  />
                ))}
              </ResponsiveTable>
            </Card>
          )
        }
      </QueryResult>
      {isAdding && <NewGrantDialog subject={subject} onClose={() => setAdding(false)} />}
      {deleting && <DeleteGrantDialog grant={deleting} onClose={() => setDeleting(null)} />}
    </section>
  );
}

type RowProps = { grant: Grant; mayWrite: boolean; remove: () => void };

function GrantRow({ grant, mayWrite, remove }: RowProps) {
  const mine = useAccess().role;
  return (
    <Table.Tr>
      <Table.Td fw={500}>{grant.role}</Table.Td>
      <LabelledCell of="Scope">
        {formatScopeName(grant.scope)}
        <Text size="sm" c="dimmed">
          <code>{grant.scope}</code>
        </Text>
      </LabelledCell>
      <LabelledCell of="Added">
        <RelativeTime at={grant.createdAt} /> by {grant.createdBy.name}
      </LabelledCell>
      <ActionsCell>
        {mayWrite && roleIncludes(mine, grant.role) && (
          <Button
            size="xs"
            variant="default"
            onClick={remove}
            aria-label={`Delete the grant of ${grant.role} on ${grant.scope}`}
          >
            Delete
          </Button>
        )}
      </ActionsCell>
    </Table.Tr>
  );
}

type DeleteProps = { grant: Grant; onClose: () => void };

function DeleteGrantDialog({ grant, onClose }: DeleteProps) {
  return (
    <ConfirmDialog
      onClose={onClose}
      title="Delete this grant?"
      action="Delete grant"
      danger
      mutation={useDeleteGrant(useOrg())}
      input={grant.id}
      success={() => "Grant deleted"}
    >
      <Text size="sm">
        {grant.subject.name} loses the role {grant.role} on {formatScopeName(grant.scope)} immediately. Active
        sessions continue until they end.
      </Text>
    </ConfirmDialog>
  );
}
