import { Box, Group, Stack, Text, Title } from "@mantine/core";
import { useDocumentTitle } from "@mantine/hooks";
import type { ReactNode } from "react";

type Props = { title: string; lead?: ReactNode; actions?: ReactNode; children: ReactNode };

/** Page with title (also of the browser tab), subtitle, actions and content. */
export function Page({ title, lead, actions, children }: Props) {
  useDocumentTitle(`${title} · Berth`);
  return (
    <Stack gap="lg">
      <Group justify="space-between" align="flex-start" gap="sm">
        <Box style={{ flex: "1 1 16rem", minWidth: 0 }}>
          <Title order={1} className="wrap">
            {title}
          </Title>
          {lead && (
            <Text c="dimmed" mt={2} component="div" className="wrap">
              {lead}
            </Text>
          )}
        </Box>
        {actions && (
          <Group gap="sm" className="page-actions">
            {actions}
          </Group>
        )}
      </Group>
      {children}
    </Stack>
  );
}
