import { Text } from "@mantine/core";
import { shortCommit } from "@/format/commit";

/** Short commit; the full hash is shown on hover. */
export function Commit({ id }: { id: string }) {
  const short = shortCommit(id);
  return (
    <Text span className="commit" title={short === id ? undefined : id}>
      {short}
    </Text>
  );
}
