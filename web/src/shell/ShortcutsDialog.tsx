import { Group, Kbd, Modal, Table, Text } from "@mantine/core";
import { useAccess } from "@/data/me";
import { NAV_ITEMS, visiblePages } from "./navigation";

const SHORTCUTS: [string[], string][] = [
  [["⌘ / Ctrl", "K"], "Search"],
  [["?"], "Show keyboard shortcuts"],
  [["t"], "Toggle theme"],
  [["/"], "Focus the search field"],
];

const LOG_SHORTCUTS: [string[], string][] = [
  [["f"], "Full screen"],
  [["w"], "Wrap long lines"],
  [["z"], "Collapse or expand all groups"],
  [["n"], "Next match"],
  [["p"], "Previous match"],
  [["e"], "Go to the failing line"],
  [["b"], "Go to the end and follow"],
];

/** List of keyboard shortcuts. */
export default function ShortcutsDialog({ onClose }: { onClose: () => void }) {
  const pages = visiblePages(useAccess(), NAV_ITEMS);
  const shortcuts = [
    ...SHORTCUTS,
    ...pages.map((item): [string[], string] => [["g", item.key], `Go to ${item.label}`]),
  ];
  return (
    <Modal opened onClose={onClose} title={<Text fw={600}>Keyboard shortcuts</Text>}>
      <ShortcutTable of={shortcuts} />
      <Text fw={600} size="sm" mt="md" mb={4}>
        Logs
      </Text>
      <ShortcutTable of={LOG_SHORTCUTS} />
    </Modal>
  );
}

function ShortcutTable({ of: shortcuts }: { of: [string[], string][] }) {
  return (
    <Table>
      <Table.Tbody>
        {shortcuts.map(([keys, what]) => (
          <Table.Tr key={what}>
            <Table.Td w={140}>
              <Group gap={4}>
                {keys.map(each => (
                  <Kbd key={each}>{each}</Kbd>
                ))}
              </Group>
            </Table.Td>
            <Table.Td>{what}</Table.Td>
          </Table.Tr>
        ))}
      </Table.Tbody>
    </Table>
  );
}
