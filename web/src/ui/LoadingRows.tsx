import { Skeleton, Stack, VisuallyHidden } from "@mantine/core";

/** Skeleton rows, about as high as the content. */
export function LoadingRows({ rows = 4, height = 56 }: { rows?: number; height?: number }) {
  return (
    <Stack gap="sm" aria-busy="true">
      <VisuallyHidden role="status">Loading</VisuallyHidden>
      {Array.from({ length: rows }, (_, row) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the rows are identical
        <Skeleton key={row} height={height} radius="lg" />
      ))}
    </Stack>
  );
}
