import { Skeleton, Stack, VisuallyHidden } from "@mantine/core";

/** Rows that are on their way, in about the height they will have. */
export function Loading({ rows = 4, height = 56 }: { rows?: number; height?: number }) {
  return (
    <Stack gap="sm" aria-busy="true">
      <VisuallyHidden role="status">Loading</VisuallyHidden>
      {Array.from({ length: rows }, (_, row) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the rows are all the same
        <Skeleton key={row} height={height} radius="lg" />
      ))}
    </Stack>
  );
}
