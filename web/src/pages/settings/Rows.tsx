import { Table } from "@mantine/core";
import type { ReactNode } from "react";
import styles from "./rows.module.css";

type RowsProps = { of: string[]; children: ReactNode };

/** A table where there is room for one. Elsewhere each row stands as a block, and its cells say what they are. */
export function Rows({ of, children }: RowsProps) {
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

/** A cell that names its column where the head of the table has no place. */
export function Cell({ of, children }: { of: string; children: ReactNode }) {
  return (
    <Table.Td data-of={of} className="wrap">
      <div>{children}</div>
    </Table.Td>
  );
}
