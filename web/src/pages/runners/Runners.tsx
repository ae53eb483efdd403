import { Button, Card, Group, Stack, Text } from "@mantine/core";
import { IconPlus, IconServer2 } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { Runner } from "@/api/types";
import { useMay, useOrg } from "@/data/me";
import { runnersQuery, useRemoveRunner } from "@/data/runners";
import { Confirm } from "@/ui/Confirm";
import { Empty } from "@/ui/Empty";
import { tell } from "@/ui/notify";
import { Page } from "@/ui/Page";
import { Query } from "@/ui/Query";
import { NewRunner } from "./NewRunner";
import { nameOf, RunnerCard } from "./RunnerCard";

/** The machines that run steps: whether they are there, what they can do, and what they do now. */
export function Runners() {
  const org = useOrg();
  const mayWrite = useMay("runners:write");
  const runners = useQuery(runnersQuery(org));
  const remove = useRemoveRunner(org);
  const [isAdding, setAdding] = useState(false);
  const [removing, setRemoving] = useState<Runner | null>(null);
  const add = (
    <Button leftSection={<IconPlus size={16} />} onClick={() => setAdding(true)}>
      Add a runner
    </Button>
  );
  return (
    <Page
      title="Runners"
      lead="Machines that run the steps of pipelines. A step goes to one that has the labels it asks for."
      actions={mayWrite && add}
    >
      <Query of={runners}>
        {({ data }) => (
          <Stack>
            {data.map(each => (
              <RunnerCard key={each.id} runner={each} mayWrite={mayWrite} remove={() => setRemoving(each)} />
            ))}
            {data.every(each => each.isEmbedded) && (
              <Card>
                <Empty icon={IconServer2} title="No other machines yet">
                  <Stack gap="sm" align="center">
                    <Text c="dimmed">
                      {data.length > 0
                        ? "Steps run on the server's own machine. Add a runner to have them run elsewhere."
                        : "Nothing runs steps: the server was started without a runner. Add one."}
                    </Text>
                    {!mayWrite && <Text c="dimmed">An admin can add one.</Text>}
                  </Stack>
                </Empty>
              </Card>
            )}
          </Stack>
        )}
      </Query>
      {isAdding && <NewRunner onClose={() => setAdding(false)} />}
      <Confirm
        opened={removing !== null}
        onClose={() => setRemoving(null)}
        title={`Remove ${removing ? nameOf(removing) : "the runner"}`}
        action="Remove"
        danger
        pending={remove.isPending}
        error={remove.error}
        onConfirm={() =>
          removing &&
          remove.mutate(removing.id, {
            onSuccess: () => {
              tell(`${nameOf(removing)} is removed.`);
              setRemoving(null);
            },
          })
        }
      >
        <Text size="sm">
          It is not let in any more, and stops what it runs. To have it back, add a runner and register it
          again.
        </Text>
        {removing && removing.running.length > 0 && (
          <Group gap={4}>
            <Text size="sm" fw={600}>
              It runs {removing.running.map(each => each.step).join(", ")} now.
            </Text>
          </Group>
        )}
      </Confirm>
    </Page>
  );
}
