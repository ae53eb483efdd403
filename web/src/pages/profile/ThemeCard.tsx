import { Card, SegmentedControl, Text, Title, useMantineColorScheme } from "@mantine/core";

const SCHEMES = [
  { value: "light", label: "Light" },
  { value: "dark", label: "Dark" },
  { value: "auto", label: "System" },
] as const;

/** Theme of the dashboard in this browser. */
export function ThemeCard() {
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  return (
    <Card component="section" aria-label="Theme">
      <Title order={2} mb={4}>
        Theme
      </Title>
      <Text c="dimmed" size="sm" mb="sm">
        Applies to this browser. Press <code>t</code> to switch between light and dark.
      </Text>
      <SegmentedControl
        aria-label="Theme"
        w="fit-content"
        data={[...SCHEMES]}
        value={colorScheme}
        onChange={value => setColorScheme(SCHEMES.find(each => each.value === value)?.value ?? "auto")}
      />
    </Card>
  );
}
