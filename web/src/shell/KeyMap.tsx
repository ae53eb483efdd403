import { Group, Kbd, Modal, Stack, Table, Text } from "@mantine/core";
import { PLACES } from "./places";

const KEYS: [string[], string][] = [
  [["⌘ / Ctrl", "K"], "Find anything"],
  [["?"], "This map"],
  [["t"], "Light or dark"],
  [["/"], "To the search field of the page"],
  ...PLACES.map((place): [string[], string] => [["g", place.key], place.label]),
];

/** What the keyboard can do. */
export default function KeyMap({ onClose }: { onClose: () => void }) {
  return (
    <Modal opened onClose={onClose} title={<Text fw={650}>Keys</Text>}>
      <Stack>
        <Table>
          <Table.Tbody>
            {KEYS.map(([keys, what]) => (
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
        <Text size="sm" c="dimmed">
          Everything else is reached with Tab, Enter and Escape.
        </Text>
      </Stack>
    </Modal>
  );
}
