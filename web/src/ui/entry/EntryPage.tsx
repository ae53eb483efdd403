import { Paper, Stack, Text, Title } from "@mantine/core";
import { useDocumentTitle } from "@mantine/hooks";
import type { ReactNode } from "react";
import { Logo } from "@/shell/Logo";
import classes from "./entry.module.css";
import { HarbourDrawing } from "./HarbourDrawing";

type Props = { name: string; title: string; lead?: ReactNode; children?: ReactNode };

/** Page that works without a login: one card. `name` is the title of the browser tab. */
export function EntryPage({ name, title, lead, children }: Props) {
  useDocumentTitle(`${name} · Berth`);
  return (
    <main className={classes.page}>
      <HarbourDrawing />
      <Paper className={classes.card} radius="lg" p="xl" shadow="md" withBorder>
        <Stack>
          <Stack gap="xs">
            <Logo size={40} />
            <Title order={1} className="wrap">
              {title}
            </Title>
            {lead && (
              <Text c="dimmed" className="wrap">
                {lead}
              </Text>
            )}
          </Stack>
          {children}
        </Stack>
      </Paper>
    </main>
  );
}
