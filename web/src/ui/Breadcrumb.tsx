import { Text } from "@mantine/core";
import { Fragment, type ReactNode } from "react";

/** Path to a page: links to the pages above it, and its own name. */
export function Breadcrumb({ path }: { path: { key: string; label: ReactNode }[] }) {
  return (
    <Text component="nav" aria-label="Breadcrumb" size="sm" c="dimmed" className="wrap">
      {path.map(({ key, label }, at) => (
        <Fragment key={key}>
          {at > 0 && <span aria-hidden> / </span>}
          {at === path.length - 1 ? <span aria-current="page">{label}</span> : label}
        </Fragment>
      ))}
    </Text>
  );
}
