import { Text, Tooltip } from "@mantine/core";
import { shortCommit } from "@/words/commit";

export function Commit({ id }: { id: string }) {
  const short = shortCommit(id);
  const text = (
    <Text span className="commit">
      {short}
    </Text>
  );
  return short === id ? text : <Tooltip label={id}>{text}</Tooltip>;
}
