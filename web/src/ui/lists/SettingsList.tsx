import { Button, Card, Stack } from "@mantine/core";
import { IconPlus } from "@tabler/icons-react";
import type { UseQueryResult } from "@tanstack/react-query";
import { Fragment, type ReactNode } from "react";
import { Page } from "../Page";
import { QueryResult } from "../QueryResult";
import { ResponsiveTable } from "./ResponsiveTable";

type Props<Item> = {
  title: string;
  lead: string;
  query: UseQueryResult<{ data: Item[] }>;
  /** Column names of a table; without them every row is a card. */
  columns?: string[];
  row: (item: Item) => ReactNode;
  /** Shown in place of an empty list. */
  empty?: ReactNode;
  /** Shown below the list. */
  footer?: (items: Item[]) => ReactNode;
  /** The button that adds an item; false for users without the permission. */
  add: false | { label: string; onClick: () => void };
  actions?: ReactNode;
  /** Further sections, and the open dialog. */
  children?: ReactNode;
};

/** Settings page that lists records. */
export function SettingsList<Item extends { id: string }>(props: Props<Item>) {
  const { columns, row, empty, footer, add } = props;
  return (
    <Page
      title={props.title}
      lead={props.lead}
      actions={
        add && (
          <>
            {props.actions}
            <Button leftSection={<IconPlus size={16} />} onClick={add.onClick}>
              {add.label}
            </Button>
          </>
        )
      }
    >
      <QueryResult of={props.query}>
        {({ data }) => {
          if (data.length === 0 && empty) return empty;
          const rows = data.map(item => <Fragment key={item.id}>{row(item)}</Fragment>);
          return columns ? (
            <Card padding={0}>
              <ResponsiveTable of={columns}>{rows}</ResponsiveTable>
            </Card>
          ) : (
            <Stack>
              {rows}
              {footer?.(data)}
            </Stack>
          );
        }}
      </QueryResult>
      {props.children}
    </Page>
  );
}
