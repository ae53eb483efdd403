import { Group, Table } from "@mantine/core";
import type { ReactNode } from "react";
import styles from "./rows.module.css";

type RowsProps = { of: string[]; children: ReactNode };

/** Table; in a narrow container each row becomes a block whose cells show their column's name. */
export function ResponsiveTable({ of, children }: RowsProps) {
  return (
    <div className={styles.rows}>
      <Table verticalSpacing="sm" horizontalSpacing="md">
        <Table.Thead>
          <Table.Tr>
            {of.map(name => (
              <Table.Th key={name}>{name}</Table.Th>
            ))}
            <Table.Th aria-label="Actions" />
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>{children}</Table.Tbody>
      </Table>
    </div>
  );
}

/** Cell of the named column. */
export function LabelledCell({ of, children }: { of: string; children: ReactNode }) {
  return (
    <Table.Td data-of={of} className="wrap">
      <div>{children}</div>
    </Table.Td>
  );
}

/** Last cell of a row, with its buttons. */
export function ActionsCell({ children }: { children?: ReactNode }) {
  return (
    <Table.Td>
      {children && (
        <Group justify="flex-end" gap="xs" wrap="nowrap">
          {children}
        </Group>
      )}
    </Table.Td>
  );
}
