import { Group, Kbd, Modal, Table, Text } from "@mantine/core";
import { useAccess } from "@/data/me";
import { NAV_ITEMS, visiblePages } from "./navigation";

const SHORTCUTS: [string[], string][] = [
  [["⌘ / Ctrl", "K"], "Search"],
  [["?"], "Show keyboard shortcuts"],
  [["t"], "Toggle theme"],
  [["/"], "Focus the search field"],
];

/** List of keyboard shortcuts. */
export default function ShortcutsDialog({ onClose }: { onClose: () => void }) {
  const pages = visiblePages(useAccess(), NAV_ITEMS);
  const shortcuts = [
    ...SHORTCUTS,
    ...pages.map((item): [string[], string] => [["g", item.key], `Go to ${item.label}`]),
  ];
  return (
    <Modal opened onClose={onClose} title={<Text fw={650}>Keyboard shortcuts</Text>}>
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
    </Modal>
  );
}
