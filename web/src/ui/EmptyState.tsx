import { Stack, Text, ThemeIcon, Title } from "@mantine/core";
import type { TablerIcon } from "@tabler/icons-react";
import type { ReactNode } from "react";

type Props = {
  icon: TablerIcon;
  title: string;
  /** Whether the state is the whole page, whose heading the title is. */
  isPage?: boolean;
  children?: ReactNode;
};

/** Empty state: a title, and how to add the first item. */
export function EmptyState({ icon: Icon, title, isPage, children }: Props) {
  return (
    <Stack align="center" gap="sm" py="xl" px="md" ta="center" w="100%" maw={640} mx="auto">
      <ThemeIcon size={52} radius="xl" variant="light" color="tide">
        <Icon size={26} stroke={1.6} aria-hidden />
      </ThemeIcon>
      <Title order={isPage ? 1 : 2} fz={isPage ? undefined : "lg"}>
        {title}
      </Title>
      {typeof children === "string" ? <Text c="dimmed">{children}</Text> : children}
    </Stack>
  );
}
