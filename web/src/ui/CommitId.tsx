import { Text } from "@mantine/core";
import { formatCommit } from "@/format/commit";

/** Short commit; the full hash is shown on hover. */
export function CommitId({ id }: { id: string }) {
  const short = formatCommit(id);
  return (
    <Text span className="commit" title={short === id ? undefined : id}>
      {short}
    </Text>
  );
}
