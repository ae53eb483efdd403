import { Card, Stack, Text } from "@mantine/core";
import { IconServer2 } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { Runner } from "@/api/types";
import { useMay, useOrg } from "@/data/me";
import { runnersQuery } from "@/data/runners";
import { Empty } from "@/ui/Empty";
import { SettingsList } from "@/ui/lists/SettingsList";
import { NewRunner } from "../dialogs/NewRunner";
import { RemoveRunner } from "../dialogs/RemoveRunner";
import { RunnerCard } from "./RunnerCard";

export function Runners() {
  const mayWrite = useMay("runners:write");
  const runners = useQuery(runnersQuery(useOrg()));
  const [isAdding, setAdding] = useState(false);
  const [removing, setRemoving] = useState<Runner | null>(null);
  return (
    <SettingsList
      title="Runners"
      lead="Machines that run pipeline steps, matched by label"
      add={mayWrite && { label: "Add runner", onClick: () => setAdding(true) }}
      query={runners}
      row={runner => <RunnerCard runner={runner} mayWrite={mayWrite} remove={() => setRemoving(runner)} />}
      footer={all =>
        all.every(each => each.isEmbedded) && (
          <Card>
            <Empty icon={IconServer2} title="No runners on other machines yet">
              <Stack gap="sm" align="center">
                <Text c="dimmed">
                  {all.length > 0
                    ? "Steps run on the server’s machine. Add a runner to run them elsewhere."
                    : "No runner can run steps: the server was started without its built-in runner. Add a runner."}
                </Text>
                {!mayWrite && <Text c="dimmed">Ask an admin to add one.</Text>}
              </Stack>
            </Empty>
          </Card>
        )
      }
    >
      {isAdding && <NewRunner onClose={() => setAdding(false)} />}
      {removing && <RemoveRunner runner={removing} onClose={() => setRemoving(null)} />}
    </SettingsList>
  );
}
